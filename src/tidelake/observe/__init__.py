"""Looking at tables: summaries."""

from tidelake.observe.summary import (
    CommitSummary,
    InstantSummary,
    TableSummary,
    commit_summaries,
    human_bytes,
    instant_summaries,
    summarise,
    summary_html,
)

__all__ = [
    "CommitSummary",
    "InstantSummary",
    "TableSummary",
    "commit_summaries",
    "human_bytes",
    "instant_summaries",
    "summarise",
    "summary_html",
]
