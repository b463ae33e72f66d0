"""Carrying out a published plan: by one executor at a time, and to the end, or not at all.

The executor claims the plan, removes what executors before it left, writes its files behind markers, and completes the
plan by one turn of the head, in which it checks that the claim is still its own and that every file it names is there. An
error frees the claim for the next try; a death leaves it to whoever comes after the heartbeat has expired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from tidelake.errors import ConflictError, InvalidError, NotFoundError, TidelakeError, UnavailableError
from tidelake.filegroup import build_state, load_state, save_state
from tidelake.filegroup.listing import list_partitions
from tidelake.format.commit_metadata import WRITER_KEY, CommitMetadata, WriteStat
from tidelake.format.names import State, TimelineName, parse_base_name, parse_log_name
from tidelake.merge import merge_spec
from tidelake.query import TableSource, table_schema
from tidelake.query.freshness import marks_of_commit
from tidelake.schema import with_meta
from tidelake.services.context import ServiceCall
from tidelake.services.kinds import ServiceKind
from tidelake.storage import Storage, ensure_object
from tidelake.timeline import Instant, Timeline
from tidelake.timeline.claim import Claim, end_claim, holds, release_claim, take_claim
from tidelake.timeline.decoded import DECODED
from tidelake.timeline.transitions import Publication, Published, Transitions
from tidelake.write.context import WriteContext
from tidelake.write.heartbeat import beating
from tidelake.write.metadata_table import retire_metadata_table
from tidelake.write.rollback import bases_first, delete_markers, token_number
from tidelake.write.transaction import Commit, recover

_SYNC = b"tidelake-service"
_LOOKERS = 16
_TRIES = 3
"""How often a plan is carried out anew because the table's schema changed under it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What the names of an executor's files carry: the claim's number, who holds it, and the attempt."""

    number: int
    holder: int

    @staticmethod
    def of(claim: Claim) -> Token:
        """The token of a claim."""
        digest = hashlib.blake2b(claim.nonce.encode(), digest_size=4).digest()
        return Token(claim.number, int.from_bytes(digest, "big") % 1_000_000_000)

    def text(self, attempt: int) -> str:
        """The write token of an attempt's files."""
        return f"{self.number}-{self.holder}-{attempt}"

    def marker_number(self, attempt: int) -> int:
        """The number of an attempt's marker file."""
        return self.holder % 2_000 * 1_000_000 + attempt % 1_000_000

    def made(self, path: str) -> bool:
        """Whether a file is this executor's."""
        name = path.rpartition("/")[2]
        parsed = parse_base_name(name) or parse_log_name(name)
        return parsed is not None and parsed.write_token.startswith(f"{self.number}-{self.holder}-")


@dataclass(frozen=True, slots=True)
class Executing:
    """A plan that is claimed: what the executor's work is given."""

    source: TableSource
    instant: str
    plan: bytes
    claim: Claim
    token: Token


@dataclass(frozen=True, slots=True)
class Done:
    """What an executor wrote: statistics, and the content of the completed instant."""

    stats: tuple[WriteStat, ...]
    metadata: CommitMetadata


def carry_out(
    call: ServiceCall,
    kind: ServiceKind,
    requested: str,
    partitions: Callable[[bytes], Iterable[str]],
    work: Callable[[Executing], Done],
    check: Callable[[Executing, Timeline], None],
) -> Commit:
    """Carry out the plan of an instant.

    ``partitions`` are those of a plan, ``work`` writes its files, ``check`` raises if, on the timeline of the turn that
    would complete it, it must not be.
    """
    source = call.source()
    lock = call.lock()
    recover(call.storage, source.config, call.clock, call.writer, lock)
    moves = Transitions(call.storage, source.config, call.clock, lock)
    moves.finish_last_turn()
    source = call.source()
    done_before = completed(source.timeline, kind, requested)
    if done_before is not None:
        return _commit_of(source, done_before)
    plan = _plan_bytes(call.storage, source, kind, requested)
    paths = sorted(set(partitions(plan)))

    def refuse_ended(timeline: Timeline) -> None:
        if completed(timeline, kind, requested) is None:
            _refuse_withdrawn(source, timeline, kind, requested)

    claim = take_claim(
        call.storage,
        call.clock,
        moves,
        requested,
        call.writer.dead_after_ms,
        lambda: max(map(token_number, files_carrying(call.storage, paths, requested)), default=0),
        refuse_ended,
    )
    token = Token.of(claim)
    with beating(call.storage, requested, call.writer.heartbeat_ms):
        try:
            # Others may have completed it between our look and our claim.
            source = call.source()
            done_before = completed(source.timeline, kind, requested)
            if done_before is None:
                ensure_object(call.storage, moves.path(TimelineName(requested, kind.action, State.INFLIGHT)), b"")
                _remove(
                    call.storage, (p for p in files_carrying(call.storage, paths, requested) if _is_lower(p, token))
                )
                executing = Executing(source, requested, plan, claim, token)
                return _complete(call, moves, kind, claim, paths, executing, work(executing), check)
        except Exception:
            # Our turn may have been had, or may still be: after one more it is on the timeline, or never will be.
            moves.take_turn(lambda _: None)
            done_before = completed(moves.load(), kind, requested)
            if done_before is None or not _is_ours(source, done_before, token):
                _give_up(call.storage, claim, token, paths)
            if done_before is None:
                raise
        end_claim(call.storage, requested)
        return _commit_of(source, done_before)


