"""How an instant moves: begun by put-if-absent, made true by one turn of the head.

``begin`` takes an instant time for one process alone: heartbeat, requested file, then a look for another action with the
same time. A plan's time is taken by a heartbeat too. ``publish`` makes one timeline file true:

1. finish whoever had the last turn and died;
2. read the timeline and decide on it (a conflict, a rollback that names us: nothing was visible);
3. draw a completion time above every time known;
4. stage the bytes under a name with our nonce;
5. put-if-match the head: **the decision**. Lost: from 1. Unknown: the head, the timeline or the history tells;
6. put the timeline file, unless the head has moved: then others have done it;
7. remove the staged bytes. Those of turns that were lost go with the next turn that was listed after them.

Nothing can be published between 1 and 5, so what was checked at 2 holds at 5. After 5 recovery finishes, never undoes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tidelake._clock import Clock
from tidelake.config import TableConfig
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
)
from tidelake.format.names import State, TimelineName, parse_timeline_name
from tidelake.format.plans import InstantInfo
from tidelake.locking import Lock, NoLock
from tidelake.storage import Storage
from tidelake.timeline.head import HEAD_FILE, STAGED_DIR, Head, read_head, staged_path
from tidelake.timeline.instant import Timeline
from tidelake.timeline.load import TimelineReader, load_timeline
from tidelake.timeline.times import InstantGenerator, timeline_zone

HEARTBEAT_DIR = ".hoodie/.heartbeat"
TURNS = 100
"""How often a publisher tries again after losing its turn to others."""
DRAWS = 20
FAILURES = 3
"""How often the storage may fail while an instant is begun."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What a turn publishes: a timeline file and its content.

    A completed file's name is made when its completion time is drawn; a plan has its own time drawn for it.
    """

    action: str
    state: State
    instant: str | None
    content: Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Published:
    """What a turn made true; ``turn`` is its number, 0 if it was made true before."""

    instant: str
    completion: str | None
    file: str
    turn: int = 0


Decide = Callable[[Timeline], Publication | Published]
"""Looks at the timeline and says what to publish; raises if it must not be; says what is there if it is already."""


class Transitions:
    """Moves the instants of one table."""

    def __init__(self, storage: Storage, config: TableConfig, clock: Clock, lock: Lock | None = None) -> None:
        self._storage = storage
        self._config = config
        self._clock = clock
        self._lock = lock or NoLock()
        self.generator = InstantGenerator(clock, timeline_zone(config.timezone_is_utc))

    def path(self, name: TimelineName | str) -> str:
        """A timeline file's path."""
        return f"{self._config.timeline_dir}/{name}"

    def load(self) -> Timeline:
        """The timeline as it is now."""
        return load_timeline(self._storage, self._config)

    def begin(self, action: str, requested: bytes, inflight: bytes) -> tuple[str, Timeline]:
        """Take a fresh instant for an action: heartbeat, requested, inflight. Returns it, and the timeline before it."""
        with self._lock.held():
            return self._begin(action, requested, inflight)

    def _begin(self, action: str, requested: bytes, inflight: bytes) -> tuple[str, Timeline]:
        self.finish_last_turn()
        failures = 0
        for _ in range(DRAWS):
            timeline = self.load()
            instant = self.generator.draw(timeline.greatest_time)
            is_held = False
            try:
                self._storage.put_if_absent(f"{HEARTBEAT_DIR}/{instant}", b"")
                is_held = True
                if self._take(TimelineName(instant, action, State.REQUESTED), requested, inflight, timeline):
                    return instant, timeline
            except AlreadyExistsError:
                continue
            except UnavailableError as error:
                # Whether it took place is unknown: this instant is left, and another one taken. Without an answer to
                # the heartbeat the instant may be another's, and nothing of it is touched.
                if is_held:
                    self._withdraw(instant, action)
                failures += 1
                if failures == FAILURES or not error.retryable:
                    raise
        raise self._no_free_instant()

    def _take(self, name: TimelineName, requested: bytes, inflight: bytes, seen: Timeline) -> bool:
        """Put the files of an instant whose heartbeat is ours; False if others had the instant since we looked."""
        instant = name.requested_time
        try:
            self._storage.put_if_absent(self.path(name), requested)
        except AlreadyExistsError:
            # Another writer began and finished here; or it is ours, of an answer that was lost: then it expires.
            self._storage.delete(f"{HEARTBEAT_DIR}/{instant}")
            return False
        if not self._is_alone(name, seen):
            self._storage.delete(self.path(name))
            self._storage.delete(f"{HEARTBEAT_DIR}/{instant}")
            return False
        with suppress(AlreadyExistsError):
            self._storage.put_if_absent(self.path(TimelineName(instant, name.action, State.INFLIGHT)), inflight)
        return True

    def _withdraw(self, instant: str, action: str) -> None:
        """Leave nothing of an instant that could not be begun; what cannot be removed now expires."""
        with suppress(UnavailableError):
            for state in (State.INFLIGHT, State.REQUESTED):
                self._storage.delete(self.path(TimelineName(instant, action, state)))
            self._storage.delete(f"{HEARTBEAT_DIR}/{instant}")

    def publish(self, decide: Decide) -> Published:
        """Make one timeline file true."""
        with self._lock.held():
            return self._publish(decide)

    def _publish(self, decide: Decide) -> Published:
        for _ in range(TURNS):
            head, version = self.finish_last_turn()
            leftovers = self._staged()
            timeline = self.load()
            self._remove_ghosts(timeline)
            decided = decide(timeline)
            if isinstance(decided, Published):
                return decided
            floor = max(timeline.greatest_time, head.completion, head.instant)
            drawn = self.generator.draw(floor) if decided.instant is not None else self._take_plan_time(floor)
            self._lock.check()
            done = self._turn(head, version, decided, drawn)
            if decided.instant is None:
                self._storage.delete(f"{HEARTBEAT_DIR}/{drawn}")
            if done is not None:
                self._sweep(leftovers)
                return done
        raise self._too_many_turns()

    def take_turn(self, check: Callable[[Timeline], None]) -> None:
        """Have a turn that names nothing: whoever decided before it, and has not had its own turn, must decide again."""
        with self._lock.held():
            for _ in range(TURNS):
                head, version = self.finish_last_turn()
                timeline = self.load()
                check(timeline)
                nonce = self._clock.new_id()
                new = Head(head.n + 1, "", "", max(timeline.greatest_time, head.completion, head.instant), nonce)
                try:
                    self._storage.put_if_match(HEAD_FILE, new.encode(), version)
                except UnavailableError as error:
                    if not isinstance(error, PreconditionError) and not error.retryable:
                        raise
                    if read_head(self._storage, "", nonce)[0].nonce != nonce:
                        continue  # lost, or had and passed: one more does no harm
                return
        raise self._too_many_turns()

    def _too_many_turns(self) -> ConflictError:
        return ConflictError(f"other writers took {TURNS} turns in a row", table=self._storage.uri, hint="try again")

    def _take_plan_time(self, floor: str) -> str:
        """An instant for a plan: its heartbeat is put as a write's is, so that no write has the same instant."""
        failures = 0
        for _ in range(DRAWS):
            drawn = self.generator.draw(floor)
            try:
                self._storage.put_if_absent(f"{HEARTBEAT_DIR}/{drawn}", b"")
            except AlreadyExistsError:
                continue
            except UnavailableError as error:  # it may be another's: it is left, and expires
                failures += 1
                if failures == FAILURES or not error.retryable:
                    raise
                continue
            return drawn
        raise self._no_free_instant()

    def hold(self, instant: str) -> bool:
        """Take an instant that was not drawn, as a write takes its own; False if another process is taking it."""
        try:
            self._storage.put_if_absent(f"{HEARTBEAT_DIR}/{instant}", b"")
        except AlreadyExistsError:
            return False
        return True

    def let_go(self, instant: str) -> None:
        """Take the hold back: the instant is on the timeline by now, or never will be."""
        self._storage.delete(f"{HEARTBEAT_DIR}/{instant}")

    def _no_free_instant(self) -> UnavailableError:
        return UnavailableError(f"no free instant time was found in {DRAWS} tries", table=self._storage.uri)

    def finish_last_turn(self) -> tuple[Head, str]:
        """Publish what the head names, if its publisher has not; returns the head and its version."""
        head, version = read_head(self._storage, self.load().greatest_time, self._clock.new_id())
        if head.file:
            self._finish(head)
        return head, version

    def _turn(self, head: Head, version: str, wanted: Publication, drawn: str) -> Published | None:
        instant = wanted.instant or drawn
        completion = drawn if wanted.state is State.COMPLETED else None
        name = str(TimelineName(instant, wanted.action, wanted.state, completion))
        nonce = self._clock.new_id()
        staged, content = staged_path(name, nonce), wanted.content(drawn)
        self._storage.put(staged, content)
        new = Head(head.n + 1, instant, name, completion or drawn, nonce)
        try:
            self._storage.put_if_match(HEAD_FILE, new.encode(), version)
        except UnavailableError as error:
            is_lost = isinstance(error, PreconditionError)
            if not is_lost and not error.retryable:
                raise
            if not self._was_ours(new):
                if is_lost:  # else it may still arrive: the staged bytes go with a later turn
                    self._storage.delete(staged)
                return None
        self._complete(new, content)
        return Published(instant, completion, name, new.n)

    def _was_ours(self, new: Head) -> bool:
        """After a turn that was lost or whose answer was: did the head become ours?"""
        now, _ = read_head(self._storage, "", self._clock.new_id())
        if now.n <= new.n:
            return now.nonce == new.nonce
        # Others had turns since. If ours was before theirs, they finished our file; they may even have moved it on.
        timeline = self.load()
        name = parse_timeline_name(new.file)
        if name in timeline.names or name in timeline.ghosts:
            return True
        if any(other.requested_time == new.instant for other in timeline.names):
            return False
        reader = TimelineReader(self._storage, self._config)
        restores = [i for i in timeline.takers if i.action == "restore"]
        if name is not None and any(_was_there(name, reader.restored(taker)) for taker in restores):
            return True
        return any(i.requested_time == new.instant for i in reader.history)

    def _complete(self, new: Head, content: bytes) -> None:
        """Put the file of a turn that we had, unless the head has moved: then others have put it."""
        now, _ = read_head(self._storage, "", self._clock.new_id())
        if now.nonce == new.nonce:
            self._put_named(new, content)
        self._storage.delete(new.staged_path)

    def _finish(self, head: Head) -> None:
        """Put the file that the head names, if it is not there, from the staged bytes; then remove those."""
        staged = head.staged_path
        try:
            content = self._storage.get(staged)
        except NotFoundError:
            return
        if not self._storage.exists(self.path(head.file)) and self._may_finish(head):
            self._put_named(head, content)
        self._storage.delete(staged)

    def _put_named(self, head: Head, content: bytes) -> None:
        try:
            self._storage.put_if_absent(self.path(head.file), content)
        except AlreadyExistsError:
            # Others have finished it. The staged bytes are the only other copy: they go only if that is so.
            if not self._storage.exists(self.path(head.file)):
                raise UnavailableError(
                    f"{head.file} is said to exist, and does not", file=head.file, table=self._storage.uri
                ) from None

    def _may_finish(self, head: Head) -> bool:
        """Whether what the head names was not taken back, or archived, since it was published."""
        name = parse_timeline_name(head.file)
        if name is None:
            return True
        timeline = self.load()
        if name.state is State.COMPLETED:
            began = State.INFLIGHT if name.action == "savepoint" else State.REQUESTED
            return any(other.requested_time == name.requested_time and other.state is began for other in timeline.names)
        reader = TimelineReader(self._storage, self._config)
        if any(name.requested_time in reader.targets(taker) for taker in timeline.takers):
            return False
        return all(archived.requested_time < name.requested_time for archived in reader.history)

    def _remove_ghosts(self, timeline: Timeline) -> None:
        """Remove completed files that came back; a restore that is under way removes them itself, in its order."""
        if not any(taker.action == "restore" and not taker.is_completed for taker in timeline.takers):
            for name in timeline.ghosts:
                self._storage.delete(self.path(name))

    def _names(self) -> list[TimelineName]:
        names = (info.path.rpartition("/")[2] for info in self._storage.list_dir(self._config.timeline_dir)[1])
        parsed = (parse_timeline_name(name) for name in names)
        return [name for name in parsed if name is not None]

    def _is_alone(self, mine: TimelineName, seen: Timeline) -> bool:
        """No other action has the instant, and no rollback since we looked names it: an instant is never used twice."""
        names = self._names()
        if any(n.requested_time == mine.requested_time and n.action != mine.action for n in names):
            return False
        before = {i.requested_time for i in seen.instants}
        reader = TimelineReader(self._storage, self._config)
        since = (taker for taker in Timeline(names).takers if taker.requested_time not in before)
        return not any(mine.requested_time in reader.targets(taker) for taker in since)

    def _staged(self) -> list[str]:
        return [info.path for info in self._storage.list_dir(STAGED_DIR)[1]]

    def _sweep(self, leftovers: list[str]) -> None:
        """Staged bytes that were there before a turn of ours succeeded belong to turns that were lost for ever."""
        for path in leftovers:
            self._storage.delete(path)


def _was_there(name: TimelineName, restored: tuple[InstantInfo, ...]) -> bool:
    """Whether a restore has taken a file back: it names completed instants by their action, pending plans by the plan's."""
    actions = [info.action for info in restored if info.commit_time == name.requested_time]
    return name.action in actions if name.state is State.COMPLETED else bool(actions)
