"""The README's first lines run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
IMPORTS = "from datetime import datetime, timezone\nimport pyarrow as pa\nimport tidelake as tl\n"
READINGS = """
hours = [datetime(2026, 1, 31, 5, tzinfo=timezone.utc), datetime(2026, 2, 1, 1, tzinfo=timezone.utc)]
readings = pa.table({"meter": [1, 1], "reading": [1.5, 2.5], "at": pa.array(hours, pa.timestamp("us", "UTC"))})
"""


def test_readme_writing_example_runs_from_an_empty_folder(tmp_path) -> None:
    """A first-time user who pastes the README's lines into an empty folder gets a merged table."""
    example = _block("fares = tl.create_table")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    assert _printed(example, tmp_path).strip() == "[{'id': 1, 'fare': 8.0}, {'id': 2, 'fare': 9.0}]"


def test_readme_midnight_example_reads_the_month_as_it_was(tmp_path) -> None:
    """The lines on event time leave January in the read-optimised view, and say how far the views are."""
    asked = "print(meters.scan(mode='read_optimized').to_arrow()['reading'].to_pylist(), meters.scan().to_arrow()['reading'])"
    told = _printed(IMPORTS + READINGS + _block("meters = tl.create_table") + asked, tmp_path)
    assert "declared complete: default 2026-02-01T00:00:00.000Z" in told
    assert "\n[1.5] " in told
    assert "2.5" in told


def test_readme_smiths_example_has_plan_c_and_says_why(tmp_path) -> None:
    """The lines on several event times keep Plan C, and John."""
    asked = "print(policies.scan().to_arrow()['agent'].to_pylist())"
    told = _printed(IMPORTS + _block("policies = tl.create_table") + asked, tmp_path)
    assert "plan of smith: 'C'" in told
    assert "'A' (p_ts=1): older: p_ts=1 is before 3" in told
    assert told.rstrip().endswith("['John']")


def _block(start: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if start in block]
    return str(found)


def _printed(lines: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", lines], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout
