"""Runs the tests as several pytest processes side by side, as many as there are cores.

Spark tests share one session, so they are one process; the others are split by folder, into pieces of a few minutes.
Arguments go to pytest. The exit code is that of the worst process; a process that found no test under the given arguments
counts as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

GROUPS = (
    ("spark", ["tests/spark"]),
    ("crash", ["tests/crash"]),
    ("model, golden, interop", ["tests/model", "tests/golden", "tests/interop"]),
    ("unit, services", ["tests/unit/services"]),
    ("unit, the others", ["tests/unit", "--ignore=tests/unit/services"]),
)
"""The longest first, so that the last one to end is short."""
NOTHING_FOUND = 5


def run(name: str, folders: list[str], arguments: list[str]) -> tuple[str, int, str, float]:
    """One pytest process: its name, exit code, output and seconds."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, *folders]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return name, 0 if done.returncode == NOTHING_FOUND else done.returncode, done.stdout, time.monotonic() - began


def main(arguments: list[str]) -> int:
    """Run all groups; print each one's output when it has ended."""
    worst = 0
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        running = [pool.submit(run, name, folders, arguments) for name, folders in GROUPS]
        for future in as_completed(running):
            name, code, output, seconds = future.result()
            print(f"== {name}: {'passed' if code == 0 else f'FAILED ({code})'} in {seconds:.0f} s", flush=True)
            print(output, flush=True)
            worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
