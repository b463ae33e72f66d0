"""Hostile input: bytes and texts that lie are refused at once and within 200 MB each, by a typed error.

The cases are in ``hostile_cases.py``. They run in one process of their own, whose address space is limited to what it
has once everything is loaded plus 200 MB for the case, so that a case that wants more fails there and not here; time is
that of the processor, so that a busy machine does not matter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: Of the processor: a case takes less than one second, one that grows without bound never ends; nothing lies between.
LIMIT_S = 20.0
LIMIT_BYTES = 200 * 1024 * 1024
MANY = 25


@pytest.fixture(scope="session")
def results() -> dict[str, dict[str, Any]]:
    """What each case gave: the error's kind and text, seconds of the processor, and growth of memory."""
    source = HERE.parents[1] / "src"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(HERE)])}
    command = [sys.executable, str(HERE / "hostile_cases.py"), str(LIMIT_BYTES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    found = {(result := json.loads(line))["case"]: result for line in done.stdout.splitlines()}
    assert done.returncode == 0, f"after {list(found)[-1:]}: {done.stderr[-2000:]}"
    return found


def test_hostile_inputs_are_many_and_all_answered(results: dict[str, dict[str, Any]]) -> None:
    """There are many hostile inputs, and the process that met them came to its end."""
    print(f"{len(results)} cases; slowest {max(r['seconds'] for r in results.values()):.2f} s,")
    print(f"largest {max(r['grown'] for r in results.values()) / 2**20:.0f} MiB")
    assert len(results) >= MANY


def test_hostile_input_is_refused_by_a_typed_error(results: dict[str, dict[str, Any]]) -> None:
    """Each hostile input gives an error of ours, or what the case says is right to give."""
    wrong = {case: (r["kind"], r["text"][:300]) for case, r in results.items() if r["kind"] not in r["wanted"]}
    assert not wrong


def test_hostile_input_is_refused_with_a_short_message(results: dict[str, dict[str, Any]]) -> None:
    """No error repeats a hostile input whole: its text stays readable."""
    long = {case: len(r["text"]) for case, r in results.items() if len(r["text"]) > 2_000}
    assert not long


def test_hostile_input_does_not_keep_the_processor(results: dict[str, dict[str, Any]]) -> None:
    """No hostile input makes work that grows without bound."""
    slow = {case: r["seconds"] for case, r in results.items() if r["seconds"] > LIMIT_S}
    assert not slow


def test_hostile_input_is_refused_within_its_memory(results: dict[str, dict[str, Any]]) -> None:
    """No hostile input makes the process grow by more than 200 MB."""
    large = {case: r["grown"] for case, r in results.items() if r["grown"] > LIMIT_BYTES}
    assert not large
