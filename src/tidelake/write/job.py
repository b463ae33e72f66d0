"""A write operation in process: prepare, tag, write files, commit. No JVM.

Partitions are written side by side on threads by the same function that Spark's workers run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake._clock import Clock
from tidelake._progress import current
from tidelake.config import MergeMode, TableConfig, TableType, WriterOptions, refuse_unfit_exact
from tidelake.errors import InvalidError, UnsupportedError
from tidelake.filegroup import FileSlice
from tidelake.filegroup.listing import list_partitions
from tidelake.filegroup.partitions import check_partition
from tidelake.format.commit_metadata import WRITER_KEY, WriteStat
from tidelake.format.event_marks import DEFAULT_INPUT, WATERMARK_PREFIX
from tidelake.format.freshness_marks import INCOMING_MAX_KEY, INCOMING_MIN_KEY, OWN_PREFIXES, encode_incoming
from tidelake.merge import Outcome, merge_spec, refuse_loose, resolve_spec
from tidelake.query import TableSource, table_schema
from tidelake.schema import with_meta
from tidelake.storage import Storage
from tidelake.timeline import Timeline
from tidelake.write.arrange import ARRANGED_BYTES, CORES, by_partition_and_key, by_place, is_scattered
from tidelake.write.blanks import may_have_blanks
from tidelake.write.conflicts import Footprint, KeyChecks, clustered_groups, is_base, is_new_base
from tidelake.write.context import FileOptions, WriteContext
from tidelake.write.event_time import TimesBrought, refuse_widened_times, times_brought
from tidelake.write.files import TINY_ROWS, event_bounds, open_markers, put_markers
from tidelake.write.looked import LOOKED_KEY, encode_looked
from tidelake.write.lookup import revived_key, with_unsettled
from tidelake.write.missed import Missed, key_check
from tidelake.write.moves import route
from tidelake.write.partition import PartitionTask, PlannedFile, plan_partition
from tidelake.write.prepare import deduplicate, evolved_schema, prepare, refuse_unfit, to_arrow
from tidelake.write.rejects import Rejected, publish_rejects, stage_rejects
from tidelake.write.rows import KEY, PATH, Chosen, in_one, key_order
from tidelake.write.settle import without_untimed
from tidelake.write.transaction import Commit, Transaction, WriteStart, in_transaction
from tidelake.write.txn import TXN_KEY, Txn

OPERATIONS = {
    "insert": "INSERT",
    "bulk_insert": "BULK_INSERT",
    "upsert": "UPSERT",
    "delete": "DELETE",
    "delete_unconditional": "DELETE",
    "insert_overwrite": "INSERT_OVERWRITE",
    "insert_overwrite_table": "INSERT_OVERWRITE_TABLE",
    "delete_partitions": "DELETE_PARTITION",
}
DEDUPLICATED = frozenset({"upsert", "insert_overwrite", "insert_overwrite_table"})
LOOKED_UP = frozenset({"upsert", "delete", "delete_unconditional"})
SORTS = ("partition", "global")
"""Rows of a bulk insert sorted by key within the piece of a partition that a task has, or over the whole write."""
REPLACING = frozenset({"insert_overwrite", "insert_overwrite_table", "delete_partitions"})


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What a caller asks of a write."""

    operation: str
    extra_metadata: Mapping[str, str]
    files: FileOptions
    known: Timeline | None = None
    """The timeline as of which the rows were read from the table (a delete's), so that later changes conflict."""
    txn: Txn | None = None
    watermark: int | None = None
    """The event time, in milliseconds, up to which the writer's input is complete, as it declares."""
    sort: str | None = None
    """How a bulk insert sorts: see ``SORTS``; None is not at all."""
    options: WriterOptions = field(default_factory=WriterOptions)
    incoming: tuple[int, int] | None = None
    """The least and greatest event time of the rows, where statistics of files do not tell."""
    incoming_times: TimesBrought = field(default_factory=dict)
    """The same of each event time, on tables that have several."""

    @property
    def sorts(self) -> bool:
        """Whether rows are sorted by key."""
        return self.operation == "bulk_insert" and self.sort is not None


