"""A Spark cluster of its own on loopback: a master and two workers, each of another address, so that Spark takes them for two hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tidelake.spark.java import find_java

PATIENCE_S = 60.0
HOSTS = ("127.0.0.1", "127.0.0.2")


@contextmanager
def standalone(folder: Path, extra_env: dict[str, str] | None = None) -> Iterator[str]:
    """The master's URL; everything ends with the block."""
    environment = {
        **os.environ,
        "JAVA_HOME": find_java().home,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "PYSPARK_PYTHON": sys.executable,
        **(extra_env or {}),
    }
    environment.pop("SPARK_HOME", None)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        master = _start(stack, folder / "master.log", environment, "master.Master", "--host", HOSTS[0], "--port", "0")
        url = _told(master, folder / "master.log", r"Starting Spark master at (spark://\S+)")
        for number, host in enumerate(HOSTS):
            log = folder / f"worker{number}.log"
            options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}")]
            worker = _start(stack, log, environment, "worker.Worker", *options, url)
            _told(worker, log, r"Successfully registered with master (\S+)")
        yield url


def _start(
    stack: ExitStack, log: Path, environment: dict[str, str], what: str, *options: str
) -> subprocess.Popen[bytes]:
    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = ["bash", str(launcher), f"org.apache.spark.deploy.{what}", "--webui-port", "0", *options]
    told = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, env=environment, stdout=told, stderr=told)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _told(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What a process says of itself in its log, once it does."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found.group(1)
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not say {pattern!r}:\n{log.read_text(errors='replace')[-3000:]}")
