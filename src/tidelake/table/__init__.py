"""The Table facade."""

from tidelake.table.scan import Scan
from tidelake.table.table import Table, open_table

__all__ = ["Scan", "Table", "open_table"]