def make_metadata(metadata: object) -> dict[str, str]:
    """A caller's ``metadata``, checked: texts under texts, which a commit can keep."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidError(f"metadata is {metadata!r}, not texts by their names", value=metadata)
    for name, text in metadata.items():
        if not (_is_text(name) and _is_text(text)):
            raise InvalidError(f"metadata {name!r} is {text!r}: a commit keeps texts by names", value=text)
    return dict(metadata)


def _is_text(value: object) -> bool:
    """Whether a value is text that can be written down: no half of a surrogate pair."""
    return isinstance(value, str) and value == value.encode("utf-8", "ignore").decode()


def write(storage: Storage, clock: Clock, data: object, request: WriteRequest) -> Commit:
    """Write rows by one of the operations; returns when they are true and durable."""
    current().stage("prepare")
    source = TableSource.load(storage)
    incoming = to_arrow(data)
    known = table_schema(source).declared
    schema = known if request.operation.startswith("delete") else evolved_schema(known, incoming.schema)
    refuse_loose(source.config, schema)
    refuse_widened_times(known, schema, source.config)
    rows = prepare(incoming, schema, source.config)
    refuse_blanks(source.config, request)
    if not request.operation.startswith("delete"):
        refuse_unfit(rows, source.config)
    if deduplicates(request.operation, source.config):
        rows = deduplicate(rows, schema, source.config)
    return in_transaction(
        start_of(source, clock, request),
        lambda transaction: _write(storage, clock, source, transaction, schema, rows, request),
    )


def deduplicates(operation: str, config: TableConfig) -> bool:
    """Whether rows of a batch that are one to the table are made one before they are written.

    On an exact table these are versions with one event time: which of them wins must not depend on the order of the rows.
    """
    return operation in DEDUPLICATED or (config.is_exact and operation in ("insert", "bulk_insert"))


def refuse_blanks(config: TableConfig, request: WriteRequest) -> None:
    """Where a late record is not met by the key's own base row, only deletes with an ordering value are right."""
    is_logged = _is_logged(config) and (config.merge_mode is MergeMode.EVENT_TIME or config.is_exact)
    if request.operation == "delete_unconditional" and is_logged and (config.is_global or config.buckets):
        raise UnsupportedError(
            "an unconditional delete is not written to an event-time table of the BUCKET or GLOBAL_SIMPLE index",
            table=config.name,
            hint="leave unconditional out: the delete then carries the ordering value of the row",
        )


def delete_partitions(storage: Storage, clock: Clock, partitions: Sequence[str], request: WriteRequest) -> Commit:
    """Retire every file group of these partitions."""
    source = TableSource.load(storage)
    for path in partitions:
        check_partition(source.config, path)
    schema = table_schema(source).declared

    def retire(transaction: Transaction) -> Commit:
        slices = old_slices(storage, source, transaction, partitions)
        context = context_of(source, schema, transaction, request)
        replaced = {part: tuple(s.file_id for s in found) for part, found in slices.items() if found}
        footprint = replace(footprint_of([], replaced), replaced_partitions=frozenset(partitions))
        return transaction.commit((), footprint, extra_metadata(context, request), replaced)

    return in_transaction(start_of(source, clock, request), retire)


def declare(storage: Storage, clock: Clock, request: WriteRequest) -> Commit:
    """A commit of no files: it says what the request does."""
    source = TableSource.load(storage)
    schema = table_schema(source).declared

    def say(transaction: Transaction) -> Commit:
        context = context_of(source, schema, transaction, request)
        return transaction.commit((), footprint_of([], {}), extra_metadata(context, request))

    return in_transaction(start_of(source, clock, request), say)


def start_of(source: TableSource, clock: Clock, request: WriteRequest) -> WriteStart:
    """What a request is to the transaction."""
    refuse_unfit_exact(source.config)
    return WriteStart(
        source.storage,
        source.config,
        clock,
        _action_of(source.config, request),
        OPERATIONS[request.operation],
        source.timeline,
        request.known,
        request.txn,
        request.options,
    )


def _action_of(config: TableConfig, request: WriteRequest) -> str:
    """The timeline action of an operation."""
    if request.operation in REPLACING:
        return "replacecommit"
    return "deltacommit" if _is_logged(config) else "commit"


def _is_logged(config: TableConfig) -> bool:
    """Whether changes go to logs."""
    return config.table_type is TableType.MERGE_ON_READ


