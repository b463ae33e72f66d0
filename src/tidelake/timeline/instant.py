"""An instant is a range: it was requested, and (perhaps) completed. The timeline is the sorted list of them.

Words
- *requested time* names the instant and the files it writes; *completion time* says when it became true.
- *write instants* change rows or files: commit, deltacommit, replacecommit and the services that complete as these.
- *first active*: the first write instant of the active timeline that is not kept by a savepoint. Files of earlier
  instants are committed: their instants were archived, and only what completed is archived.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelake._cached import cached
from tidelake.format.names import State, TimelineName

WRITE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit"})


@dataclass(frozen=True, slots=True)
class Instant:
    """One instant in its most advanced state.

    ``action`` is the completed action's name; ``pending_action`` what the requested file was called (``compaction``
    for a ``commit`` that compacts), if a requested or inflight file is there.
    """

    requested_time: str
    action: str
    state: State
    completion_time: str | None = None
    pending_action: str | None = None

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def is_write(self) -> bool:
        return self.action in WRITE_ACTIONS

    @property
    def file_name(self) -> str:
        """The file that holds the instant's most advanced state."""
        action = self.action if self.is_completed else (self.pending_action or self.action)
        return str(TimelineName(self.requested_time, action, self.state, self.completion_time))

    @property
    def requested_file_name(self) -> str:
        """The file that holds the instant's plan."""
        return str(TimelineName(self.requested_time, self.pending_action or self.action, State.REQUESTED))

    def __str__(self) -> str:
        return f"{self.requested_time}.{self.pending_action or self.action}"


class Timeline:
    """The active timeline: what is on storage under its names. Immutable.

    ``ghosts`` are names that are there and do not count: completed files of instants that were taken back or archived.
    """

    def __init__(self, names: Iterable[TimelineName], ghosts: Iterable[TimelineName] = ()) -> None:
        self.ghosts = tuple(ghosts)
        self.names = frozenset(names) - frozenset(self.ghosts)
        self.instants = _fold(self.names)

    @cached
    def by_time(self) -> dict[str, Instant]:
        """Completed write instants by requested time."""
        return {i.requested_time: i for i in self.completed_writes}

    @cached
    def completed_writes(self) -> tuple[Instant, ...]:
        """Completed write instants, by requested time."""
        return tuple(i for i in self.instants if i.is_completed and i.is_write)

    @cached
    def pending(self) -> tuple[Instant, ...]:
        """What is requested or inflight."""
        return tuple(i for i in self.instants if not i.is_completed)

    @cached
    def takers(self) -> tuple[Instant, ...]:
        """Rollbacks and restores, in any state: they take instants back."""
        return tuple(i for i in self.instants if i.action in ("rollback", "restore"))

    def states_of(self, requested_time: str, action: str) -> frozenset[State]:
        """Which files of an instant are there."""
        return frozenset(n.state for n in self.names if (n.requested_time, n.action) == (requested_time, action))

    @cached
    def savepoints(self) -> frozenset[str]:
        """Requested times of the commits that a savepoint keeps."""
        return frozenset(i.requested_time for i in self.instants if i.action == "savepoint" and i.is_completed)

    @cached
    def first_active(self) -> str | None:
        """The first write instant, in any state, that no savepoint keeps."""
        writes = (i.requested_time for i in self.instants if i.is_write and i.requested_time not in self.savepoints)
        return next(writes, None)

    @cached
    def greatest_time(self) -> str:
        """The greatest time that any name holds, requested or completion; empty if there is none."""
        times = [i.requested_time for i in self.instants]
        times.extend(i.completion_time for i in self.instants if i.completion_time)
        return max(times, default="")

    def of_action(self, *actions: str) -> tuple[Instant, ...]:
        """Completed instants of these actions."""
        return tuple(i for i in self.instants if i.is_completed and i.action in actions)

    def __len__(self) -> int:
        return len(self.instants)

    def __repr__(self) -> str:
        span = f" {self.instants[0].requested_time}..{self.instants[-1].requested_time}" if self.instants else ""
        return f"<Timeline of {len(self.instants)} instants{span}>"


def _fold(names: Iterable[TimelineName]) -> tuple[Instant, ...]:
    groups: dict[tuple[str, str], list[TimelineName]] = {}
    for name in names:
        groups.setdefault((name.requested_time, name.completed_action), []).append(name)
    return tuple(_best(files) for _, files in sorted(groups.items()))


def _best(files: list[TimelineName]) -> Instant:
    pending = next((f.action for f in files if f.state is not State.COMPLETED), None)
    best = min(files, key=lambda f: (-f.state.value, f.completion_time or ""))
    return Instant(best.requested_time, best.completed_action, best.state, best.completion_time, pending)
