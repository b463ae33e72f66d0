"""The procedures that CALL knows, as a registry: each entry says its parameters, its result and what it runs.

A procedure is a name for a verb of ``Table``: it holds no logic, and its rows come from metadata alone. To add one, add
an entry. Names, parameters and columns are Apache Hudi's where it has them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidelake.errors import InvalidError
from tidelake.observe.freshness import ViewFreshness
from tidelake.sql.arguments import Arguments, FindTable, Row
from tidelake.sql.call import Call, Value
from tidelake.sql.service_calls import (
    run_clean,
    run_clustering,
    run_compaction,
    show_cleans,
    show_clustering,
    show_compaction,
)

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "boolean": (bool,),
    "instant": (str, int),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a procedure. ``kind`` is string, int, boolean, or instant: its digits as text or number."""

    name: str
    kind: str
    doc: str
    required: bool = False
    default: Value = None

    def __str__(self) -> str:
        default = "" if self.default is None else f" = {_literal(self.default)}"
        shown = f"{self.name} => {self.kind}{default}"
        return shown if self.required else f"[{shown}]"


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: what it takes, what it returns, what it runs."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    result: pa.Schema
    run: Callable[[Arguments], Iterable[Row]]

    @property
    def signature(self) -> str:
        return f"CALL {self.name}({', '.join(map(str, self.parameters))})"


def run_call(call: Call, find: FindTable) -> pa.Table:
    """Carry out a CALL; its result with named, typed columns."""
    procedure = PROCEDURES.get(call.name)
    if procedure is None:
        near = difflib.get_close_matches(call.name, PROCEDURES, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise InvalidError(
            f"there is no procedure {call.name!r}", value=call.name, hint=f"{meant}CALL help() lists them all"
        )
    rows = list(procedure.run(Arguments(_bind(procedure, call), find)))
    columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(procedure.result)]
    return pa.table(columns, schema=procedure.result)


def _bind(procedure: Procedure, call: Call) -> dict[str, Value]:
    """The value of each parameter."""
    known = {parameter.name: parameter for parameter in procedure.parameters}
    if len(call.positional) > len(known):
        raise _wrong(procedure, f"takes {len(known)} arguments and was given {len(call.positional)}", None)
    given: dict[str, Value] = dict(zip(known, call.positional, strict=False))
    for name, value in call.named:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f", did you mean {near[0]!r}" if near else ""
            raise _wrong(procedure, f"has no argument {name!r}{meant}", name)
        if name in given:
            raise _wrong(procedure, f"was given the argument {name!r} more than once", name)
        given[name] = value
    bound: dict[str, Value] = {}
    for name, parameter in known.items():
        value = given.get(name)
        if value is None:
            if parameter.required:
                raise _wrong(procedure, f"needs the argument {name!r}", name)
            value = parameter.default
        elif type(value) not in _KINDS[parameter.kind]:
            raise _wrong(
                procedure, f"takes a value of type {parameter.kind} for {name!r}, and not {_literal(value)}", value
            )
        bound[name] = value
    return bound


def _wrong(procedure: Procedure, what: str, value: Value) -> InvalidError:
    return InvalidError(f"{procedure.name} {what}", value=value, hint=procedure.signature)


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


_TABLE = Parameter("table", "string", "a view made by tl.view, or a path")
_PATH = Parameter("path", "string", "the table's path; in place of table")


def _limit(default: int) -> Parameter:
    return Parameter("limit", "int", "how many at most, newest first", default=default)


def _columns(**kinds: pa.DataType) -> pa.Schema:
    return pa.schema(list(kinds.items()))


def _help(given: Arguments) -> Iterable[Row]:
    name = given.text("cmd")
    if name is None:
        return [(p.name, p.signature, p.doc) for p in PROCEDURES.values()]
    procedure = PROCEDURES.get(name.lower().removeprefix("system."))
    if procedure is None:
        raise InvalidError(f"there is no procedure {name!r}", value=name, hint="CALL help() lists them all")
    about = [(procedure.name, procedure.signature, procedure.doc)]
    return [*about, *((p.name, str(p), p.doc) for p in procedure.parameters)]


def _show_commits(given: Arguments) -> Iterable[Row]:
    return [
        (
            c.requested_time,
            c.completion_time,
            c.action,
            c.bytes_written,
            c.files_added,
            c.files_updated,
            c.partitions,
            c.rows_written,
            c.rows_updated,
            c.errors,
        )
        for c in given.table().commits(given.number("limit"))
    ]


def _show_timeline(given: Arguments) -> Iterable[Row]:
    return [
        (
            i.requested_time,
            i.action,
            i.state,
            i.completion_time,
            i.operation,
            "ARCHIVED" if i.is_archived else "ACTIVE",
        )
        for i in given.table().instants(given.number("limit"), archived=given.flag("show_archived"))
    ]


def _rollback_to_instant(given: Arguments) -> Iterable[Row]:
    return [(True, given.table().rollback(given.text("instant_time") or ""))]


def _create_savepoint(given: Arguments) -> Iterable[Row]:
    user, comments = given.text("user") or "", given.text("comments") or ""
    given.table().savepoint(given.text("commit_time") or None, user, comments)
    return [(True,)]