def again_if_schema_changed(once: Callable[[], Commit]) -> Commit:
    """Carry a plan out, anew if a writer changed the table's schema meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return once()
        except _SchemaChangedError:
            continue
    return once()


class _SchemaChangedError(ConflictError):
    """A writer added a column, or widened one, while the files were written."""


def refuse_new_schema(executing: Executing, timeline: Timeline) -> None:
    """The table has the schema of its latest commit by requested time: this one must not hide a column."""
    source = executing.source
    now = TableSource(source.storage, source.config, timeline, source.reader)
    if table_schema(now).declared != table_schema(source).declared:
        raise _SchemaChangedError(
            "a writer changed the table's schema while its files were rewritten", instant=executing.instant
        )


def write_context(call: ServiceCall, executing: Executing) -> WriteContext:
    """What the tasks of a plan know of the table that they write."""
    config = executing.source.config
    schema = table_schema(executing.source).declared
    merge = merge_spec(config, with_meta(schema))
    return WriteContext(config, schema, merge, executing.instant, call.files, config.buckets)


def by_partition(stats: Iterable[WriteStat]) -> dict[str, tuple[WriteStat, ...]]:
    """Statistics as a commit holds them."""
    found: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        part = stat.partition_path or ""
        found[part] = (*found.get(part, ()), stat)
    return found


def _refresh_state(source: TableSource, *, is_incremental: bool) -> None:
    """Store the table state as of now: the next full plan, or scan of many partitions, lists nothing.

    The first one is made from a listing of the whole table, so only after a plan that looked at all of it, too.

    It is derived: that it cannot be stored is no reason to say that the service failed.
    """
    with suppress(TidelakeError):
        now = source.refresh()
        state = load_state(now.storage, now.config, now.timeline, now.reader)
        if state is None and not is_incremental:
            state = build_state(now.storage, now.config, now.timeline, now.reader)
        if state is not None:
            save_state(now.storage, state)


def refuse_late(storage: Storage, claim: Claim, *paths: str) -> None:
    """A task that made files when its plan was another's already, or carried out, removes them: doubles would be read."""
    if not holds(storage, claim):
        for path in bases_first(paths):
            storage.delete(path)
        raise ConflictError(
            f"the plan {claim.instant} was carried out, or taken over, before this task ended",
            instant=claim.instant,
            table=storage.uri,
        )


def completed(timeline: Timeline, kind: ServiceKind, requested: str) -> Instant | None:
    """The instant, if it has completed."""
    found = timeline.by_time.get(requested)
    return found if found is not None and found.action == kind.completed_action else None


def pending_plans(timeline: Timeline, kind: ServiceKind) -> tuple[Instant, ...]:
    """The plans of a kind that wait or are under way, the oldest first."""
    return tuple(i for i in timeline.pending if i.pending_action == kind.action)


def files_carrying(storage: Storage, partitions: Iterable[str], instant: str) -> list[str]:
    """The data files in some partitions that carry an instant."""
    found = []
    for listed in list_partitions(storage, partitions):
        for info in listed.files:
            name = info.path.rpartition("/")[2]
            parsed = parse_base_name(name) or parse_log_name(name)
            if parsed is not None and parsed.instant == instant:
                found.append(info.path)
    return found


