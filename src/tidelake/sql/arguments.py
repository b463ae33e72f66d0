"""The arguments of one CALL, as the procedures take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelake.sql.call import Value
from tidelake.table import Table

Row = tuple[object, ...]
FindTable = Callable[[str | None, str | None], Table]
"""The table that a view's name or a path (``table``), or a path alone (``path``), stands for."""


class Arguments:
    """The arguments of one CALL, checked and with defaults."""

    def __init__(self, values: Mapping[str, Value], find: FindTable) -> None:
        self._values = values
        self._find = find

    def table(self) -> Table:
        """The table that ``table`` or ``path`` names."""
        return self._find(self.text("table"), self.text("path"))

    def text(self, name: str) -> str | None:
        value = self._values[name]
        return None if value is None else str(value)

    def number(self, name: str) -> int:
        return int(self._values[name] or 0)

    def flag(self, name: str) -> bool:
        return bool(self._values[name])
