"""Found by Spark by its name: makes ``spark.read.format("tidelake")`` work after ``pip install`` alone."""

from tidelake.spark.datasource import TidelakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
