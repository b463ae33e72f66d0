"""Compaction: logs folded into new base files."""

from tidelake.services.compaction.execute import compact, compact_inline, run_compaction, schedule_compaction

__all__ = ["compact", "compact_inline", "run_compaction", "schedule_compaction"]
