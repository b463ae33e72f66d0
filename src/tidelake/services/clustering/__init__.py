"""Clustering: small files put together, rows sorted."""

from tidelake.services.clustering.execute import (
    StalePlanError,
    cluster,
    cluster_inline,
    run_clustering,
    schedule_clustering,
)

__all__ = ["StalePlanError", "cluster", "cluster_inline", "run_clustering", "schedule_clustering"]
