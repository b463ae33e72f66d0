"""One upsert on a Spark session of its own, whose first attempts at each task go wrong.

Run as a program: MASTER TABLE FLAGS WRONG WHEN. WRONG is ``error`` (the attempt raises), ``worker``, ``executor`` or ``driver``
(that process is killed), ``double`` (two attempts write, and the answer of one counts) or ``slow`` (the attempt does not come
to its end). WHEN says how many of its files the attempt has written then: ``none``, ``one`` or ``all``. Which these are is told
by files in FLAGS. Spark itself starts doubles of slow tasks only on a cluster, on another host; elsewhere a double is a
second run of what the task runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HEARTBEAT_MS = 500
DOUBLES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "2s",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}


def main(master: str, path: str, flags: str, wrong: str, when: str) -> None:
    hooks = Path(flags).with_name("hooks")
    hooks.mkdir()
    called = f"Hooks({wrong!r}, {when!r}, {flags!r}, {os.getpid()}).install()"
    (hooks / "sitecustomize.py").write_text(f"from attempt_hooks import Hooks\n\n{called}\n")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(hooks), *[entry for entry in sys.path if entry]])
    import tidelake as tl

    config = {"spark.sql.shuffle.partitions": "2", **(DOUBLES if wrong == "slow" else {})}
    if master.startswith("spark:"):
        config |= {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.executor.memory": "600m"}
    spark = tl.session("attempts", master=master, config=config)
    rows = spark.range(40).selectExpr("id", "'new' AS v", "2L AS ts", "concat('d', cast(id % 2 AS string)) AS day")
    options = {"hoodie.client.heartbeat.interval_in_ms": str(HEARTBEAT_MS)} if wrong == "driver" else {}
    tl.open_table(path, spark=spark, options=options).upsert(rows)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
