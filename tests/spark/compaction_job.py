"""A compaction on a Spark session of its own, whose first attempt at each task goes wrong after its file is written.

Run as a program: MASTER TABLE FLAGS. What the wrong attempts wrote is told by files in FLAGS.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

IN_WORKERS = """
import hashlib
from pathlib import Path
import tidelake.services.compaction.execute as module

real = module.compact_slice

def written_then_wrong(job, storage, file_slice, attempt):
    done = real(job, storage, file_slice, attempt)
    flag = Path({flags!r}) / hashlib.sha1(file_slice.file_id.encode()).hexdigest()
    try:
        with flag.open("x") as told:
            told.write(done.stats[0].path)
    except FileExistsError:
        return done
    raise RuntimeError("this attempt goes wrong")

module.compact_slice = written_then_wrong
"""


def main(master: str, path: str, flags: str) -> None:
    hooks = Path(flags).with_name("hooks")
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(IN_WORKERS.format(flags=flags))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(hooks), *[entry for entry in sys.path if entry]])
    import tidelake as tl

    spark = tl.session("attempts", master=master)
    assert tl.open_table(path, spark=spark).compact() is not None
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
