"""One executor for each pending plan.

Whoever carries a plan out claims it first: ``.hoodie/.tidelake/claims/<instant>`` holds the claim's number and its holder's
nonce, and the heartbeat of the instant shows that the holder lives. A live claim refuses a second executor. A dead one is
taken over: the number grows by one, and a turn of the head that names nothing makes a holder that slept through it all
look again before it completes anything. The number is the first part of the write token of every file, so that each
executor knows its own files and those of lower claims from later ones.

Whoever withdraws a plan puts a claim that never ends (``WITHDRAWN``) in its place: it is nobody's to carry out from then
on, however long the plan's removal takes.

Claims are derived: if the file is lost, the next number follows from the files that carry the instant.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tidelake._clock import Clock
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    PreconditionError,
    TidelakeError,
    UnavailableError,
)
from tidelake.storage import Storage
from tidelake.timeline.instant import Timeline
from tidelake.timeline.transitions import HEARTBEAT_DIR, Transitions

CLAIM_DIR = ".hoodie/.tidelake/claims"
JUDGE_FILE = ".hoodie/.tidelake/judge"
WITHDRAWN = "withdrawn"
"""What stands for the nonce in the claim of a plan that is being removed."""
_TRIES = 20


class WithdrawnError(ConflictError):
    """A plan is being removed, and its removal may have been left half done."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to carry out the plan of an instant; without a holder it is free."""

    instant: str
    number: int
    nonce: str

    @property
    def path(self) -> str:
        return f"{CLAIM_DIR}/{self.instant}"

    def encode(self) -> bytes:
        """The claim file's bytes."""
        return json.dumps({"number": self.number, "nonce": self.nonce}, separators=(",", ":")).encode()


def alive_since_ms(storage: Storage, clock: Clock, dead_after_ms: int) -> int:
    """Signs of life older than this are too old, by the storage's own clock."""
    storage.put(JUDGE_FILE, clock.new_id().encode())
    return storage.head(JUDGE_FILE).modified_ms - dead_after_ms


def read_claim(storage: Storage, instant: str) -> tuple[Claim, str] | None:
    """The claim of an instant and its version, if there is one."""
    try:
        data, version = storage.get_with_version(f"{CLAIM_DIR}/{instant}")
    except NotFoundError:
        return None
    try:
        fields = json.loads(data)
        return Claim(instant, int(fields["number"]), str(fields["nonce"])), version
    except (ValueError, KeyError, TypeError):
        # Damaged: nobody holds it, and its files tell the number.
        return Claim(instant, 0, ""), version


def take_claim(
    storage: Storage,
    clock: Clock,
    moves: Transitions,
    instant: str,
    dead_after_ms: int,
    used_number: Callable[[], int],
    check: Callable[[Timeline], None],
    *,
    withdraws: bool = False,
) -> Claim:
    """Claim a plan, or raise ConflictError if its executor lives.

    ``used_number`` is the greatest first part of the write tokens of files that carry the instant; ``check`` raises if the
    plan, on the timeline of the turn, is not to be carried out. A claim that ``withdraws`` the plan is every withdrawer's.
    """

    def new_claim(used: int) -> Claim:
        return Claim(instant, used + 1, WITHDRAWN if withdraws else clock.new_id())

    for _ in range(_TRIES):
        found = read_claim(storage, instant)
        if found is None:
            mine = new_claim(used_number())
            if _begin(storage, moves, mine, None, check):
                return mine
            continue
        held, version = found
        if held.nonce == WITHDRAWN:
            if not withdraws:
                raise WithdrawnError(
                    f"the plan {instant} is being withdrawn", instant=instant, table=storage.uri, hint="plan anew"
                )
            moves.take_turn(check)
            return held
        if held.nonce and _lives(storage, clock, held, dead_after_ms):
            raise ConflictError(
                f"the plan {instant} is being carried out",
                instant=instant,
                table=storage.uri,
                hint="wait for its executor; if that died, its claim expires with its heartbeat",
            )
        mine = new_claim(max(held.number, used_number()))
        if _begin(storage, moves, mine, version, check):
            return mine
    raise ConflictError(f"others claim the plan {instant} again and again", instant=instant, table=storage.uri)


def holds(storage: Storage, claim: Claim) -> bool:
    """Whether a claim is still its holder's."""
    found = read_claim(storage, claim.instant)
    return found is not None and found[0] == claim


def free_claim(storage: Storage, instant: str, used_number: Callable[[], int]) -> int:
    """Take the right from whoever has it, as a rollback does, and return the number: later claims have greater ones."""
    for _ in range(_TRIES):
        found = read_claim(storage, instant)
        if found is not None and found[0].nonce in ("", WITHDRAWN) and found[0].number:
            return found[0].number
        number = max(used_number(), found[0].number if found else 1)
        if _put(storage, Claim(instant, number, ""), found[1] if found else None):
            return number
    raise ConflictError(f"others claim the plan {instant} again and again", instant=instant, table=storage.uri)


def release_claim(storage: Storage, claim: Claim) -> None:
    """Give a claim back: another may take it at once."""
    found = read_claim(storage, claim.instant)
    if found is not None and found[0] == claim:
        _put(storage, Claim(claim.instant, claim.number, ""), found[1])


def end_claim(storage: Storage, instant: str) -> None:
    """Remove the claim of a plan that has been carried out."""
    with suppress(NotFoundError):
        storage.delete(f"{CLAIM_DIR}/{instant}")
    storage.delete(f"{HEARTBEAT_DIR}/{instant}")


def _begin(
    storage: Storage, moves: Transitions, claim: Claim, version: str | None, check: Callable[[Timeline], None]
) -> bool:
    """Put a claim, and show that its holder lives; False if others were first. If that fails, the claim is given back."""
    try:
        if not _put(storage, claim, version):
            return False
        storage.put(f"{HEARTBEAT_DIR}/{claim.instant}", b"")
        # Also a lost claim may have had a holder: it must look again, as that of a dead one.
        if version is not None or claim.number > 1:
            moves.take_turn(check)
    except Exception:
        if claim.nonce != WITHDRAWN:  # which is every withdrawer's, and never ends
            with suppress(TidelakeError):
                release_claim(storage, claim)
        raise
    return True


def _lives(storage: Storage, clock: Clock, claim: Claim, dead_after_ms: int) -> bool:
    since_ms = alive_since_ms(storage, clock, dead_after_ms)
    for path in (f"{HEARTBEAT_DIR}/{claim.instant}", claim.path):  # a fresh claim may have an old one's heartbeat
        with suppress(NotFoundError):
            if storage.head(path).modified_ms >= since_ms:
                return True
    return False


def _put(storage: Storage, claim: Claim, version: str | None) -> bool:
    """Put a claim in place of the version known, or of none; False if others were first."""
    try:
        if version is None:
            storage.put_if_absent(claim.path, claim.encode())
        else:
            storage.put_if_match(claim.path, claim.encode(), version)
    except (AlreadyExistsError, PreconditionError):
        return holds(storage, claim)  # our own try, whose answer was lost, may have been first
    except UnavailableError as error:
        if not error.retryable:
            raise
        return holds(storage, claim)
    return True
