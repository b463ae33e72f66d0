"""What ``tidelake doctor`` says: a check is ok, a warning or a problem, with one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; ``says`` is what was found and, unless it is ok, what to do."""

    about: str
    status: Status
    says: str


def ok(about: str, says: str) -> Check:
    return Check(about, "ok", says)


def warning(about: str, says: str) -> Check:
    return Check(about, "warning", says)


def problem(about: str, says: str) -> Check:
    return Check(about, "problem", says)
