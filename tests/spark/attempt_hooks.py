"""What makes the first attempt at each task of a write go wrong. Runs in Spark's Python workers: see ``attempts_job``."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark import TaskContext

import tidelake.spark.write as module

FOR_EVER_S = 600


@dataclass(frozen=True)
class Hooks:
    """How attempts go wrong."""

    wrong: str
    when: str
    flags: str
    driver: int

    def install(self) -> None:
        """Let this worker's tasks go wrong."""
        plan, task = module.plan_partition, module._write_task

        def plan_partition(*given: Any) -> list[Any]:
            if self.when == "none":
                self.go_wrong([])
            return [replace(file, write=self._then_wrong(file)) for file in plan(*given)]

        def write_task(*given: Any) -> Any:
            done = task(*given)
            is_first = self.when == "all" and self.go_wrong([stat.path for stat in done.stats])
            if not (is_first and self.wrong == "double"):
                return done
            token, attempt = module._attempt()
            module._attempt = lambda: (token + "1", attempt + 1000)
            return task(*given)

        module.plan_partition, module._write_task = plan_partition, write_task

    def _then_wrong(self, file: Any) -> Any:
        def write(puts: Any) -> Any:
            stat = file.write(puts)
            if self.when == "one":
                self.go_wrong([stat.path])
            return stat

        return write

    def go_wrong(self, written: list[str]) -> bool:
        """What the first attempt at a task does now; others are told that they are not the first."""
        context = TaskContext.get()
        flag = Path(self.flags) / str(context.partitionId() if context else 0)
        try:
            with flag.open("x") as told:
                told.write("\n".join(written))
        except FileExistsError:
            return False
        victims = {"worker": os.getpid(), "executor": _parent(os.getppid()), "driver": self.driver}
        if self.wrong in victims:
            os.kill(victims[self.wrong], signal.SIGKILL)
        if self.wrong in (*victims, "slow"):
            time.sleep(FOR_EVER_S)
        if self.wrong == "error":
            raise RuntimeError("this attempt goes wrong")
        return True


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
