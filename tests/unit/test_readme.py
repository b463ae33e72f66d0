"""The README's first lines run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_readme_writing_example_runs_from_an_empty_folder(tmp_path) -> None:
    """A first-time user who pastes the README's lines into an empty folder gets a merged table."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "create_table" in block]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[{'id': 1, 'fare': 8.0}, {'id': 2, 'fare': 9.0}]"
