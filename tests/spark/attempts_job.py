"""One upsert on a Spark session of its own, whose first attempts at each partition go wrong after their files are written.

Run as a program: MASTER TABLE WRONG FLAGS. WRONG is ``error`` (the attempt raises), ``death`` (its worker dies) or ``hang``
(it does not end, so that Spark starts a double). What the wrong attempts wrote is told by files in FLAGS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

IN_WORKERS = """
import os, time
from pathlib import Path
import tidelake.spark.write as module

real = module.write_partition

def written_then_wrong(storage, context, task, rows, places=None):
    stats = real(storage, context, task, rows, places)
    flag = Path({flags!r}) / task.path
    try:
        with flag.open("x") as told:
            told.write("\\n".join(stat.path for stat in stats))
    except FileExistsError:
        return stats
    if {wrong!r} == "death":
        os._exit(1)
    if {wrong!r} == "hang":
        time.sleep(600)
    raise RuntimeError("this attempt goes wrong")

module.write_partition = written_then_wrong
"""


def main(master: str, path: str, wrong: str, flags: str) -> None:
    hooks = Path(flags).with_name("hooks")
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(IN_WORKERS.format(flags=flags, wrong=wrong))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(hooks), *[entry for entry in sys.path if entry]])
    import tidelake as tl

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.0",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "50ms",
        "spark.speculation.task.duration.threshold": "500ms",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    spark = tl.session("attempts", master=master, config=settings)
    rows = spark.range(40).selectExpr("id", "'new' AS v", "2L AS ts", "concat('d', cast(id % 2 AS string)) AS day")
    tl.open_table(path, spark=spark).upsert(rows)
    os._exit(0)  # the session is not stopped: a hanging attempt would be waited for


if __name__ == "__main__":
    main(*sys.argv[1:])
