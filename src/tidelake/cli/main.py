"""The entry point: parse, hand to the command, and turn every error into one sentence and an exit code.

Exit codes: 0 done, 1 an error (or a problem that ``doctor`` found), 2 wrong usage, 130 interrupted, 141 the reader of
our output went away.

Commands are imported when they are run, here and in their modules: ``tidelake timeline`` answers from a cold start in a
fraction of a second only because it loads neither Arrow nor an engine.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from tidelake.cli import text
from tidelake.cli.parser import DEFAULT_ROWS, build_parser
from tidelake.errors import TidelakeError

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns its exit code."""
    parser = build_parser()
    try:
        given = parser.parse_args(arguments)
        _refuse_contradictions(parser, given)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_ERROR
    text.prepare_output()
    try:
        code = _run(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _close_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except TidelakeError as error:
        if _is_debugging(given):
            raise
        text.complain(str(error))
        return EXIT_ERROR
    except Exception as error:
        # Whatever it is, a person gets a sentence and the way to the traceback.
        if _is_debugging(given):
            raise
        text.complain(f"unexpected {type(error).__name__}: {error} (a bug: please report it with what --debug shows)")
        return EXIT_ERROR


def _run(given: Namespace) -> int:
    options = dict(given.storage_option)
    as_json = given.format == "json"
    if given.command == "show":
        from tidelake.cli import show

        return show.run(given.path, options, as_json=as_json)
    if given.command == "timeline":
        from tidelake.cli import timeline

        limit = None if given.all else given.limit
        return timeline.run(
            given.path, options, limit=limit, archived=given.archived, pending=given.pending, as_json=as_json
        )
    if given.command == "files":
        from tidelake.cli import files

        return files.run(given.path, options, partition=given.partition, every=given.all, as_json=as_json)
    if given.command == "schema":
        from tidelake.cli import schema

        return schema.run(given.path, options, avro=given.avro, meta=given.meta, as_json=as_json)
    if given.command == "read":
        return _read(given, options, as_json)
    if given.command == "rollback":
        from tidelake.cli import rollback

        writer = dict(given.option)
        return rollback.run(given.path, given.instant, options, writer, sure=given.yes, as_json=as_json)
    if given.command in ("compact", "cluster", "services"):
        return _services(given, options, as_json)
    if given.command in ("clean", "savepoint", "restore"):
        return _upkeep(given, options, as_json)
    if given.command == "freshness":
        from tidelake.cli import freshness

        return freshness.run(given.path, options, limit=given.limit, as_json=as_json)
    if given.command == "metrics":
        from tidelake.cli import freshness

        return freshness.metrics(given.path, options, port=given.port, file=given.file, every_s=given.every)
    from tidelake.cli import doctor

    return doctor.run(given.path, options, as_json=as_json)


def _services(given: Namespace, options: dict[str, str], as_json: bool) -> int:
    from tidelake.cli import services

    opened = services.Opened(given.path, options, dict(given.option), as_json)
    if given.command == "compact":
        return services.compact(
            opened,
            dry_run=given.dry_run,
            schedule=given.schedule,
            instant=given.run,
            strategy=given.strategy,
            threshold=given.threshold,
            partitions=given.partition,
        )
    if given.command == "cluster":
        return services.cluster(
            opened,
            dry_run=given.dry_run,
            schedule=given.schedule,
            instant=given.run,
            sort_by=given.sort_by,
            order=given.order,
            strategy=given.strategy,
            partitions=given.partition,
            condition=given.filter,
        )
    if given.action == "audit":
        return services.audit(opened, repair=given.repair)
    if given.action == "show":
        return services.show(opened)
    return services.run(opened, every_s=given.every if given.continuous else None)


def _upkeep(given: Namespace, options: dict[str, str], as_json: bool) -> int:
    from tidelake.cli import services, upkeep

    opened = services.Opened(given.path, options, dict(given.option), as_json)
    if given.command == "clean":
        return upkeep.clean(opened, policy=given.policy, retain=given.retain, dry_run=given.dry_run)
    if given.command == "restore":
        return upkeep.restore(opened, given.instant, sure=given.yes, dry_run=given.dry_run)
    return upkeep.savepoint(
        opened, instant=given.instant, user=given.user, comment=given.comment, drop=given.drop, show=given.list
    )


def _read(given: Namespace, options: dict[str, str], as_json: bool) -> int:
    from tidelake.cli import read

    request = read.Request(
        path=given.path,
        options=options,
        columns=given.columns,
        filter=given.filter,
        as_of=given.as_of,
        as_of_completion=given.as_of_completion,
        as_of_event_time=given.as_of_event_time,
        mode=given.mode if given.as_of_event_time is None else "read_optimized",
        with_meta=given.meta,
        on_spark=given.spark,
    )
    if given.count:
        return read.count(request, as_json=as_json)
    if given.output is not None:
        return read.save(request, given.output, given.limit, overwrite=given.overwrite, as_json=as_json)
    return read.show(request, given.limit or DEFAULT_ROWS, as_json=as_json)


def _refuse_contradictions(parser: ArgumentParser, given: Namespace) -> None:
    if given.command != "read":
        return
    if given.count and (given.limit is not None or given.output is not None):
        parser.error("--count counts all rows: leave out --limit and --output")
    if given.as_of is not None and given.as_of_completion is not None:
        parser.error("--as-of and --as-of-completion exclude each other")
    if given.columns is not None and given.meta:
        parser.error("--meta adds to all columns: with --columns, name those wanted")
    if given.spark and given.output is not None:
        parser.error("--output is written by this process: leave out --spark")
    if given.overwrite and given.output is None:
        parser.error("--overwrite goes with --output")


def _is_debugging(given: Namespace) -> bool:
    return bool(given.debug) or os.environ.get("TIDELAKE_DEBUG", "") not in ("", "0")


def _close_output() -> None:
    """Point standard output at nothing, or the interpreter complains when it flushes at its end."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        return


if __name__ == "__main__":
    sys.exit(main())
