"""Checks of this machine: Python, packages, Java, and the Python of Spark's workers.

Versions are read from what is installed, without loading it. Java is asked for its version, which is a program that
starts and ends; no Spark is started.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from typing import Final

from tidelake import __version__
from tidelake.cli.checks import Check, ok, problem, warning
from tidelake.errors import UnsupportedError

LEAST_PYTHON: Final = (3, 10)
NEEDED: Final = {"pyarrow": (24,), "polars": (1, 30), "fastavro": (1, 10), "obstore": (0, 12), "sqlglot": (26,)}
"""The least versions that pyproject.toml asks for."""
NEEDED_BY_SPARK: Final = {"pyspark": (4, 0), "pandas": (2, 2)}
_TRY_S: Final = 60


def machine_checks() -> list[Check]:
    """All checks of this machine."""
    checks = [_python(), ok("tidelake", f"version {__version__}")]
    checks.extend(_package(name, least, is_needed=True) for name, least in NEEDED.items())
    checks.extend(_package(name, least, is_needed=False) for name, least in NEEDED_BY_SPARK.items())
    checks.append(_java())
    checks.append(_worker_python())
    return checks


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < LEAST_PYTHON:
        return problem("python", f"{version} is too old: install Python {_dotted(LEAST_PYTHON)} or later")
    return ok("python", f"{version} at {sys.executable}")


def _package(name: str, least: tuple[int, ...], is_needed: bool) -> Check:
    complaint = problem if is_needed else warning
    what = "tidelake" if is_needed else "tidelake[spark]"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        purpose = "" if is_needed else ", so tables are read in process only"
        return complaint(name, f"not installed{purpose}: pip install '{what}'")
    if numbers(version) < least:
        return complaint(name, f"{version} is older than {_dotted(least)}: pip install --upgrade '{what}'")
    if name == "pandas" and numbers(version) >= (3,):
        return warning(name, f"{version} is newer than Spark's Arrow functions expect: pip install 'pandas<3'")
    return ok(name, version)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: 4.3.0.dev1 is (4, 3, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _java() -> Check:
    from tidelake.spark.java import find_java

    try:
        java = find_java()
    except UnsupportedError as error:
        return warning("java", f"{error} (only Spark needs it)")
    return ok("java", f"Java {java.version} from {java.origin}, at {java.home}")


def _worker_python() -> Check:
    about = "PYSPARK_PYTHON"
    driver = sys.version_info[:2]
    named = os.environ.get(about)
    if not named:
        return ok(about, "not set: a session of tidelake gives Spark's workers this interpreter")
    program = shutil.which(named)
    found = None if program is None else python_version(program)
    if found is None:
        return problem(about, f"{named} does not run: set {about} to {sys.executable}, or unset it")
    if found != driver:
        return problem(
            about,
            f"{named} is Python {_dotted(found)}, this is {_dotted(driver)}, and Spark wants both equal: "
            f"set {about} to {sys.executable}, or unset it",
        )
    return ok(about, f"{named}, Python {_dotted(found)} as here")


def python_version(program: str) -> tuple[int, ...] | None:
    """The version (two numbers) of a Python program; None if it does not run."""
    asked = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", asked], capture_output=True, text=True, timeout=_TRY_S, check=False)
        return tuple(int(part) for part in done.stdout.split()) or None
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
