"""File groups, slices, and which of them a view shows."""

from tidelake.filegroup.listing import PartitionConstraint
from tidelake.filegroup.partitions import NULL_PARTITION, PartitionCodec
from tidelake.filegroup.slices import BaseFile, FileGroup, FileSlice, LogFile, build_slices
from tidelake.filegroup.view import TableView, ViewPoint

__all__ = [
    "NULL_PARTITION",
    "BaseFile",
    "FileGroup",
    "FileSlice",
    "LogFile",
    "PartitionCodec",
    "PartitionConstraint",
    "TableView",
    "ViewPoint",
    "build_slices",
]
