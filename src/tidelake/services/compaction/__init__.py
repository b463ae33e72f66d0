"""Compaction: logs folded into new base files."""

from tidelake.services.compaction.execute import compact, run_compaction, schedule_compaction

__all__ = ["compact", "run_compaction", "schedule_compaction"]
