"""The Table facade."""

from tidelake.table.scan import Scan
from tidelake.table.table import Table, create_table, open_table

__all__ = ["Scan", "Table", "create_table", "open_table"]