def _write(
    storage: Storage,
    clock: Clock,
    source: TableSource,
    transaction: Transaction,
    schema: pa.Schema,
    rows: pa.Table,
    request: WriteRequest,
) -> Commit:
    context = context_of(source, schema, transaction, request)
    outcome = Outcome()
    if not request.operation.startswith("delete"):
        rows = without_untimed(rows, context, outcome, "0")
    replacing = request.operation in REPLACING
    moves = context.config.is_global and request.operation == "upsert"
    everywhere = moves or request.operation == "insert_overwrite_table"
    looks = replacing or request.operation != "bulk_insert" or context.buckets is not None
    slices = old_slices(storage, source, transaction, None) if everywhere else {}
    missed: list[Missed] = []
    if moves:
        rows = route(storage, context, slices, rows, missed)
    parts = by_partition(rows)
    if looks and not everywhere:
        slices = old_slices(storage, source, transaction, [path for path, _ in parts])
    commits = source.reader.commits(transaction.start.completed_writes) if looks else {}
    kind = "overwrite" if replacing else request.operation
    tasks = [
        PartitionTask(
            path,
            () if replacing else slices.get(path, ()),
            kind,
            f"{number}-0-0",
            clock.new_id(),
            may_have_blanks(slices.get(path, ()), commits),
        )
        for number, (path, _) in enumerate(parts)
    ]
    numbers = [here for _, here in parts]
    is_arranged = False
    if request.operation in LOOKED_UP and _is_logged(source.config) and rows.nbytes <= ARRANGED_BYTES:
        rows, numbers = by_place(storage, context, tasks, rows, numbers)
        is_arranged = True
    elif request.operation not in LOOKED_UP and is_scattered(rows, numbers):
        rows, numbers = by_partition_and_key(context, rows, numbers, sorts=request.sorts)
        is_arranged = True
    request = with_incoming(context, request, rows)
    parts_of = [partial(chosen, rows, here, sorts=request.sorts and not is_arranged) for here in numbers]
    reads = not is_arranged or context.has_clocks or any(task.blanked for task in tasks)
    stats = _run(storage, context, tasks, parts_of, outcome, missed, reads=reads)
    rejected = stage_rejects(storage, context.config, context.instant, "0", outcome)
    replaced = {p: tuple(s.file_id for s in found) for p, found in slices.items() if found} if replacing else {}
    paths = [path for path, _ in parts]
    return finish(storage, transaction, context, request, stats, paths, replaced, rejected, missed)


def finish(
    storage: Storage,
    transaction: Transaction,
    context: WriteContext,
    request: WriteRequest,
    stats: tuple[WriteStat, ...],
    partitions: Sequence[str],
    replaced: Mapping[str, tuple[str, ...]],
    rejected: Rejected,
    missed: Sequence[Missed],
) -> Commit:
    """Commit what the tasks wrote; ``partitions`` are those that rows came for, also if these were deletes alone."""
    current().stage("commit")
    bucketed = context.buckets is not None
    fresh = [stat for stat in stats if is_base(stat)] if request.operation == "upsert" and not bucketed else []
    touched = [(stat.partition_path or "", stat.file_id or "") for stat in stats if bucketed or not is_new_base(stat)]
    touched += [group for each in missed for group in each.groups]
    watched = [stat.partition_path or "" for stat in fresh]
    watched += [each.partition_path for each in missed if each.has_keys]
    looked = [group for each in missed for group in each.looked]
    replacing = request.operation in REPLACING
    footprint = footprint_of(touched, replaced, bucketed)
    footprint = replace(
        footprint,
        looked=frozenset(footprint.group(*group) for group in looked),
        replaced_partitions=frozenset([*replaced, *partitions] if replacing else []),
        missed_partitions=frozenset(watched),
        replaces_all=request.operation == "insert_overwrite_table",
        missed_anywhere=context.config.is_global and bool(watched),
    )
    checks = KeyChecks(missed=key_check(storage, context, fresh, missed))
    if request.operation == "upsert" and not bucketed:
        checks = replace(checks, revived=revived_key(storage, context, stats))
    extra = {**extra_metadata(context, request), **rejected.metadata, **encode_looked(looked)}
    done = transaction.commit(stats, footprint, extra, replaced or None, checks)
    publish_rejects(storage, context.config)
    return done


def _run(
    storage: Storage,
    context: WriteContext,
    tasks: list[PartitionTask],
    parts: Sequence[Callable[[], Chosen]],
    outcome: Outcome,
    missed: list[Missed],
    reads: bool,
) -> tuple[WriteStat, ...]:
    """Plan every partition's files, name them in one marker file, and write them; side by side on threads."""
    open_markers(storage, context.instant)
    shown = current()
    shown.stage("look up partitions", len(tasks))
    with ThreadPoolExecutor(CORES) as pool:
        # Where nothing is read a plan is Python's own time, of which there is one thread's.
        each = pool.map if reads else map
        plans = each(
            lambda task, part: shown.step(plan_partition(storage, context, task, part(), outcome, missed)), tasks, parts
        )
        files = [file for of_partition in plans for file in of_partition]
    put_markers(storage, context.instant, 0, [(file.path, file.kind) for file in files])
    shown.stage("write files", len(files))
    are_tiny = any(_is_tiny(file) for file in files)
    with storage.batch() as puts, ThreadPoolExecutor(max(1, CORES - are_tiny)) as pool:
        # What a tiny file takes is mostly Python's own time, of which there is one thread's: they are all for this one.
        large = {file.path: pool.submit(file.write, puts) for file in files if not _is_tiny(file)}
        tiny = {file.path: shown.step(file.write(puts)) for file in files if _is_tiny(file)}
        return tuple(tiny[f.path] if f.path in tiny else shown.step(large[f.path].result()) for f in files)


