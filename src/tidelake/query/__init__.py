"""Queries: planning scans and reading slices."""

from tidelake.query.exact_view import plan_scan
from tidelake.query.filters import Filter, SparkSql, parse_filter
from tidelake.query.read_slice import read_base, read_slice
from tidelake.query.snapshot import MODES, ScanPlan, ScanRequest, plan_slices
from tidelake.query.source import PointInTime, TableSource
from tidelake.query.table_schema import TableSchema, table_schema

__all__ = [
    "MODES",
    "Filter",
    "PointInTime",
    "ScanPlan",
    "ScanRequest",
    "SparkSql",
    "TableSchema",
    "TableSource",
    "parse_filter",
    "plan_scan",
    "plan_slices",
    "read_base",
    "read_slice",
    "table_schema",
]
