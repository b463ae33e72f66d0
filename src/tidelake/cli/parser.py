"""What can be typed: the commands, their options and their help. Loads nothing but argparse.

Every command takes ``--format``, ``--debug`` and ``--storage-option``. argparse and not a larger library, because a
command line that only lists a timeline would spend much of its time loading that library.
"""

from __future__ import annotations

import argparse
from typing import Final

from tidelake import __version__

DEFAULT_INSTANTS: Final = 25
DEFAULT_ROWS: Final = 20
FORMATS: Final = ("table", "json")
READ_MODES: Final = ("snapshot", "read_optimized")
ORDERS: Final = ("linear", "z-order", "hilbert")
CLEAN_POLICIES: Final = ("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS")
OUTPUT_KINDS: Final = (".parquet", ".csv", ".jsonl")

_DESCRIPTION = """\
Look at lakehouse tables in the Apache Hudi 1.x format, and keep them in shape. Nothing is ever written to a table by
looking at it; rollback, compact, cluster, clean, savepoint, restore and services change one. No JVM is started unless
asked for."""
_EXAMPLES = """\
examples:
  tidelake show /data/trips
  tidelake timeline /data/trips --limit 50
  tidelake read /data/trips --columns id,fare --filter "fare > 3"
  tidelake read s3://lake/trips --storage-option region=eu-north-1 --count
  tidelake doctor /data/trips

'tidelake COMMAND --help' explains a command."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(prog="tidelake", description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"tidelake {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_show(commands)
    _add_timeline(commands)
    _add_files(commands)
    _add_schema(commands)
    _add_read(commands)
    _add_rollback(commands)
    _add_compact(commands)
    _add_cluster(commands)
    _add_clean(commands)
    _add_savepoint(commands)
    _add_restore(commands)
    _add_services(commands)
    _add_freshness(commands)
    _add_metrics(commands)
    _add_doctor(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """Help is kept as it is laid out here, and options are not abbreviated: a new one must not change an old script."""

    def __init__(self, **settings: object) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)  # type: ignore[arg-type]


_Commands = argparse._SubParsersAction  # the type that add_subparsers returns has no public name


def _add_show(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "show",
        "what a table is: keys, partitions, size, last commits, what is pending",
        "examples:\n  tidelake show /data/trips\n  tidelake show /data/trips --format json",
    )
    _add_path(parser)


def _add_timeline(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "timeline",
        "a picture of the timeline: each instant as a bar from requested to completed",
        "Bars share one scale, so writers that overlapped are seen to overlap. Idle gaps are cut to one column.\n"
        "An instant that has not completed is open to the right.\n\n"
        "examples:\n"
        "  tidelake timeline /data/trips\n"
        "  tidelake timeline /data/trips --pending\n"
        "  tidelake timeline /data/trips --archived --all --format json",
    )
    _add_path(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--limit",
        type=_positive,
        default=DEFAULT_INSTANTS,
        metavar="N",
        help=f"the last N instants (default {DEFAULT_INSTANTS})",
    )
    which.add_argument("--all", action="store_true", help="all instants")
    parser.add_argument("--archived", action="store_true", help="also instants of the archived timeline")
    parser.add_argument("--pending", action="store_true", help="only instants that have not completed")


def _add_files(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "files",
        "the file slices of each partition: base file, logs, sizes",
        "examples:\n  tidelake files /data/trips\n  tidelake files /data/trips --partition city=oslo --all",
    )
    _add_path(parser)
    parser.add_argument("--partition", metavar="P", help="only this partition path, such as city=oslo")
    parser.add_argument("--all", action="store_true", help="all slices of each file group, not the latest alone")


def _add_schema(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "schema",
        "the columns, their types, and which may be null",
        "examples:\n  tidelake schema /data/trips\n  tidelake schema /data/trips --avro",
    )
    _add_path(parser)
    parser.add_argument("--avro", action="store_true", help="the Avro schema, as JSON")
    parser.add_argument("--meta", action="store_true", help="also the five _hoodie_... columns")


def _add_read(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "read",
        "rows of a table, as a table, as JSON lines, or into a file",
        "T is yyyyMMddHHmmssSSS or 2026-01-31 12:00:00.000, in the table's time zone unless it has an offset.\n\n"
        "examples:\n"
        "  tidelake read /data/trips\n"
        "  tidelake read /data/trips --columns id,fare --filter \"city = 'oslo' AND fare > 3\" --limit 5\n"
        "  tidelake read /data/trips --as-of 2026-01-31 --count\n"
        "  tidelake read /data/trips --format json | jq .fare\n"
        "  tidelake read /data/trips --output trips.parquet",
    )
    _add_path(parser)
    parser.add_argument("--columns", type=_names, metavar="A,B", help="only these columns, in this order")
    parser.add_argument("--filter", metavar="SQL", help="only rows for which this SQL condition is true")
    parser.add_argument("--as-of", metavar="T", help="the table as of a requested time, as Apache Hudi travels")
    parser.add_argument("--as-of-completion", metavar="T", help="the table as a reader saw it at that time")
    parser.add_argument(
        "--as-of-event-time",
        metavar="T",
        help="exactly the data before an event time, from base files, if they hold it",
    )
    parser.add_argument(
        "--mode", choices=READ_MODES, default="snapshot", help="merge logs (snapshot), or read base files alone"
    )
    parser.add_argument(
        "--limit",
        type=_positive,
        metavar="N",
        help=f"at most N rows (default {DEFAULT_ROWS}; with --output: all)",
    )
    parser.add_argument("--meta", action="store_true", help="also the five _hoodie_... columns")
    parser.add_argument("--count", action="store_true", help="only the number of rows")
    parser.add_argument(
        "--output", type=_output, metavar="FILE", help=f"write the rows to a file: {', '.join(OUTPUT_KINDS)}"
    )
    parser.add_argument("--overwrite", action="store_true", help="let --output replace a file that is there")
    parser.add_argument("--spark", action="store_true", help="read with Spark (starts a JVM)")


def _add_rollback(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "rollback",
        "take a write back: a pending one, or the last completed one",
        "INSTANT is the write's requested time, as timeline shows it. A pending write goes whatever its heartbeat says; its\n"
        "writer, if it lives, fails at its commit. A completed one goes only with --yes, and only if no later write or\n"
        "service knows of it.\n\n"
        "examples:\n"
        "  tidelake rollback /data/trips 20260131120000000\n"
        "  tidelake rollback /data/trips 20260131120000000 --yes\n"
        "  tidelake rollback /data/trips 20260131120000000 --option hoodie.write.lock.provider=file",
    )
    _add_path(parser)
    parser.add_argument("instant", metavar="INSTANT", help="the write's requested time")
    parser.add_argument("--yes", action="store_true", help="also if the write has completed")
    _add_option(parser)


def _add_compact(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "compact",
        "fold logs into new base files: plans that wait first, then what else there is",
        "A strategy says which file groups are taken: unbounded (default), bounded_io, log_file_size, log_file_num,\n"
        "day_based, partition_regex, event_time; several are joined by +. What is left is recorded for the next plan.\n\n"
        "examples:\n"
        "  tidelake compact /data/trips --dry-run\n"
        "  tidelake compact /data/trips --strategy event_time --threshold 2026-01-02T00:00:00Z\n"
        "  tidelake compact /data/trips --strategy log_file_size+bounded_io --option hoodie.compaction.target.io=1024\n"
        "  tidelake compact /data/trips --schedule",
    )
    _add_path(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="show the plan with its reasons, and write nothing")
    how.add_argument("--schedule", action="store_true", help="publish the plan, for another to carry out")
    how.add_argument("--run", metavar="INSTANT", help="carry out one plan that waits")
    parser.add_argument("--strategy", metavar="NAME", help="which file groups to take")
    parser.add_argument(
        "--threshold",
        metavar="TIME",
        help="with event_time: compact the data before this time, such as 2026-01-02T00:00:00Z",
    )
    parser.add_argument(
        "--partition", action="append", metavar="P", help="only this partition path, such as city=oslo; repeatable"
    )
    _add_option(parser)


def _add_cluster(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "cluster",
        "put small files together, and sort rows: plans that wait first, then what else there is",
        "A strategy says which partitions are looked at: size_based (default: all with work), recent_days,\n"
        "selected_partitions, regex; several are joined by +. What is left is recorded for the next plan. Writers that\n"
        "change a file group of a plan are refused until it has completed.\n\n"
        "examples:\n"
        "  tidelake cluster /data/trips --dry-run\n"
        "  tidelake cluster /data/trips --sort-by city,fare --order hilbert\n"
        "  tidelake cluster /data/trips --filter \"day >= '2026-01-01'\" --schedule",
    )
    _add_path(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="show the plan with its reasons, and write nothing")
    how.add_argument("--schedule", action="store_true", help="publish the plan, for another to carry out")
    how.add_argument("--run", metavar="INSTANT", help="carry out one plan that waits")
    parser.add_argument("--sort-by", type=_names, metavar="A,B", help="sort rows by these columns")
    parser.add_argument("--order", choices=ORDERS, help="how several columns sort (default linear)")
    parser.add_argument("--strategy", metavar="NAME", help="which partitions to look at")
    parser.add_argument(
        "--partition", action="append", metavar="P", help="only this partition path, such as city=oslo; repeatable"
    )
    parser.add_argument("--filter", metavar="SQL", help="only partitions that a condition on their columns leaves")
    _add_option(parser)


def _add_clean(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "clean",
        "remove superseded files that nobody may read any more",
        "A file stays while the state before it was superseded may be read: as of the last commits (default 10), the last\n"
        "hours, or as one of the last versions of its file group; and while a savepoint or a pending plan needs it.\n\n"
        "examples:\n"
        "  tidelake clean /data/trips --dry-run\n"
        "  tidelake clean /data/trips --policy KEEP_LATEST_BY_HOURS --retain 24",
    )
    _add_path(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would go and what stays, and write nothing")
    parser.add_argument("--policy", choices=CLEAN_POLICIES, help="what stays (default KEEP_LATEST_COMMITS)")
    parser.add_argument("--retain", type=_positive, metavar="N", help="how many commits, hours or versions stay")
    _add_option(parser)


def _add_savepoint(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "savepoint",
        "keep the state as of a write: its files stay, and it can be restored",
        "examples:\n"
        '  tidelake savepoint /data/trips --comment "before the migration"\n'
        "  tidelake savepoint /data/trips --list\n"
        "  tidelake savepoint /data/trips --drop --instant 20260131120000000",
    )
    _add_path(parser)
    parser.add_argument("--instant", metavar="INSTANT", help="the write's requested time (default: the last one)")
    parser.add_argument("--user", default="", help="who makes it")
    parser.add_argument("--comment", default="", help="what it is for")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--list", action="store_true", help="show the savepoints that there are")
    how.add_argument("--drop", action="store_true", help="drop the savepoint of --instant")
    _add_option(parser)


def _add_restore(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "restore",
        "go back to a savepoint: whatever completed after it was made is undone",
        "INSTANT is the savepoint's write, as savepoint --list shows it. Writes and plans that are pending go too.\n\n"
        "examples:\n"
        "  tidelake restore /data/trips 20260131120000000 --dry-run\n"
        "  tidelake restore /data/trips 20260131120000000 --yes",
    )
    _add_path(parser)
    parser.add_argument("instant", metavar="INSTANT", help="the savepoint's write, by its requested time")
    parser.add_argument("--dry-run", action="store_true", help="show what would be undone, and write nothing")
    parser.add_argument("--yes", action="store_true", help="undo it")
    _add_option(parser)


def _add_services(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "services",
        "run the table services that are due, show their plans, or prove that no work was lost",
        "run decides by the table's policy what to do next, does it, and says why. audit looks at the whole table; with\n"
        "--repair what it finds lost is taken in by the next plan.\n\n"
        "examples:\n"
        "  tidelake services run /data/trips\n"
        "  tidelake services run /data/trips --continuous --every 60\n"
        "  tidelake services show /data/trips\n"
        "  tidelake services audit /data/trips --repair",
    )
    parser.add_argument("action", choices=("run", "show", "audit"), help="what to do")
    _add_path(parser)
    parser.add_argument("--continuous", action="store_true", help="run: go on until interrupted")
    parser.add_argument(
        "--every", type=_positive, default=30, metavar="S", help="run: seconds between two rounds (default 30)"
    )
    parser.add_argument("--repair", action="store_true", help="audit: heal what was lost")
    _add_option(parser)


def _add_freshness(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "freshness",
        "show up to which event time both views of a table are complete, and how fresh they are",
        "rt is the snapshot view, ro the read-optimised one. A bar is solid up to the completion of a view and light up to\n"
        "its freshness; the partitions that are furthest behind come first.\n\n"
        "examples:\n"
        "  tidelake freshness /data/trips\n"
        "  tidelake freshness /data/trips --limit 100 --format json",
    )
    _add_path(parser)
    parser.add_argument(
        "--limit",
        type=_positive,
        default=DEFAULT_ROWS,
        metavar="N",
        help=f"partitions to show (default {DEFAULT_ROWS})",
    )


def _add_metrics(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "metrics",
        "completion and freshness as Prometheus metrics: printed, kept in a file, or served",
        "Values are worked out when they are asked for, so that the ages of a stopped pipeline grow.\n\n"
        "examples:\n"
        "  tidelake metrics /data/trips\n"
        "  tidelake metrics /data/trips --port 9108\n"
        "  tidelake metrics /data/trips --file /var/lib/node_exporter/trips.prom --every 30",
    )
    _add_path(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--port", type=_port, metavar="N", help="answer GET /metrics here until interrupted")
    how.add_argument("--file", metavar="F", help="write them to this file")
    parser.add_argument("--every", type=_positive, metavar="S", help="write or print them again each S seconds")


def _add_option(parser: _Parser) -> None:
    parser.add_argument(
        "--option",
        action="append",
        type=_pair,
        default=[],
        metavar="KEY=VALUE",
        help="an option of writers and services, such as the lock that other writers use; repeatable",
    )


def _add_doctor(commands: _Commands[_Parser]) -> None:
    parser = _command(
        commands,
        "doctor",
        "check this machine and, with a path, a table: what is wrong, and what to do",
        "Nothing is written. The exit code is 1 if there is a problem; warnings leave it 0.\n\n"
        "examples:\n  tidelake doctor\n  tidelake doctor /data/trips --format json",
    )
    _add_path(parser, nargs="?")


def _command(commands: _Commands[_Parser], name: str, summary: str, epilog: str) -> _Parser:
    made = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".", epilog=epilog)
    made.add_argument("--format", choices=FORMATS, default="table", help="for people (table, the default) or json")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error (also TIDELAKE_DEBUG=1)")
    return made


def _add_path(parser: _Parser, nargs: str | None = None) -> None:
    parser.add_argument(
        "path", metavar="PATH", nargs=nargs, help="the table's folder: a local path or a URI (s3://...)"
    )
    parser.add_argument(
        "--storage-option",
        action="append",
        type=_pair,
        default=[],
        metavar="KEY=VALUE",
        help="an option of the object store, such as region or endpoint; repeatable. Secrets are better kept in the "
        "environment (AWS_SECRET_ACCESS_KEY...), where other users do not see them",
    )


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 12 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names no column")
    return names


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        # The text is not repeated: it may be a secret.
        raise argparse.ArgumentTypeError("it must be KEY=VALUE")
    return key.strip(), value


def _output(text: str) -> str:
    if not text.endswith(OUTPUT_KINDS):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in one of {', '.join(OUTPUT_KINDS)}")
    return text
