"""What commits store of completion and freshness, in their extra metadata.

Words
- *completion*: up to which event time a view holds what arrived; *freshness*: its greatest event time. Both in milliseconds.
- *literal* values follow the rules as they are, and late data moves them back; a *high-water mark* (hwm) never goes back.
- *memory*: what the next commit needs beside the values, so that it works out its own from what it changes alone.

``tidelake.{rt,ro}.{completion,freshness}[.hwm]`` are for everybody; ``tidelake.freshness.memory`` is our own. A value that is
not known is not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

_MEMORY_KEY = "tidelake.freshness.memory"
INCOMING_MIN_KEY, INCOMING_MAX_KEY = "tidelake.incoming.event.min", "tidelake.incoming.event.max"
"""The event times that a copy-on-write brought: statistics there are of whole files."""
_INCOMING_TIMES_KEY = "tidelake.incoming.event.times"
"""Of a table with several event times: the least and greatest of each that a write brought."""
OWN_PREFIXES = ("tidelake.rt.", "tidelake.ro.", "tidelake.freshness.", "tidelake.incoming.", "tidelake.watermark.")


@dataclass(frozen=True, slots=True)
class ViewTimes:
    """Completion and freshness of a view, in milliseconds since the epoch; None: not known."""

    completion: int | None = None
    freshness: int | None = None

    def raised(self, other: ViewTimes) -> ViewTimes:
        """The greater of each."""
        return ViewTimes(greatest(self.completion, other.completion), greatest(self.freshness, other.freshness))


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next commit starts from."""

    log_min: int | None = None
    """The least event time in logs that are not compacted; None: there are none."""
    is_settled: bool = False
    """Whether the next commit's values follow from these and its own files; not if times are not known, or in the future."""
    declared: Mapping[str, int] = field(default_factory=dict)
    """The watermark of each input."""
    clocks: Mapping[str, ViewTimes] = field(default_factory=dict)
    """Of a table with several event times: what the last write that brought one of them brought of it."""
    first: str = ""
    """The first write of the active timeline then: while it is the first one, nothing was archived since."""


@dataclass(frozen=True, slots=True)
class FreshnessMarks:
    """What a commit stores."""

    rt: ViewTimes = field(default_factory=ViewTimes)
    ro: ViewTimes = field(default_factory=ViewTimes)
    rt_hwm: ViewTimes = field(default_factory=ViewTimes)
    ro_hwm: ViewTimes = field(default_factory=ViewTimes)
    memory: Memory = field(default_factory=Memory)

    def properties(self) -> dict[str, str]:
        """The values under their public names."""
        named = {
            "tidelake.rt.completion": self.rt.completion,
            "tidelake.rt.completion.hwm": self.rt_hwm.completion,
            "tidelake.rt.freshness": self.rt.freshness,
            "tidelake.rt.freshness.hwm": self.rt_hwm.freshness,
            "tidelake.ro.completion": self.ro.completion,
            "tidelake.ro.completion.hwm": self.ro_hwm.completion,
            "tidelake.ro.freshness": self.ro.freshness,
            "tidelake.ro.freshness.hwm": self.ro_hwm.freshness,
        }
        return {key: str(value) for key, value in named.items() if value is not None}

    def encode(self) -> dict[str, str]:
        """As extra metadata of a commit."""
        memory: dict[str, object] = {
            "log_min": self.memory.log_min,
            "settled": self.memory.is_settled,
            "declared": dict(sorted(self.memory.declared.items())),
            "first": self.memory.first,
        }
        if self.memory.clocks:
            memory["clocks"] = {name: [t.completion, t.freshness] for name, t in sorted(self.memory.clocks.items())}
        return {**self.properties(), _MEMORY_KEY: json.dumps(memory, separators=(",", ":"))}


def decode_freshness_marks(extra: Mapping[str, str | None] | None) -> FreshnessMarks | None:
    """What a commit stored; None if it is none of ours, or what it stored cannot be read."""
    found = extra or {}
    try:
        memory = json.loads(found.get(_MEMORY_KEY) or "")
        low = memory["log_min"]
        declared = {str(name): int(time_ms) for name, time_ms in memory["declared"].items()}
        clocks = {str(name): ViewTimes(int(a), int(b)) for name, (a, b) in memory.get("clocks", {}).items()}
        first = str(memory.get("first") or "")
        kept = Memory(None if low is None else int(low), memory["settled"] is True, declared, clocks, first)
        return FreshnessMarks(
            _times(found, "rt", ""),
            _times(found, "ro", ""),
            _times(found, "rt", ".hwm"),
            _times(found, "ro", ".hwm"),
            kept,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def encode_incoming(times: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """What a write brought of each of several event times, as extra metadata."""
    return {_INCOMING_TIMES_KEY: json.dumps(dict(sorted(times.items())), separators=(",", ":"))} if times else {}


def decode_incoming(extra: Mapping[str, str | None] | None) -> dict[str, ViewTimes] | None:
    """The same, read again; None if the commit does not tell."""
    try:
        told = json.loads((extra or {}).get(_INCOMING_TIMES_KEY) or "")
        return {str(name): ViewTimes(int(low), int(high)) for name, (low, high) in told.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _times(found: Mapping[str, str | None], view: str, suffix: str) -> ViewTimes:
    values = (found.get(f"tidelake.{view}.{what}{suffix}") for what in ("completion", "freshness"))
    return ViewTimes(*(None if value is None else int(value) for value in values))


def greatest(*values: int | None) -> int | None:
    """The greatest of those that are known."""
    return max((value for value in values if value is not None), default=None)


def least(*values: int | None) -> int | None:
    """The least of those that are known."""
    return min((value for value in values if value is not None), default=None)
