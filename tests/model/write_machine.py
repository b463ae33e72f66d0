"""A machine that writes at random into a table, and knows by ``write_oracle`` what it must hold then."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import tidelake as tl
from model.write_oracle import Entry, Oracle, Refused, Row, multiset
from tidelake.testing import Fault, FaultyStorage, ManualClock, MemoryStorage, SimulatedCrash
from tidelake.timeline.times import WAIT_MS

EXPIRED_S = 600.0
META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
SCHEMA = "id bigint, name string, n int, ts bigint, seq int, region string, day string, _hoodie_is_deleted boolean"
TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "n": pa.int32(),
    "ts": pa.int64(),
    "seq": pa.int32(),
    "region": pa.string(),
    "day": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}


@dataclass(frozen=True)
class Shape:
    """A kind of table."""

    table_type: str
    ordering: tuple[str, ...]
    partition_by: tuple[str, ...]
    log_format: str
    buckets: int | None = None
    """How many buckets a partition has; None is the SIMPLE index."""

    def __str__(self) -> str:
        kind = "mor" if self.is_merge_on_read else "cow"
        order = "event" + str(len(self.ordering)) if self.ordering else "commit"
        index = f"-{self.buckets}buckets" if self.buckets else ""
        return f"{kind}-{order}-{len(self.partition_by)}part-{self.log_format}{index}"

    @property
    def is_logged(self) -> bool:
        """Whether the order of a key's records is that of its ordering values, in logs."""
        return self.is_merge_on_read and bool(self.ordering)

    @property
    def options(self) -> dict[str, str]:
        bucketed = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(self.buckets)}
        return {"hoodie.logfile.data.block.format": self.log_format, **(bucketed if self.buckets else {})}

    @property
    def is_merge_on_read(self) -> bool:
        return self.table_type == "MERGE_ON_READ"


SHAPES = [
    Shape(table_type, ordering, parts, log_format)
    for table_type, ordering, parts, log_format in itertools.product(
        ("MERGE_ON_READ", "COPY_ON_WRITE"),
        ((), ("ts",), ("ts", "seq")),
        ((), ("day",), ("region", "day")),
        ("parquet", "avro"),
    )
    if table_type == "MERGE_ON_READ" or log_format == "parquet"
]
BUCKET_SHAPES = [
    Shape(table_type, ordering, parts, "parquet", buckets=3)
    for table_type, ordering, parts in itertools.product(
        ("MERGE_ON_READ", "COPY_ON_WRITE"), ((), ("ts",), ("ts", "seq")), ((), ("day",))
    )
]


@dataclass
class Write:
    """One write: what the engine is asked, and what it must do to the oracle."""

    name: str
    run: Callable[[tl.Table], object]
    change: Callable[[Oracle], None]
    partitions: set[tuple[Any, ...]] | None
    """The partitions it may touch; None: any."""