def _complete(
    call: ServiceCall,
    moves: Transitions,
    kind: ServiceKind,
    claim: Claim,
    partitions: list[str],
    executing: Executing,
    done: Done,
    check: Callable[[Executing, Timeline], None],
) -> Commit:
    source, token = executing.source, executing.token
    named = {stat.path for stat in done.stats}
    carrying = files_carrying(call.storage, partitions, claim.instant)
    _remove(call.storage, (p for p in carrying if p not in named and (token.made(p) or _is_lower(p, token))))
    extra = {**(done.metadata.extra_metadata or {}), WRITER_KEY: claim.instant}
    metadata = replace(done.metadata, extra_metadata=extra)

    def decide(timeline: Timeline) -> Publication | Published:
        mine = completed(timeline, kind, claim.instant)
        if mine is not None:
            return Published(claim.instant, mine.completion_time, mine.file_name)
        _refuse_withdrawn(source, timeline, kind, claim.instant)
        inflight = State.INFLIGHT in timeline.states_of(claim.instant, kind.action)
        if not inflight or not holds(call.storage, claim):
            raise ConflictError(
                f"the plan {claim.instant} was taken over or rolled back while it was carried out",
                instant=claim.instant,
                table=call.storage.uri,
            )
        _refuse_missing(call.storage, done.stats)
        check(executing, timeline)
        retire_metadata_table(call.storage, call.clock)
        now = TableSource(call.storage, source.config, timeline, source.reader)
        marks = marks_of_commit(now, call.clock.now_ms(), claim.instant, metadata)
        told = replace(metadata, extra_metadata={**extra, **marks})
        return Publication(kind.completed_action, State.COMPLETED, claim.instant, lambda _: DECODED.encode(told, _SYNC))

    published = moves.publish(decide)
    with suppress(UnavailableError):
        found = completed(moves.load(), kind, claim.instant)
        if found is not None and not _is_ours(source, found, token):
            _remove(call.storage, (p for p in files_carrying(call.storage, partitions, claim.instant) if token.made(p)))
            return _commit_of(source, found)
        delete_markers(call.storage, claim.instant)
        end_claim(call.storage, claim.instant)
    facts = kind.facts(executing.plan)
    _refresh_state(source, is_incremental=facts is not None and facts.is_incremental)
    return Commit(claim.instant, published.completion or "", kind.operation, done.stats)


def _plan_bytes(storage: Storage, source: TableSource, kind: ServiceKind, requested: str) -> bytes:
    name = TimelineName(requested, kind.action, State.REQUESTED)
    try:
        return storage.get(f"{source.config.timeline_dir}/{name}")
    except NotFoundError:
        if any(requested in source.reader.targets(taker) for taker in source.timeline.takers):
            raise ConflictError(
                f"the plan {requested} was taken back", instant=requested, table=storage.uri, hint="plan anew"
            ) from None
        raise InvalidError(
            f"there is no plan of a {kind.name} at {requested!r}", value=requested, table=storage.uri
        ) from None


def _refuse_withdrawn(source: TableSource, timeline: Timeline, kind: ServiceKind, requested: str) -> None:
    """A plan that is gone, or whose rollback is under way, is not carried out; one that was rolled back may be again."""
    takers = (taker for taker in timeline.takers if not taker.is_completed or taker.action == "restore")
    is_taken = any(requested in source.reader.targets(taker) for taker in takers)
    if is_taken or State.REQUESTED not in timeline.states_of(requested, kind.action):
        raise ConflictError(
            f"the plan {requested} is being rolled back, or is gone", instant=requested, table=source.storage.uri
        )


def _refuse_missing(storage: Storage, stats: Iterable[WriteStat]) -> None:
    def is_there(stat: WriteStat) -> bool:
        try:
            return storage.head(stat.path or "").size_bytes == stat.file_size_in_bytes
        except NotFoundError:
            return False

    files = list(stats)
    with ThreadPoolExecutor(min(_LOOKERS, max(1, len(files)))) as pool:
        for stat, found in zip(files, pool.map(is_there, files), strict=True):
            if not found:
                raise ConflictError(
                    "a file that the service wrote is gone: its plan was rolled back meanwhile",
                    file=stat.path,
                    table=storage.uri,
                )


def _is_lower(path: str, token: Token) -> bool:
    return token_number(path) < token.number


def _is_ours(source: TableSource, instant: Instant, token: Token) -> bool:
    stats = source.reader.commit(instant).stats
    return all(token.made(stat.path or "") for stat in stats)


def _give_up(storage: Storage, claim: Claim, token: Token, partitions: list[str]) -> None:
    """Leave nothing of a try that failed; what cannot be removed now is left to the next executor."""
    with suppress(TidelakeError):
        _remove(storage, (path for path in files_carrying(storage, partitions, claim.instant) if token.made(path)))
        release_claim(storage, claim)


def _remove(storage: Storage, paths: Iterable[str]) -> None:
    for path in bases_first(paths):
        storage.delete(path)


def _commit_of(source: TableSource, instant: Instant) -> Commit:
    commit = source.reader.commit(instant)
    return Commit(instant.requested_time, instant.completion_time or "", commit.operation_type or "", commit.stats)
