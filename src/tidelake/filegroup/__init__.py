"""File groups, slices, and which of them a view shows."""

from tidelake.filegroup.listing import PartitionConstraint
from tidelake.filegroup.partitions import NULL_PARTITION, PartitionCodec
from tidelake.filegroup.slices import BaseFile, FileGroup, FileSlice, LogFile, build_slices, missing_file
from tidelake.filegroup.state import build_state, first_state, keep_state, load_state, save_state
from tidelake.filegroup.state_table import TableState
from tidelake.filegroup.view import TableView, ViewPoint

__all__ = [
    "NULL_PARTITION",
    "BaseFile",
    "FileGroup",
    "FileSlice",
    "LogFile",
    "PartitionCodec",
    "PartitionConstraint",
    "TableState",
    "TableView",
    "ViewPoint",
    "build_slices",
    "build_state",
    "first_state",
    "keep_state",
    "load_state",
    "missing_file",
    "save_state",
]