def _delete_savepoint(given: Arguments) -> Iterable[Row]:
    given.table().drop_savepoint(given.text("instant_time") or "")
    return [(True,)]


def _show_savepoints(given: Arguments) -> Iterable[Row]:
    newest_first = given.table().savepoints()[::-1][: given.number("limit")]
    return [
        (
            s.instant,
            s.made_at,
            "COMPLETED",
            "savepoint",
            "ACTIVE",
            s.user,
            s.made_at_ms,
            s.comment,
            path.rpartition("/")[0],
            path.rpartition("/")[2],
            1,
        )
        for s in newest_first
        for path in s.files or ("",)
    ]


def _rollback_to_savepoint(given: Arguments) -> Iterable[Row]:
    given.table().restore(given.text("instant_time") or "")
    return [(True,)]


_COMPACTION_COLUMNS = _columns(timestamp=pa.string(), operation_size=pa.int32(), state=pa.string())
_CLUSTERING_COLUMNS = _columns(
    timestamp=pa.string(), input_group_size=pa.int32(), state=pa.string(), involved_partitions=pa.string()
)
_INVOLVED = Parameter("show_involved_partition", "boolean", "name the partitions of each plan", default=False)
_SAVEPOINT = Parameter("instant_time", "string", "the savepoint's write, by its requested time", required=True)
_INSTANTS = Parameter("instants", "string", "with execute: the plans, with commas between; all that wait by default")
_AT_MOST = Parameter("limit", "int", "carry out so many plans at most, the oldest first")
_OPTIONS = Parameter("options", "string", "options of the service: key=value, with commas between")


def _show_freshness(given: Arguments) -> Iterable[Row]:
    report = given.table().freshness()
    rows: list[Row] = [("", *_freshness_row(name, view)) for name, view in (("rt", report.rt), ("ro", report.ro))]
    for each in report.partitions[: given.number("limit")]:
        if each.path:
            rows += [(each.path, *_freshness_row(name, view)) for name, view in (("rt", each.rt), ("ro", each.ro))]
    return rows


def _freshness_row(name: str, view: ViewFreshness) -> Row:
    return (name, view.completion, view.freshness, view.completion_hwm, view.freshness_hwm)


def _sync_catalog(given: Arguments) -> Iterable[Row]:
    return sorted(given.table().sync_catalog(given.text("name")).items())


