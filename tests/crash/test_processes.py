"""Writers in real processes, on a local disk and on an S3 server over HTTP: killed, stopped, racing.

No lock provider is set, which is the default: everything here holds without a lock.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest

import tidelake as tl
from crash.crash_points import Shape, check_files
from crash.worker import Job, read_log, rows_of
from model.deep import IS_DEEP
from s3_server import S3Server
from tidelake.storage import FaultyStorage, LocalStorage, Storage, open_storage

WRITERS, COMMITS = (8, 100) if IS_DEEP else (4, 10)
KILLS = 20 if IS_DEEP else 3
PATIENCE_S = 1_200 if IS_DEEP else 120
MOR, COW = Shape("MERGE_ON_READ", "SIMPLE"), Shape("COPY_ON_WRITE", "SIMPLE")
PASSER = 10**6


@dataclass
class Place:
    """Where a table is, and how long a sign of life lasts there (an S3 server tells times in seconds)."""

    storage: Storage
    folder: Path
    heartbeat_ms: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def dead_after_s(self) -> float:
        return self.heartbeat_ms * 2 / 1000

    def create(self, shape: Shape) -> None:
        shape.create(self.storage, None)

    def open(self) -> tl.Table:
        options = {"hoodie.client.heartbeat.interval_in_ms": str(self.heartbeat_ms)}
        return tl.open_table(self.storage.uri, storage=self.storage, options=options)

    def job(self, name: str, ids: list[int], **more: object) -> Job:
        made = Job(self.storage.uri, str(self.folder / f"{name}.log"), ids)
        return replace(made, storage_options=self.storage.options, heartbeat_ms=self.heartbeat_ms, **more)

    def start(self, job: Job) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "crash.worker", json.dumps(asdict(job))]
        paths = [str(Path(tl.__file__).parents[1]), str(Path(__file__).parents[1])]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        self.running.append(process)
        return process

    def logs(self) -> dict[str, list[list[object]]]:
        return {path.stem: read_log(str(path)) for path in sorted(self.folder.glob("*.log"))}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "logs").mkdir()
    if request.param == "local":
        made = Place(LocalStorage(tmp_path / "table"), tmp_path / "logs", 150)
    else:
        server: S3Server = request.getfixturevalue("s3_server")
        bucket = request.getfixturevalue("s3_bucket")
        made = Place(open_storage(f"s3://{bucket}/table", server.options), tmp_path / "logs", 1_000)
    yield made
    for process in made.running:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE_S} s"
        time.sleep(0.01)


def found(place: Place) -> Counter[tuple[int, str]]:
    rows = place.open().scan(columns=["id", "day"]).to_arrow().to_pylist()
    return Counter((row["id"], row["day"]) for row in rows)


def whole(counts: Counter[tuple[int, str]]) -> set[int]:
    """The ids of the writes that are there; each with both rows, each once."""
    ids = {number for number, _ in counts}
    assert counts == Counter((number, day) for number in ids for day in ("d0", "d1")), f"half, or doubled: {counts}"
    return ids


def settle(place: Place) -> None:
    """Let the dead expire, and the next writer clear up after them."""
    time.sleep(place.dead_after_s + 1.2)
    place.open().insert(rows_of(PASSER + 1, "last"))


def check_told(place: Place) -> Counter[str]:
    """What the processes were told is what is there; counts how it ended."""
    there = whole(found(place))
    ended: Counter[str] = Counter()
    told_ok: list[tuple[object, object]] = []
    for lines in place.logs().values():
        last = {line[1]: line for line in lines if line[0] in ("try", "ok", "no", "stop")}
        for number, line in last.items():
            ended[str(line[0])] += 1
            if line[0] == "ok":
                assert number in there, f"lost: {line}"
                told_ok.append((line[2], line[3]))
            elif line[0] == "no":
                assert number not in there, f"there, but refused: {line}"
    timeline = place.open().timeline
    assert not timeline.pending
    instants = [(i.requested_time, i.completion_time) for i in timeline.completed_writes]
    assert set(told_ok) <= set(instants)
    for times in zip(*instants, strict=True):
        assert len(set(times)) == len(times), "a time was used twice"
    assert len({i.requested_time for i in timeline.instants}) == len(timeline), "an instant was used twice"
    check_files(place.storage, may_leave_condemned=True)
    return ended


@pytest.mark.parametrize(
    ("place", "shape"),
    [("local", COW), ("s3", MOR), *([("local", MOR), ("s3", COW)] if IS_DEEP else [])],
    indirect=["place"],
    ids=str,
)
def test_processes_with_kills_lose_double_and_reuse_nothing(place: Place, shape: Shape) -> None:
    """Many writers commit at once, some are killed and replaced; a reader looks all the time; nothing goes wrong.

    On the copy-on-write table they all rewrite the same file groups, so most writes are redone once or more.
    """
    commits = COMMITS
    place.create(shape)
    dice = random.Random(1)
    jobs = [place.job(f"w{n}", list(range(n * 1000, n * 1000 + commits))) for n in range(WRITERS)]
    living = {job.log: (job, place.start(job)) for job in jobs}
    wait_for(lambda: all(place.logs().get(Path(j.log).stem) for j in jobs), "the start of the writers")
    kills = 0
    seen: set[int] = set()
    while living:
        now = whole(found(place))
        assert seen <= now, f"went away: {seen - now}"
        seen = now
        for log, (_, process) in list(living.items()):
            if process.poll() is not None:
                assert process.returncode == 0, read_log(log)[-1]
                del living[log]
        if kills < KILLS and living and dice.random() < 0.5:
            log, (job, process) = dice.choice(sorted(living.items()))
            tried = [line[1] for line in read_log(log) if line[0] == "try"]
            left = [number for number in job.ids if number not in tried]
            if tried and left and process.poll() is None:
                process.kill()
                process.wait()
                kills += 1
                heir = replace(job, log=str(place.folder / f"heir{kills}.log"), ids=left)
                del living[log]
                living[heir.log] = (heir, place.start(heir))
        time.sleep(0.2)
    settle(place)
    ended = check_told(place)
    assert kills > 0
    assert ended["ok"] >= WRITERS * commits - kills
    print(f"\n{type(place.storage).__name__} {shape}: {dict(ended)}, {kills} kills")


def pause_points(place: Place, shape: Shape) -> range:
    """The storage operations of a write."""
    counted = FaultyStorage(place.storage)
    table = tl.open_table(place.storage.uri, storage=counted)
    counted.reset()
    table.insert(rows_of(PASSER + 2, "counted"))
    return range(1, counted.operations + 1)


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
@pytest.mark.parametrize("shape", [MOR, COW] if IS_DEEP else [MOR], ids=str)
def test_process_stopped_beyond_its_heartbeat_fails_without_effect_or_succeeds(place: Place, shape: Shape) -> None:
    """SIGSTOP before a storage operation, others pass and roll it back, SIGCONT: all of its write is there, or nothing."""
    place.create(shape)
    numbers = pause_points(place, shape)
    is_local = isinstance(place.storage, LocalStorage)
    points = list(numbers) if IS_DEEP else list(numbers)[5 :: 4 if is_local else 16]
    job = place.job("w", list(range(len(points))), pauses={str(n): at for n, at in enumerate(points)}, is_retried=False)
    process = place.start(job)
    log = Path(job.log).stem
    for number, at in enumerate(points):
        wait_for(lambda: is_stopped(process) or process.poll() is not None, f"the stop before operation {at}")
        assert process.poll() is None, place.logs()[log][-1]
        time.sleep(place.dead_after_s + (0.1 if is_local else 1.1))
        place.open().insert(rows_of(PASSER + 10 + number, "passed"))
        before = whole(found(place))
        os.kill(process.pid, signal.SIGCONT)
        n = number
        wait_for(lambda n=n: any(x[0] in ("ok", "no") and x[1] == n for x in place.logs()[log]), f"the end of {number}")
        told = next(line for line in place.logs()[log] if line[0] in ("ok", "no") and line[1] == number)
        after = whole(found(place))
        assert after == before | ({number} if told[0] == "ok" else set()), f"stopped before {at}: {told}"
    assert process.wait(PATIENCE_S) == 0
    settle(place)
    ended = check_told(place)
    assert ended["no"] > 0
    assert ended["ok"] > 0
    print(f"\n{type(place.storage).__name__} {shape}: stopped at {len(points)} operations: {dict(ended)}")


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        return False
    state = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return state == "T"


def race(place: Place, rounds: int, without: str = "") -> Counter[tuple[int, str]]:
    """Two processes write the same new keys at the same moments."""
    jobs = [
        place.job(f"w{n}", list(range(rounds)), verb="upsert", waits_for=str(place.folder / f"w{1 - n}.log"))
        for n in range(2)
    ]
    processes = [place.start(replace(job, without=without)) for job in jobs]
    for process in processes:
        assert process.wait(PATIENCE_S) == 0 or without
    return found(place)


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
def test_processes_first_inserts_of_one_key_give_one_row(place: Place) -> None:
    """Two processes upsert one new key at the same time, again and again: it never stands twice."""
    place.create(MOR)
    rounds = 100 if IS_DEEP else 5
    counts = race(place, rounds)
    assert whole(counts) == set(range(rounds))
    refused = [line for lines in place.logs().values() for line in lines if line[0] == "no"]
    assert all(line[2] == "ConflictError" for line in refused)
    assert refused, "they never met"


@pytest.mark.parametrize("without", ["compare-and-swap", "conflict check"])
def test_processes_without_a_safety_net_do_damage(tmp_path: Path, without: str) -> None:
    """Negative control: the same race, with one net removed, leaves keys twice, or loses them."""
    (tmp_path / "logs").mkdir()
    place = Place(LocalStorage(tmp_path / "table"), tmp_path / "logs", 60_000)
    place.create(MOR)
    counts = race(place, 12, without)
    assert counts != Counter((number, day) for number in range(12) for day in ("d0", "d1"))