@dataclass
class Machine:
    """A table, its oracle, and what was true after each commit."""

    shape: Shape
    random: random.Random
    clock: ManualClock = field(init=False)
    storage: Any = field(init=False)
    oracle: Oracle = field(init=False)
    types: dict[str, pa.DataType] = field(default_factory=lambda: dict(TYPES))
    past: list[tuple[str, str, Counter[str]]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    fresh_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1000))
    furthest_ms: int = 0

    def __post_init__(self) -> None:
        self.clock = ManualClock(seed=self.random.getrandbits(32))
        self.storage = self.make_storage()
        self.oracle = Oracle(
            self.shape.ordering, self.shape.partition_by, self.shape.is_merge_on_read, self.shape.buckets
        )
        tl.create_table(
            "memory",
            SCHEMA,
            name="machine",
            record_key="id",
            partition_by=self.shape.partition_by,
            ordering_fields=self.shape.ordering,
            table_type=self.shape.table_type,
            options=self.shape.options,
            storage=self.storage,
            clock=self.clock,
        )

    def expire(self) -> None:
        """Let so much time pass that a writer without a sign of life is dead."""
        self.clock.advance(EXPIRED_S)

    def make_storage(self) -> Any:
        return MemoryStorage(clock=self.clock)

    def step(self) -> None:
        rules = {
            self.plain: 10,
            self.jump: 2,
            self.second_writer: 3,
            self.crash: 3,
            self.travel: 3,
            self.add_column: 1,
            self.widen: 1,
            self.insert_again: 1,
        }
        rule = self.random.choices(list(rules), list(rules.values()))[0]
        self.told.append(rule.__name__)
        rule()
        self.check()

    def open(self, storage: object = None) -> tl.Table:
        return tl.open_table("memory", storage=storage or self.storage, clock=self.clock)

    def check(self) -> None:
        assert self.read() == self.oracle.rows()
        assert not self.open().timeline.pending

    def read(self, **scan: str) -> Counter[str]:
        found = self.open().scan(**scan).to_arrow().drop_columns(list(META))
        return multiset(found.to_pylist())

    # What a step may do

    def plain(self) -> None:
        """One write by one writer."""
        self.do(self.any_write())

    def insert_again(self) -> None:
        """Keys that were deleted come back by an insert, which looks nothing up: beside what is left of them in other file groups."""
        if self.shape.buckets or self.shape.is_logged:
            return  # tombstones of either group would count, by the group that the next upsert finds
        rows = [self.row(deleted=False) for _ in range(3)]
        dead = {self.oracle.key_of(r): r for r in rows if self.is_dead(self.oracle.entries.get(self.oracle.key_of(r)))}
        if dead:
            back = list(dead.values())
            data = self.table(back)
            self.do(Write("insert again", lambda t: t.insert(data), lambda o: o.insert(back), self.partitions(back)))

    def is_dead(self, entry: Entry | None) -> bool:
        return entry is None or entry.row is None

    def jump(self) -> None:
        """The wall clock goes forwards, a little back, or so far back that writing must wait for it.

        Little by little it goes back no further than a writer waits.
        """
        seconds = self.random.choice([5.0, 86_400.0, -0.5, -5.0, -3_600.0])
        self.furthest_ms = max(self.furthest_ms, self.clock.now_ms())
        if seconds > -3_600.0 and self.clock.now_ms() + seconds * 1000 <= self.furthest_ms - WAIT_MS:
            return
        if seconds == -3_600.0:
            self.do(self.any_insert())
        self.clock.jump(seconds)
        if seconds == -3_600.0:
            with pytest.raises(tl.UnavailableError, match="ahead of this machine's clock"):
                self.open().upsert(self.table([self.row()]))
            self.clock.jump(3_600.0)

    def travel(self) -> None:
        """The table as of an earlier commit is what it was then."""
        if self.past:
            requested, completion, rows = self.random.choice(self.past)
            assert self.read(as_of_completion=completion) == rows, completion
            if requested:
                assert self.read(as_of=requested) == rows, requested

    def add_column(self) -> None:
        """The first rows with a further nullable column."""
        name = f"x{len(self.types)}"
        self.types[name] = pa.string()
        self.oracle.columns.append(name)
        self.do(self.upsert(self.batch()))

    def widen(self) -> None:
        """Rows in which an int column has become a long one."""
        self.types["n"] = pa.int64()
        rows = self.batch()
        rows[0]["n"] = 2**40
        self.do(self.upsert(rows))

    def crash(self) -> None:
        """A writer dies at a random storage operation; readers see all or nothing, and the next writer goes on."""
        write = self.any_write()
        before, after = self.oracle, self.outcome(write)
        kind = self.random.choice(["crash_before", "crash_after", "tear"])
        faulty = FaultyStorage(self.storage, [Fault(self.random.randint(3, 60), kind)], clock=self.clock)
        try:
            write.run(self.open(faulty))
        except (SimulatedCrash, tl.InvalidError):
            self.told.append(f"{write.name}: {kind} at {faulty.operations}")
        else:
            assert after is not None
            self.oracle = after
            return
        outcomes = [before] if after is None else [before, after]
        seen = self.read()
        assert seen in [outcome.rows() for outcome in outcomes]
        self.expire()
        more = self.row(next(self.fresh_ids), deleted=False)
        self.open().upsert(self.table([more]))
        seen_then = self.read()
        assert seen == before.rows() or seen_then == seen + multiset([more]), "a visible write went away"
        for outcome in outcomes:
            outcome.upsert([more])
        self.settle(seen_then, *outcomes)

    def second_writer(self) -> None:
        """Another writer's whole write happens within a write: both succeed as one after the other, or one is told."""
        outer, inner = self.any_write(), self.any_write()
        orders = [self.outcome(outer), self.outcome(inner), self.outcome(outer, inner), self.outcome(inner, outer)]
        if None in orders:
            return
        only_outer, only_inner, inner_last, outer_last = (order for order in orders if order is not None)
        at = self.random.randint(3, 50)
        inner_failed: list[tl.ConflictError] = []

        def between(number: int, verb: str, path: str) -> None:
            if number == at:
                try:
                    inner.run(self.open())
                except tl.ConflictError as error:
                    inner_failed.append(error)

        faulty = FaultyStorage(self.storage, clock=self.clock, on_operation=between)
        outer_failed = False
        try:
            outer.run(self.open(faulty))
        except tl.ConflictError:
            outer_failed = True
        self.told.append(f"{outer.name} around {inner.name} at {at}: {outer_failed} {inner_failed}")
        if faulty.operations < at:
            assert not outer_failed
            self.oracle = only_outer
        elif outer_failed:
            assert not inner_failed
            assert self.meet(outer, inner), "writes into different partitions are in nobody's way"
            self.oracle = only_inner
        elif inner_failed:
            self.oracle = only_outer
        else:
            seen = self.read()
            assert seen in (inner_last.rows(), outer_last.rows()), "no order of the two writes gives these rows"
            self.settle(seen, inner_last, outer_last)

    def settle(self, seen: Counter[str], *orders: Oracle) -> None:
        """Which of two courses it took, if the rows tell; one that hides tombstones is not guessed."""
        fitting = [order for order in orders if order.rows() == seen]
        assert fitting
        self.oracle = fitting[0]
        if len(fitting) == 2 and fitting[0].entries != fitting[1].entries:
            everything = Write(
                "settle", lambda t: t.insert_overwrite_table(self.table([])), lambda o: o.replace([], None), None
            )
            self.do(everything)

    def meet(self, one: Write, other: Write) -> bool:
        if one.partitions is None or other.partitions is None:
            return True
        return bool(one.partitions & other.partitions)

    # Writes

    def do(self, write: Write) -> None:
        self.told.append(write.name)
        after = self.outcome(write)
        if after is None:
            with pytest.raises(tl.InvalidError):
                write.run(self.open())
            return
        commit = write.run(self.open())
        self.oracle = after
        if commit is not None:
            self.past.append((commit.requested_time, commit.completion_time, after.rows()))

    def outcome(self, *writes: Write) -> Oracle | None:
        after = self.oracle.copy()
        try:
            for write in writes:
                write.change(after)
        except Refused:
            return None
        return after

    def any_write(self) -> Write:
        weights = {
            self.any_upsert: 8,
            self.any_insert: 2,
            self.any_delete: 4,
            self.any_overwrite: 1,
            self.any_overwrite_table: 0.5,
            self.any_delete_partitions: 1,
        }
        return self.random.choices(list(weights), list(weights.values()))[0]()

    def any_upsert(self) -> Write:
        return self.upsert(self.batch())

    def upsert(self, rows: list[Row]) -> Write:
        data = self.table(rows)
        return Write("upsert", lambda t: t.upsert(data), lambda o: o.upsert(rows), self.partitions(rows))

    def any_insert(self) -> Write:
        rows = [self.row(next(self.fresh_ids)) for _ in range(self.random.randint(1, 4))]
        verb = self.random.choice(["insert", "bulk_insert"])
        data = self.table(rows)
        return Write(verb, lambda t: getattr(t, verb)(data), lambda o: o.insert(rows), self.partitions(rows))

    def any_delete(self) -> Write:
        unconditional = self.random.random() < 0.3 and not (self.shape.is_logged and self.shape.buckets)
        if self.random.random() < 0.5:
            ids = self.random.sample(range(8), 3)

            def by_keys(oracle: Oracle) -> None:
                oracle.delete({k for k in oracle.entries if k[1] in ids}, unconditional=unconditional)

            return Write(
                f"delete keys {unconditional}", lambda t: t.delete(ids, unconditional=unconditional), by_keys, None
            )
        bound = self.random.randint(0, 6)

        def by_filter(oracle: Oracle) -> None:
            hit = {k for k, e in oracle.entries.items() if e.row is not None and e.row["ts"] == bound}
            oracle.delete(hit, unconditional=unconditional)

        return Write(
            f"delete filter {unconditional}",
            lambda t: t.delete(filter=f"ts = {bound}", unconditional=unconditional),
            by_filter,
            None,
        )

    def any_overwrite(self) -> Write:
        rows = self.batch()
        data, parts = self.table(rows), self.partitions(rows)
        return Write("insert_overwrite", lambda t: t.insert_overwrite(data), lambda o: o.replace(rows, parts), parts)

    def any_overwrite_table(self) -> Write:
        rows = self.batch()
        data = self.table(rows)
        return Write(
            "insert_overwrite_table", lambda t: t.insert_overwrite_table(data), lambda o: o.replace(rows, None), None
        )

    def any_delete_partitions(self) -> Write:
        values = self.oracle.partition_of(self.row())
        path = "/".join(
            f"{name}={'__HIVE_DEFAULT_PARTITION__' if value is None else value}"
            for name, value in zip(self.shape.partition_by, values, strict=True)
        )
        return Write(
            f"delete_partitions {path}",
            lambda t: t.delete_partitions([path]),
            lambda o: o.replace([], {values}),
            {values},
        )

    # Rows

    def batch(self) -> list[Row]:
        """Rows of few keys and few ordering values: doubled keys, late rows and ties are frequent."""
        return [self.row() for _ in range(self.random.randint(1, 6))]

    def row(self, id: int | None = None, deleted: bool | None = None) -> Row:
        pick = self.random
        row: Row = {
            "id": pick.randrange(8) if id is None else id,
            "name": pick.choice(["a", "b", "é", "", None, f"v{pick.randrange(100)}"]),
            "n": pick.choice([None, -1, 0, 2**31 - 1, pick.randrange(100)]),
            "ts": pick.randint(-1, 6),
            "seq": pick.randint(0, 2),
            "region": pick.choice(["eu", "us"]),
            "day": pick.choice(["d1", "d2", None]),
            "_hoodie_is_deleted": pick.random() < 0.15 if deleted is None else deleted,
        }
        for name in self.types:
            if name.startswith("x"):
                row[name] = pick.choice([None, "new"])
        return row

    def table(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=pa.schema(list(self.types.items())))

    def partitions(self, rows: list[Row]) -> set[tuple[Any, ...]]:
        return {self.oracle.partition_of(row) for row in rows}
