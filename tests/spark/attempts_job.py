"""One upsert on a Spark session of its own, whose first attempts at each task go wrong after their files are written.

Run as a program: MASTER TABLE WRONG FLAGS. WRONG is ``error`` (the attempt raises), ``death`` (its worker dies),
``double`` (two attempts write, and the answer of one counts) or ``slow`` (the attempt does not come to its end). What the
wrong attempts wrote is told by files in FLAGS. Spark itself starts doubles of slow tasks only on a cluster, on another host;
elsewhere a double is a second run of what the task runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

IN_WORKERS = """
import os
import time
from pathlib import Path
from pyspark import TaskContext
import tidelake.spark.write as module

real = module._write_task

def written_then_wrong(*given):
    done = real(*given)
    flag = Path({flags!r}) / str(TaskContext.get().partitionId())
    try:
        with flag.open("x") as told:
            told.write("\\n".join(stat.path for stat in done.stats))
    except FileExistsError:
        return done
    if {wrong!r} == "death":
        os._exit(1)
    if {wrong!r} == "slow":
        time.sleep(600)
    if {wrong!r} == "double":
        token, attempt = module._attempt()
        module._attempt = lambda: (token + "1", attempt + 1000)
        return real(*given)
    raise RuntimeError("this attempt goes wrong")

module._write_task = written_then_wrong
"""


DOUBLES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "2s",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.executor.memory": "600m",
}


def main(master: str, path: str, wrong: str, flags: str) -> None:
    hooks = Path(flags).with_name("hooks")
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(IN_WORKERS.format(flags=flags, wrong=wrong))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(hooks), *[entry for entry in sys.path if entry]])
    import tidelake as tl

    config = {"spark.sql.shuffle.partitions": "2", **(DOUBLES if wrong == "slow" else {})}
    if wrong == "slow":
        config["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    spark = tl.session("attempts", master=master, config=config)
    rows = spark.range(40).selectExpr("id", "'new' AS v", "2L AS ts", "concat('d', cast(id % 2 AS string)) AS day")
    tl.open_table(path, spark=spark).upsert(rows)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
