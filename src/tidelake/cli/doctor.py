"""``tidelake doctor``: checks of this machine and of a table, each with what to do. Writes nothing to the table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from tidelake.cli import text
from tidelake.cli.doctor_machine import machine_checks
from tidelake.cli.text import Cell, Column

_COLOURS: Final = {"ok": "green", "warning": "yellow", "problem": "red"}


def run(path: str | None, options: dict[str, str], *, as_json: bool) -> int:
    """Check, and return 1 if there is a problem."""
    checks = machine_checks()
    if path is not None:
        from tidelake.cli.doctor_table import table_checks

        checks += table_checks(path, options)
    problems = sum(check.status == "problem" for check in checks)
    if as_json:
        text.write_json([asdict(check) for check in checks])
        return 1 if problems else 0
    columns = [Column("check"), Column("status"), Column("what")]
    rows: list[list[str | Cell]] = [
        [check.about, Cell(check.status, _COLOURS[check.status]), check.says] for check in checks
    ]
    for line in text.table_lines(columns, rows):
        text.write(line)
    warnings = sum(check.status == "warning" for check in checks)
    text.write(f"{text.counted(problems, 'problem')}, {text.counted(warnings, 'warning')}")
    return 1 if problems else 0