def _is_tiny(file: PlannedFile) -> bool:
    return file.kind == "CREATE" and file.rows < TINY_ROWS


def by_partition(rows: pa.Table) -> list[tuple[str, npt.NDArray[np.int64]]]:
    """Which rows each partition has, in the order they came."""
    encoded = in_one(rows.column(PATH))
    paths = encoded.dictionary.to_pylist()
    numbers = np.asarray(encoded.indices)
    # Small numbers are sorted by radix.
    order = np.argsort(numbers.astype(np.uint16) if len(paths) < 2**16 else numbers, kind="stable")
    counts = np.bincount(numbers, minlength=len(paths))
    ends = np.cumsum(counts)
    bounds = zip(paths, ends - counts, ends, strict=True)
    return sorted(((path, order[start:end]) for path, start, end in bounds if end > start), key=itemgetter(0))


def chosen(rows: pa.Table, here: npt.NDArray[np.int64], *, sorts: bool) -> Chosen:
    """The rows of one partition; those of a sorted bulk insert by key, so that key ranges of files do not overlap."""
    if sorts:
        here = here[key_order(in_one(rows.column(KEY)), here)]
    return Chosen(rows, here)


def context_of(source: TableSource, schema: pa.Schema, transaction: Transaction, request: WriteRequest) -> WriteContext:
    """What the tasks of a write know."""
    config = source.config
    return WriteContext(
        config,
        schema,
        merge_spec(config, with_meta(schema)),
        transaction.instant,
        request.files,
        config.buckets,
        frozenset(clustered_groups(transaction.start, source.reader)),
        resolve_spec(config, with_meta(schema)),
    )


def old_slices(
    storage: Storage, source: TableSource, transaction: Transaction, partitions: Sequence[str] | None
) -> dict[str, tuple[FileSlice, ...]]:
    """The latest slices of these partitions (None: of all), as of the write's start."""
    view = TableSource(storage, source.config, transaction.start, source.reader).view()
    found: dict[str, tuple[FileSlice, ...]] = {}
    if partitions is None:
        for file_slice in with_unsettled(view, source.config, tuple(view.slices())):
            found[file_slice.partition_path] = (*found.get(file_slice.partition_path, ()), file_slice)
        return found
    for listed in list_partitions(storage, partitions):
        found[listed.path] = with_unsettled(view, source.config, tuple(view.latest_of(listed)))
    return found


def footprint_of(
    touched: Sequence[tuple[str, str]], replaced: Mapping[str, tuple[str, ...]], bucketed: bool = False
) -> Footprint:
    """What a write touches, from the groups it changed and those it retires."""
    empty = Footprint(frozenset(), is_bucketed=bucketed)
    groups = set(touched) | {(part, file_id) for part, ids in replaced.items() for file_id in ids}
    return replace(empty, groups=frozenset(empty.group(*group) for group in groups))


def with_incoming(context: WriteContext, request: WriteRequest, rows: pa.Table) -> WriteRequest:
    """The request with the event times that come in, where statistics do not tell.

    Those of a copy-on-write are of whole files, and those of a table with several event times of all together.
    """
    request = replace(request, incoming_times=times_brought(rows, context.config))
    low, high = (None, None) if _is_logged(context.config) else event_bounds(rows, context)
    return request if low is None or high is None else replace(request, incoming=(low, high))


def extra_metadata(context: WriteContext, request: WriteRequest) -> dict[str, str]:
    """What the commit says beside its files: the caller's metadata, the schema, our mark, and event times."""
    for own in request.extra_metadata:
        if own in ("schema", TXN_KEY, WRITER_KEY, LOOKED_KEY) or own.startswith(OWN_PREFIXES):
            raise InvalidError(f"the metadata key {own!r} is the table's own", value=own)
    told = {}
    if request.watermark is not None:
        name = DEFAULT_INPUT if request.txn is None else request.txn.app
        told[f"{WATERMARK_PREFIX}{name}"] = str(request.watermark)
    if request.incoming is not None:
        told.update(zip((INCOMING_MIN_KEY, INCOMING_MAX_KEY), map(str, request.incoming), strict=True))
    told |= encode_incoming(request.incoming_times)
    return {**request.extra_metadata, **told, "schema": context.schema_text, WRITER_KEY: context.instant}
