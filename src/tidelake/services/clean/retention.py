"""How far back a clean reaches. Pure.

A file slice is superseded at the **completion** of the commit that wrote its successor's base file, a replaced file group at
that of the commit that replaced it; retention counts from there, and never from the time in a file's name. What was
superseded stays while the state before that commit may be read:

- by commits: the last n commits, by completion, are retained. As Apache Hudi does, what the earliest of them superseded
  stays too, since a query that began just before it may be running;
- by hours: what was superseded in the last n hours stays;
- by versions: the last n slices of each group stay, whenever they were superseded.

Whatever the policy, a write that is pending keeps what was superseded after it began, a consumer what it has not read, and
the minimum age what a reader that began before may still read.

Points in time are travelled to by requested or by completion time, and writes may complete in another order than they were
requested. So there are two bounds, and what may go was superseded before both.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.config import KEEP_COMMITS, KEEP_HOURS, KEEP_VERSIONS, CleanOptions, TableConfig
from tidelake.storage import Storage
from tidelake.timeline import WRITE_ACTIONS, Instant, Timeline, format_instant, timeline_zone
from tidelake.timeline.times import next_instant

END = "9" * 17
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Retention:
    """What may go: what an instant superseded that was requested before ``requested`` and completed before ``completion``.

    ``versions`` is how many slices of a group stay anyway. ``earliest`` is the first instant as of which the table can be
    read afterwards; None if the policy does not say.
    """

    requested: str
    completion: str
    versions: int = 1
    earliest: Instant | None = None

    def is_past(self, requested: str, completion: str) -> bool:
        """Whether what this instant superseded may go."""
        return requested < self.requested and completion < self.completion


def is_due(timeline: Timeline, options: CleanOptions) -> bool:
    """Whether as many commits have completed since the last clean was planned as the options ask for."""
    since = max((clean.requested_time for clean in timeline.of_action("clean")), default="")
    later = [write for write in timeline.completed_writes if _completion(write) > since]
    return len(later) >= options.due_after


def retention(
    timeline: Timeline, options: CleanOptions, config: TableConfig, now_ms: int, consumed: str | None = None
) -> Retention | None:
    """What the policy keeps on this timeline; None if it keeps everything.

    ``consumed`` is the completion time up to which every consumer has read, if there are consumers.
    """
    zone = timeline_zone(config.timezone_is_utc)
    writes = sorted(timeline.completed_writes, key=_completion)
    if not writes or (options.policy == KEEP_COMMITS and len(writes) <= options.retain):
        return None
    pending = [i for i in timeline.pending if i.pending_action in WRITE_ACTIONS]
    limits = [next_instant(timeline.greatest_time), *(i.requested_time for i in pending)]
    if consumed is not None:
        limits.append(consumed)
    if options.min_age_s:
        limits.append(format_instant(max(0, now_ms - options.min_age_s * 1000), zone))
    if options.policy == KEEP_COMMITS:
        limits.append(_completion(writes[-options.retain]))
    elif options.policy == KEEP_HOURS:
        limits.append(format_instant(max(0, now_ms - options.retain * _HOUR_MS), zone))
    completion = min(limits)
    if options.policy == KEEP_VERSIONS:
        return Retention(END, completion, options.retain)
    kept = [i for i in writes if _completion(i) >= completion] + pending
    if not kept:
        return Retention(END, completion, earliest=max(writes, key=lambda i: i.requested_time))
    earliest = min(kept, key=lambda i: i.requested_time)
    # A reader as of a completion time sees `earliest` or what was requested later, whichever completed first.
    seen = (_completion(i) for i in writes if i.requested_time >= earliest.requested_time)
    return Retention(earliest.requested_time, min(completion, *seen, END), earliest=earliest)


def consumers_have_read(storage: Storage) -> str | None:
    """The completion time up to which every registered consumer of the table has read; None while nobody registers."""
    del storage
    return None


def _completion(instant: Instant) -> str:
    return instant.completion_time or ""
