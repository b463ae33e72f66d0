"""``tidelake compact``, ``tidelake cluster`` and ``tidelake services``: keep a table in shape, and say what was done and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tidelake._clock import SystemClock
from tidelake.cli import text
from tidelake.services.report import ServicePlan
from tidelake.table import Table, open_table
from tidelake.write import Commit


@dataclass(frozen=True, slots=True)
class Opened:
    """Which table, with which options, and how to tell of it."""

    path: str
    storage_options: dict[str, str]
    options: dict[str, str]
    as_json: bool

    def table(self) -> Table:
        """The table's handle."""
        return open_table(self.path, storage_options=self.storage_options, options=self.options)


def compact(
    opened: Opened,
    *,
    dry_run: bool,
    schedule: bool,
    instant: str | None,
    strategy: str | None,
    threshold: str | None,
    partitions: Sequence[str] | None,
) -> int:
    """Plan, or carry out, or both."""
    table = opened.table()
    if schedule:
        made = table.schedule_compaction(strategy=strategy, threshold=threshold, partitions=partitions)
        return _tell(opened, {"instant": made}, "nothing to compact" if made is None else f"the plan {made} waits")
    if instant is not None:
        return _tell_done(opened, table.run_compaction(instant))
    done = table.compact(dry_run=dry_run, strategy=strategy, threshold=threshold, partitions=partitions)
    if isinstance(done, ServicePlan):
        return _tell(opened, asdict(done), str(done))
    if done is None:
        why = table.compact(dry_run=True, strategy=strategy, threshold=threshold, partitions=partitions)
        if isinstance(why, ServicePlan) and why.event_time is not None:
            return _tell(
                opened, {"instant": None, "reason": why.event_time.reason}, f"nothing to compact: {why.event_time}"
            )
    return _tell_done(opened, done)


def cluster(
    opened: Opened,
    *,
    dry_run: bool,
    schedule: bool,
    instant: str | None,
    sort_by: Sequence[str] | None,
    order: str | None,
    strategy: str | None,
    partitions: Sequence[str] | None,
    condition: str | None,
) -> int:
    """Plan, or carry out, or both."""
    table = opened.table()
    if schedule:
        made = table.schedule_clustering(
            sort_by=sort_by, order=order, strategy=strategy, partitions=partitions, filter=condition
        )
        return _tell(opened, {"instant": made}, "nothing to cluster" if made is None else f"the plan {made} waits")
    if instant is not None:
        return _tell_done(opened, table.run_clustering(instant), "cluster")
    done = table.cluster(
        dry_run=dry_run, sort_by=sort_by, order=order, strategy=strategy, partitions=partitions, filter=condition
    )
    if isinstance(done, ServicePlan):
        return _tell(opened, asdict(done), str(done))
    return _tell_done(opened, done, "cluster")


def run(opened: Opened, *, every_s: int | None) -> int:
    """A round of the service runner, or one every so many seconds until interrupted."""
    table = opened.table()
    clock = SystemClock()
    while True:
        for decision in table.run_services():
            _tell(opened, asdict(decision), str(decision))
        if every_s is None:
            return 0
        clock.sleep(every_s)


def show(opened: Opened) -> int:
    """The plans on the timeline."""
    table = opened.table()
    for service, runs in (("compaction", table.compactions(None)), ("clustering", table.clusterings(None))):
        for found in runs:
            left = f", left work in {len(found.left)} partitions" if found.left else ""
            _tell(
                opened,
                {"service": service, **asdict(found)},
                f"{service} {found.instant} {found.state.lower()}: {found.file_groups} file groups{left}",
            )
    return 0


def audit(opened: Opened, *, repair: bool) -> int:
    """Whether work was lost; the exit code is 1 if it was and is not healed."""
    report = opened.table().audit_services(repair=repair)
    _tell(opened, {"lost": dict(report.lost), "with_work": dict(report.with_work), "repaired": repair}, str(report))
    return 0 if report.is_clean or repair else 1


def _tell_done(opened: Opened, done: Commit | None, verb: str = "compact") -> int:
    if done is None:
        return _tell(opened, {"instant": None}, f"nothing to {verb}")
    told = {"instant": done.requested_time, "completion": done.completion_time, "files": len(done.stats)}
    return _tell(opened, told, f"{done.requested_time}: {len(done.stats)} file groups {verb}ed")


def _tell(opened: Opened, fields: dict[str, object], words: str) -> int:
    if opened.as_json:
        text.write_json(fields)
    else:
        text.write(text.clean(words) if "\n" not in words else "\n".join(map(text.clean, words.splitlines())))
    return 0
