"""Text for terminals: tables, facts, colours, sizes of the terminal. Knows nothing of lakehouse tables.

What comes out of a table (names, values, paths) was written by others, so control characters are shown as escapes: no
value moves the cursor or colours the screen. Colours are used on a terminal only (``NO_COLOR`` and ``FORCE_COLOR`` are
respected), and nothing is cut to the width of a terminal that is not there.
"""

from __future__ import annotations

import io
import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PIPED_WIDTH: Final = 120
LEAST_WIDTH: Final = 40
_COLOURS: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
_SHORT_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a text table; ``max_width`` cuts long cells, ``is_number`` sets them to the right."""

    title: str
    is_number: bool = False
    max_width: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a colour; ``is_clean`` for text of our own making."""

    text: str
    colour: str | None = None
    is_clean: bool = False


def write(text: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def write_json(value: object) -> None:
    """A value as readable JSON."""
    write(json.dumps(value, indent=2, ensure_ascii=False))


def complain(text: str) -> None:
    """One line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(f"tidelake: {clean(' '.join(text.split()))}\n")


def prepare_output() -> None:
    """Let no character that the terminal's encoding lacks end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def has_colours() -> bool:
    """Whether standard output shows colours."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal() and os.environ.get("TERM") != "dumb")


def has_unicode() -> bool:
    """Whether standard output shows block and line characters."""
    try:
        "█─┊▶".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width_limit() -> int | None:
    """How wide a line may be; None if the output is piped and no one said."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told[:6]) > 0:
        return max(LEAST_WIDTH, int(told[:6]))
    if not is_terminal():
        return None
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return PIPED_WIDTH
    # A terminal that does not know its width says 0.
    return max(LEAST_WIDTH, columns) if columns else PIPED_WIDTH


def coloured(text: str, colour: str | None) -> str:
    """The text in a colour, where colours are shown."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour and has_colours() else text


def clean(text: str) -> str:
    """The text with everything escaped that is not seen, or that steers a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_SHORT_ESCAPES.get(c) or _escape(c) for c in text)


def _escape(character: str) -> str:
    if unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def display_width(text: str) -> int:
    """How many columns of a terminal a clean text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    if display_width(text) <= width:
        return text
    kept: list[str] = []
    used = 1
    for character in text:
        used += display_width(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + ("…" if has_unicode() else "~")


def table_lines(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]], rule: bool = True) -> list[str]:
    """A text table: a head, a rule and the rows, each column as wide as its widest cell."""
    cells = _cells(columns, rows)
    widths = _widths(columns, cells)
    head = _line(columns, [Cell(clean(column.title), "bold") for column in columns], widths)
    dash = "─" if has_unicode() else "-"
    lines = [head, coloured("  ".join(dash * width for width in widths), "dim")] if rule else [head]
    return [*lines, *(_line(columns, row, widths) for row in cells)]


def table_width(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> int:
    """How much room a text table takes, with the blanks after its last column."""
    return sum(width + 2 for width in _widths(columns, _cells(columns, rows)))


def _cells(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> list[list[Cell]]:
    return [[_cell(value, column) for value, column in zip(row, columns, strict=True)] for row in rows]


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max(display_width(clean(column.title)), max((display_width(row[i].text) for row in cells), default=0))
        for i, column in enumerate(columns)
    ]


def _cell(value: str | Cell, column: Column) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    text = cell.text if cell.is_clean else clean(cell.text)
    return Cell(cut(text, column.max_width) if column.max_width else text, cell.colour)


def _line(columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int]) -> str:
    parts = []
    for i, (column, cell, width) in enumerate(zip(columns, row, widths, strict=True)):
        padding = " " * (width - display_width(cell.text))
        shown = coloured(cell.text, cell.colour)
        is_last = i == len(widths) - 1
        parts.append(padding + shown if column.is_number else shown if is_last else shown + padding)
    return "  ".join(parts).rstrip()


def fact_lines(facts: Sequence[tuple[str, str]]) -> list[str]:
    """Names and what is said of them, in two columns."""
    width = max((len(name) for name, _ in facts), default=0)
    return [f"{coloured(name.ljust(width), 'dim')}  {clean(value)}" for name, value in facts]


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``1,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def human_duration(milliseconds: int) -> str:
    """A duration in the one or two units a person would choose."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, small_size, small_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"
