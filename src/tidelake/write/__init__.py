"""Writing: prepare, tag, write files, commit; conflicts, rollback, recovery."""

from tidelake.write.context import FileOptions
from tidelake.write.create import create
from tidelake.write.deletes import key_columns, rows_with
from tidelake.write.job import SORTS, WriteRequest, declare, delete_partitions, make_metadata, write
from tidelake.write.prepare import to_arrow
from tidelake.write.redo import redone
from tidelake.write.transaction import Commit, recover
from tidelake.write.txn import make_txn
from tidelake.write.undo import undo

__all__ = [
    "SORTS",
    "Commit",
    "FileOptions",
    "WriteRequest",
    "create",
    "declare",
    "delete_partitions",
    "key_columns",
    "make_metadata",
    "make_txn",
    "recover",
    "redone",
    "rows_with",
    "to_arrow",
    "undo",
    "write",
]
