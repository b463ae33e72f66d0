"""Golden tables unpacked into a folder of the test, and the command line run in this process."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidelake.cli.main import main

GOLDEN = Path(__file__).parents[2] / "golden" / "tables"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command line gave."""

    code: int
    out: str
    err: str

    def json(self) -> object:
        return json.loads(self.out)

    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], str]:
    """Unpacks a golden table and returns its path."""

    def unpack(name: str) -> str:
        folder = tmp_path / name
        with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
            archive.extractall(folder)
        return str(folder)

    return unpack


@pytest.fixture
def tidelake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a command line through the entry point."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TIDELAKE_DEBUG", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def make_timeline(golden: Callable[[str], str]) -> Callable[..., str]:
    """A table whose timeline holds just these file names, all empty."""

    def make(*names: str) -> str:
        path = golden("cow_v9_empty")
        folder = Path(path) / ".hoodie" / "timeline"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()
        return path

    return make


def snapshot_of(folder: str) -> dict[str, tuple[int, int]]:
    """Every file below a folder with its size and time, to see that nothing was touched."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in Path(folder).rglob("*") if path.is_file()
    }


@pytest.fixture
def untouched() -> Callable[[str], dict[str, tuple[int, int]]]:
    """What there is below a folder: compare before and after."""
    return snapshot_of
