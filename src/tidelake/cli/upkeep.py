"""``tidelake clean``, ``tidelake savepoint`` and ``tidelake restore``: what goes, what is kept, and the way back."""

from __future__ import annotations

from dataclasses import asdict

from tidelake.cli import text
from tidelake.cli.services import Opened
from tidelake.errors import InvalidError
from tidelake.services.clean import CleanResult
from tidelake.services.restore import RestoreResult
from tidelake.services.savepoint import Savepoint


def clean(opened: Opened, *, policy: str | None, retain: int | None, dry_run: bool) -> int:
    """Remove what the policy does not keep, or show it."""
    result = opened.table().clean(policy=policy, retain=retain, dry_run=dry_run)
    if opened.as_json:
        text.write_json({"files": []} if result is None else {**asdict(result), "size_bytes": result.size_bytes})
        return 0
    if result is None:
        text.write("nothing to clean")
        return 0
    _tell_clean(result)
    return 0


def _tell_clean(result: CleanResult) -> None:
    if result.instant is None:
        for file in result.files:
            text.write(text.clean(f"would go: {file.path} ({file.size_bytes:,} bytes): {file.reason}"))
        for kept in result.kept:
            text.write(text.clean(f"stays: {kept.path}: {kept.reason}"))
    verb = "would be removed" if result.instant is None else f"were removed by {result.instant}"
    text.write(f"{len(result.files)} files ({result.size_bytes:,} bytes) {verb}")
    looked_at = len(result.partitions_listed)
    text.write(text.clean(f"{result.policy} {result.retain}; {looked_at} partitions: {result.partition_source}"))
    if result.carried:
        text.write(f"{len(result.carried)} partitions have files that go later")


def savepoint(opened: Opened, *, instant: str | None, user: str, comment: str, drop: bool, show: bool) -> int:
    """Make a savepoint, drop one, or show those that there are."""
    table = opened.table()
    if show:
        for made in table.savepoints():
            _tell_savepoint(opened, made, "keeps")
        return 0
    if drop:
        if instant is None:
            raise InvalidError("which savepoint is to be dropped?", hint="add --instant")
        table.drop_savepoint(instant)
        if opened.as_json:
            text.write_json({"dropped": instant})
        else:
            text.write(
                f"the savepoint {text.clean(instant)} is dropped; the next clean removes what nothing else needs"
            )
        return 0
    _tell_savepoint(opened, table.savepoint(instant, user, comment), "now keeps")
    return 0


def _tell_savepoint(opened: Opened, made: Savepoint, verb: str) -> None:
    if opened.as_json:
        text.write_json(asdict(made))
        return
    about = "".join(f", {name} {value!r}" for name, value in (("by", made.user), ("comment", made.comment)) if value)
    text.write(text.clean(f"{made.instant} {verb} {len(made.files)} files since {made.made_at}{about}"))


def restore(opened: Opened, instant: str, *, sure: bool, dry_run: bool) -> int:
    """Go back to a savepoint, or show what would go."""
    table = opened.table()
    shown = table.restore(instant, dry_run=True)
    if dry_run or shown is None:
        _tell_restore(opened, shown)
        return 0
    if not sure:
        raise InvalidError(
            f"{len(shown.undone)} instants that came after {instant} would be undone",
            value=instant,
            hint="add --yes to undo them, or --dry-run to see them",
        )
    _tell_restore(opened, table.restore(instant))
    return 0


def _tell_restore(opened: Opened, result: RestoreResult | None) -> None:
    if opened.as_json:
        undone = [] if result is None else [str(i) for i in result.undone]
        rolled_back = [] if result is None else [str(i) for i in result.rolled_back]
        files = [] if result is None else list(result.files)
        own = None if result is None else result.instant
        text.write_json({"instant": own, "undone": undone, "rolled_back": rolled_back, "files": files})
        return
    if result is None:
        text.write("the table is there already")
        return
    verb = "would be" if result.instant is None else "is"
    for instant in result.rolled_back:
        text.write(text.clean(f"{instant}, which is pending, {verb} rolled back"))
    for instant in result.undone:
        text.write(text.clean(f"{instant} {verb} undone"))
    text.write(f"{len(result.files)} files ({result.size_bytes:,} bytes)")