_ALL = (
    Procedure(
        "help",
        "what can be called, or one procedure with its arguments",
        (Parameter("cmd", "string", "a procedure's name"),),
        _columns(name=pa.string(), signature=pa.string(), description=pa.string()),
        _help,
    ),
    Procedure(
        "show_commits",
        "the last completed writes and what each wrote",
        (_TABLE, _limit(10), _PATH),
        _columns(
            commit_time=pa.string(),
            state_transition_time=pa.string(),
            action=pa.string(),
            total_bytes_written=pa.int64(),
            total_files_added=pa.int64(),
            total_files_updated=pa.int64(),
            total_partitions_written=pa.int64(),
            total_records_written=pa.int64(),
            total_update_records_written=pa.int64(),
            total_errors=pa.int64(),
        ),
        _show_commits,
    ),
    Procedure(
        "show_timeline",
        "the last instants of the timeline, completed or not",
        (_TABLE, _limit(20), _PATH, Parameter("show_archived", "boolean", "also archived instants", default=False)),
        _columns(
            instant_time=pa.string(),
            action=pa.string(),
            state=pa.string(),
            completed_time=pa.string(),
            operation=pa.string(),
            timeline_type=pa.string(),
        ),
        _show_timeline,
    ),
    Procedure(
        "rollback_to_instant",
        "take a pending write back, or the last completed one",
        (_TABLE, Parameter("instant_time", "string", "the write's requested time", required=True), _PATH),
        _columns(rollback_result=pa.bool_(), rollback_time=pa.string()),
        _rollback_to_instant,
    ),
    Procedure(
        "run_compaction",
        "plan a compaction (schedule), carry out plans that wait (execute), or both (scheduleAndExecute)",
        (
            Parameter("op", "string", "schedule, execute, or scheduleAndExecute (run is the same)", required=True),
            _TABLE,
            _PATH,
            Parameter("timestamp", "instant", "with execute or run: one plan, as instants"),
            _OPTIONS,
            _INSTANTS,
            _AT_MOST,
            Parameter("strategy", "string", "which file groups to take, such as event_time"),
            Parameter("threshold", "string", "with event_time: compact the data before this time"),
        ),
        _COMPACTION_COLUMNS,
        run_compaction,
    ),
    Procedure(
        "show_compaction",
        "the compaction plans on the timeline, and how far each is",
        (_TABLE, _PATH, _limit(20)),
        _COMPACTION_COLUMNS,
        show_compaction,
    ),
    Procedure(
        "run_clustering",
        "plan a clustering (schedule), carry out plans that wait (execute), or both (scheduleAndExecute)",
        (
            _TABLE,
            _PATH,
            Parameter("predicate", "string", "only partitions that this condition leaves"),
            Parameter("order", "string", "columns to sort by, with commas between"),
            _INVOLVED,
            Parameter(
                "op", "string", "schedule, execute or scheduleAndExecute; by default both, or execute with instants"
            ),
            Parameter("order_strategy", "string", "linear, z-order or hilbert"),
            _OPTIONS,
            _INSTANTS,
            Parameter("selected_partitions", "string", "only these partitions, with commas between"),
            Parameter("partition_regex_pattern", "string", "only partitions whose path matches"),
            _AT_MOST,
        ),
        _CLUSTERING_COLUMNS,
        run_clustering,
    ),
    Procedure(
        "show_clustering",
        "the clustering plans on the timeline, and how far each is",
        (_TABLE, _PATH, _limit(20), _INVOLVED),
        _CLUSTERING_COLUMNS,
        show_clustering,
    ),
    Procedure(
        "run_clean",
        "remove superseded files that nobody may read any more",
        (
            _TABLE,
            Parameter(
                "clean_policy", "string", "KEEP_LATEST_COMMITS, KEEP_LATEST_BY_HOURS or KEEP_LATEST_FILE_VERSIONS"
            ),
            Parameter("retain_commits", "int", "KEEP_LATEST_COMMITS: how many commits"),
            Parameter("hours_retained", "int", "KEEP_LATEST_BY_HOURS: how many hours"),
            Parameter(
                "file_versions_retained", "int", "KEEP_LATEST_FILE_VERSIONS: how many versions of each file group"
            ),
            _OPTIONS,
            _PATH,
            Parameter("trigger_strategy", "string", "NUM_COMMITS, which is the only one"),
            Parameter(
                "trigger_max_commits", "int", "clean only if so many commits have completed since the last clean"
            ),
            Parameter("schedule_in_line", "boolean", "plan the clean here; nothing else is supported", default=True),
        ),
        _columns(
            start_clean_time=pa.string(),
            time_taken_in_millis=pa.int64(),
            total_files_deleted=pa.int32(),
            earliest_commit_to_retain=pa.string(),
            bootstrap_part_metadata=pa.string(),
            version=pa.int32(),
        ),
        run_clean,
    ),
    Procedure(
        "show_cleans",
        "the last completed cleans",
        (_TABLE, _limit(10), _PATH),
        _columns(
            clean_time=pa.string(),
            state_transition_time=pa.string(),
            action=pa.string(),
            start_clean_time=pa.string(),
            time_taken_in_millis=pa.int64(),
            total_files_deleted=pa.int32(),
            earliest_commit_to_retain=pa.string(),
            last_completed_commit_timestamp=pa.string(),
            version=pa.int32(),
        ),
        show_cleans,
    ),
    Procedure(
        "create_savepoint",
        "keep the state as of a write: its files stay, and it can be restored",
        (
            _TABLE,
            Parameter("commit_time", "string", "the write's requested time; by default the last one"),
            Parameter("user", "string", "who makes it"),
            Parameter("comments", "string", "what it is for"),
            _PATH,
        ),
        _columns(create_savepoint_result=pa.bool_()),
        _create_savepoint,
    ),
    Procedure(
        "delete_savepoint",
        "drop a savepoint",
        (_TABLE, _SAVEPOINT, _PATH),
        _columns(delete_savepoint_result=pa.bool_()),
        _delete_savepoint,
    ),
    Procedure(
        "show_savepoints",
        "the savepoints, and the files that each keeps",
        (_TABLE, _PATH, _limit(10)),
        _columns(
            savepoint_time=pa.string(),
            state_transition_time=pa.string(),
            state=pa.string(),
            action=pa.string(),
            timeline_type=pa.string(),
            savepointed_by=pa.string(),
            savepointed_at=pa.int64(),
            comments=pa.string(),
            partition_path=pa.string(),
            savepoint_data_file=pa.string(),
            version=pa.int32(),
        ),
        _show_savepoints,
    ),
    Procedure(
        "rollback_to_savepoint",
        "go back to a savepoint: whatever completed after it was made is undone",
        (_TABLE, _SAVEPOINT, _PATH),
        _columns(rollback_savepoint_result=pa.bool_()),
        _rollback_to_savepoint,
    ),
    Procedure(
        "show_freshness",
        "up to which event time both views are complete, and how fresh they are; the table first, then its partitions",
        (_TABLE, _PATH, _limit(1_000)),
        _columns(
            partition=pa.string(),
            view=pa.string(),
            completion=pa.timestamp("us", "UTC"),
            freshness=pa.timestamp("us", "UTC"),
            completion_hwm=pa.timestamp("us", "UTC"),
            freshness_hwm=pa.timestamp("us", "UTC"),
        ),
        _show_freshness,
    ),
    Procedure(
        "sync_catalog",
        "keep completion and freshness as properties of a table in Spark's catalog; shows those that changed",
        (_TABLE, _PATH, Parameter("name", "string", "the catalog's name of the table; by default the table's own")),
        _columns(property=pa.string(), value=pa.string()),
        _sync_catalog,
    ),
)
PROCEDURES: Mapping[str, Procedure] = {procedure.name: procedure for procedure in _ALL}
