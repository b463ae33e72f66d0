"""SQL on a Spark session: CALL statements, and views by name. No pyspark is imported here: the session is the caller's."""

from tidelake.sql.session import enable, view

__all__ = ["enable", "view"]
