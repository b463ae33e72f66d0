"""Clustering: small files put together, rows sorted."""

from tidelake.services.clustering.execute import StalePlanError, cluster, run_clustering, schedule_clustering

__all__ = ["StalePlanError", "cluster", "run_clustering", "schedule_clustering"]
