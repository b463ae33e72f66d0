"""The procedures that run compaction, clustering and clean: Apache Hudi's words for verbs of ``Table``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice

from tidelake.config import (
    CLEAN_COMMITS,
    CLEAN_HOURS,
    CLEAN_TRIGGER,
    CLEAN_TRIGGER_COMMITS,
    CLEAN_VERSIONS,
    CLUSTERING_REGEX,
)
from tidelake.errors import ConflictError, InvalidError, UnsupportedError
from tidelake.services.runs import RunSummary
from tidelake.sql.arguments import Arguments, Row
from tidelake.table.handle import positive
from tidelake.write import Commit

_BOTH = ("scheduleandexecute", "schedule_and_execute")


def run_compaction(given: Arguments) -> Iterable[Row]:
    """Plan a compaction, carry plans out, or both."""
    table, op = given.table(), (given.text("op") or "").lower()
    strategy, threshold = given.text("strategy"), given.text("threshold")
    options = _options(given.text("options"))
    named = [*_listed(given.text("instants")), *_listed(given.text("timestamp"))]
    if op == "run":  # an older word
        op = "execute" if named else _BOTH[0]
    _refuse_named_plans(op, named)
    if op == "schedule":
        made = table.schedule_compaction(strategy=strategy, threshold=threshold, options=options)
        found = [] if made is None else [made]
    elif op == "execute":
        found = _execute(named, _at_most(given), table.run_compaction)
    elif op in _BOTH:
        found = _plan_and_execute(
            _at_most(given),
            table.compactions(None),
            table.run_compaction,
            lambda: table.compact(strategy=strategy, threshold=threshold, options=options),
        )
    else:
        raise InvalidError(f"op is {op!r}", value=op, hint="schedule, execute, run or scheduleAndExecute")
    return [_compaction_row(r) for r in table.compactions(None) if r.instant in found]


def _compaction_row(run: RunSummary) -> Row:
    return (run.instant, run.file_groups, run.state)


def show_compaction(given: Arguments) -> Iterable[Row]:
    """The compaction plans on the timeline."""
    return [_compaction_row(r) for r in given.table().compactions(given.number("limit"))]


def run_clustering(given: Arguments) -> Iterable[Row]:
    """Plan a clustering, carry plans out, or both."""
    named = _listed(given.text("instants"))
    table, op = given.table(), (given.text("op") or ("execute" if named else _BOTH[0])).lower()
    _refuse_named_plans(op, named)
    selected, pattern = given.text("selected_partitions"), given.text("partition_regex_pattern")
    options = _options(given.text("options"))
    if pattern is not None:
        options[CLUSTERING_REGEX.key] = pattern
    sort_by, order = _listed(given.text("order")) or None, given.text("order_strategy")
    strategy, partitions = None if pattern is None else "regex", None if selected is None else _listed(selected)
    condition = given.text("predicate")
    if op == "schedule":
        made = table.schedule_clustering(
            sort_by=sort_by,
            order=order,
            strategy=strategy,
            partitions=partitions,
            filter=condition,
            options=options,
        )
        found = [] if made is None else [made]
    elif op == "execute":
        found = _execute(named, _at_most(given), table.run_clustering)
    elif op in _BOTH:
        found = _plan_and_execute(
            _at_most(given),
            table.clusterings(None),
            table.run_clustering,
            lambda: table.cluster(
                sort_by=sort_by,
                order=order,
                strategy=strategy,
                partitions=partitions,
                filter=condition,
                options=options,
            ),
        )
    else:
        raise InvalidError(f"op is {op!r}", value=op, hint="schedule, execute or scheduleAndExecute")
    with_partitions = given.flag("show_involved_partition")
    return [_clustering_row(r, with_partitions) for r in table.clusterings(None) if r.instant in found]


def _clustering_row(run: RunSummary, with_partitions: bool) -> Row:
    return (run.instant, run.file_groups, run.state, ",".join(run.partitions) if with_partitions else "*")


def show_clustering(given: Arguments) -> Iterable[Row]:
    """The clustering plans on the timeline."""
    with_partitions = given.flag("show_involved_partition")
    return [_clustering_row(r, with_partitions) for r in given.table().clusterings(given.number("limit"))]


def run_clean(given: Arguments) -> Iterable[Row]:
    """Clean, if it is due."""
    if not given.flag("schedule_in_line"):
        raise UnsupportedError(
            "run_clean with schedule_in_line => false is not supported: a clean is planned and carried out in one",
            value=False,
            hint="leave schedule_in_line out; every clean finishes those that were left half done",
        )
    table = given.table()
    named = {
        CLEAN_COMMITS.key: "retain_commits",
        CLEAN_HOURS.key: "hours_retained",
        CLEAN_VERSIONS.key: "file_versions_retained",
        CLEAN_TRIGGER.key: "trigger_strategy",
        CLEAN_TRIGGER_COMMITS.key: "trigger_max_commits",
    }
    said = {key: value for key, name in named.items() if (value := given.text(name)) is not None}
    options = {**_options(given.text("options")), **said}
    result = table.clean(policy=given.text("clean_policy"), options=options)
    done = [] if result is None else [c for c in table.cleans(None) if c.instant == result.instant]
    return [(c.instant, c.taken_ms, c.files_deleted, c.earliest_retained, "{}", c.version) for c in done]


def show_cleans(given: Arguments) -> Iterable[Row]:
    """The last completed cleans."""
    return [
        (
            c.instant,
            c.completion_time,
            "clean",
            c.instant,
            c.taken_ms,
            c.files_deleted,
            c.earliest_retained,
            c.last_completed,
            c.version,
        )
        for c in given.table().cleans(given.number("limit"))
    ]


def _refuse_named_plans(op: str, named: list[str]) -> None:
    if named and op != "execute":
        raise InvalidError(
            f"plans are named, and op {op!r} makes one", value=",".join(named), hint="name plans with op => 'execute'"
        )


def _at_most(given: Arguments) -> int | None:
    return None if given.text("limit") is None else positive(given.number("limit"))


def _execute(named: list[str], limit: int | None, run: Callable[[str | None], Commit | None]) -> list[str]:
    """Carry out the plans that are named, or those that wait, the oldest first; their instants."""
    commits = map(run, sorted(named)) if named else iter(lambda: run(None), None)
    return [commit.requested_time for commit in islice(commits, limit) if commit is not None]


def _plan_and_execute(
    limit: int | None,
    before: Iterable[RunSummary],
    run: Callable[[str | None], Commit | None],
    run_all: Callable[[], Commit | None],
) -> list[str]:
    """Carry out the plans that wait, and plan and do what is left, unless the limit is reached; the instants."""
    waiting = [r.instant for r in before if r.state != "COMPLETED"][::-1]
    found = waiting[:limit]
    if limit is not None and len(waiting) >= limit:
        for instant in found:
            with suppress(ConflictError):  # what another is at is left to it
                run(instant)
        return found
    done = run_all()
    return found if done is None else [*found, done.requested_time]


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _options(text: str | None) -> dict[str, str]:
    """Options as Apache Hudi's procedures take them: ``key=value,key=value``."""
    found: dict[str, str] = {}
    for part in (text or "").split(","):
        key, equals, value = part.partition("=")
        if part.strip() and not equals:
            raise InvalidError(f"{part!r} is no option", value=part, hint="key=value, with commas between")
        if part.strip():
            found[key.strip()] = value.strip()
    return found
