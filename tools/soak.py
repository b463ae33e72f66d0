"""Runs the random suites, case by case and with fresh seeds, until the time is up: ``python tools/soak.py 30 [SUITE ...]``.

The suites of ``make test-deep`` have their sizes; this one has a time. Each case has a seed, and what fails is told with it
and does not stop the others. The exit code says whether anything failed; the last lines say how many cases there were.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("tests", "src")]

import tidelake as tl  # noqa: E402
from model import test_clean as cleans  # noqa: E402
from model import test_clock_tables as clocks  # noqa: E402
from model import test_clustering_histories as clusterings  # noqa: E402
from model import test_event_time_histories as event_times  # noqa: E402
from model import test_freshness_histories as freshness  # noqa: E402
from model import test_service_histories as services  # noqa: E402
from model import test_table_state as states  # noqa: E402
from model import test_write_machine as writes  # noqa: E402
from model.turns import Turns  # noqa: E402
from unit.services import test_clustering_interleaved as clustered  # noqa: E402
from unit.write import test_two_writers as pairs  # noqa: E402
from unit.write.interleave import make_deterministic  # noqa: E402

Case = Callable[[int], "int | None"]
"""Runs a seed, and may say how many steps that were."""
_TOLD = 4_000
_EVERY_S = 60.0


def _none(found: str | None) -> None:
    assert found is None, found


def _two_writers(table_type: str, name: str) -> Case:
    orders = pairs.expected(table_type, name)
    return lambda seed: _none(pairs.damage(table_type, name, seed, orders))


def _interleaved_clustering(shape: clustered.Shape, name: str) -> Case:
    storage, clock = clustered.start(shape)
    before = clustered.state(storage)
    clustered.OTHERS[name](tl.open_table("memory", storage=storage, clock=clock))
    after = clustered.state(storage)
    return lambda seed: _none(clustered.damage(shape, name, seed, before, after))


def _cases() -> dict[str, list[Case]]:
    """The suites: each has cases of several kinds, which take turns."""
    types = ("MERGE_ON_READ", "COPY_ON_WRITE")
    return {
        "writes": [lambda seed, shape=shape: writes.run(shape, seed, writes.length_of(seed)) for shape in writes.ALL],
        "pairs": [_two_writers(kind, name) for kind in types for name in pairs.PAIRS],
        "clustering-pairs": [_interleaved_clustering(s, name) for s in clustered.SHAPES for name in clustered.OTHERS],
        "services": [lambda seed, index=index: services.run(index, seed) for index in ("SIMPLE", "BUCKET")],
        "clustering": [
            lambda seed, shape=shape: clusterings.test_random_history_with_clusterings_holds_what_the_dict_holds(
                *shape, seed
            )
            for shape in clusterings.SHAPES
        ],
        "clean": [
            lambda seed, kind=kind: cleans.test_random_history_with_cleans_keeps_every_promise(kind, seed)
            for kind in types
        ],
        "states": [states.test_state_of_a_table_that_is_written_and_rolled_back_equals_the_listing],
        "event-times": [event_times.test_event_time_histories],
        "freshness": [freshness.run],
        "clocks": [lambda seed, kind=kind: clocks.test_long_histories_of_few_keys(kind, seed) for kind in clocks.KINDS],
    }


def _turns(suites: dict[str, list[Case]]) -> Iterator[tuple[str, Case]]:
    """The suites take turns, and the cases of each."""
    each = {name: Turns(cases) for name, cases in suites.items()}
    while True:
        for name, turns in each.items():
            with turns.turn() as case:
                yield name, case


def _counted(name: str, done: Counter[str], steps: Counter[str]) -> str:
    return f"{name} {done[name]:,}" + (f" ({steps[name]:,} steps)" if steps[name] else "")


def main(arguments: list[str]) -> int:
    """Run cases until the time is up; tell what failed at once, and counts every minute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="all if none is named")
    given = parser.parse_args(arguments)
    patch = pytest.MonkeyPatch()
    make_deterministic(patch)
    logging.getLogger("tidelake").setLevel(logging.ERROR)
    tl.register_strategy("every_other", services.EveryOther)
    suites = _cases()
    unknown = sorted(set(given.suites) - set(suites))
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(suites)}")
    done: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    # Small tables make much that is short-lived: a tenth of the time would go into looking for cycles.
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)
    began = told = time.monotonic()
    draw = random.SystemRandom()
    for name, case in _turns({name: suites[name] for name in given.suites or suites}):
        seed, said = draw.randrange(10**9), io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                steps[name] += case(seed) or 0
        except Exception:  # noqa: BLE001 -- whatever it is, it is told
            failed[name] += 1
            print(f"FAILED {name}, seed {seed}\n{said.getvalue()}\n{traceback.format_exc()[-_TOLD:]}", flush=True)
        done[name] += 1
        now = time.monotonic()
        is_over = now - began > given.minutes * 60
        if is_over or now - told > _EVERY_S:
            told = now
            print(f"{now - began:.0f} s:", *(_counted(name, done, steps) for name in done), flush=True)
        if is_over:
            break
    print(f"{sum(done.values()) - failed.total()} passed, {failed.total()} failed")
    return int(failed.total() > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
