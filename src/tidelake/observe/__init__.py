"""Looking at tables: summaries."""

from tidelake.observe.summary import CommitSummary, TableSummary, commit_summaries, human_bytes, summarise, summary_html

__all__ = ["CommitSummary", "TableSummary", "commit_summaries", "human_bytes", "summarise", "summary_html"]
