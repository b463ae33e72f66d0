"""Strategies: which of the partitions and file groups that have work a plan takes, and in which order.

A strategy filters; it never loses. Whatever it leaves out, the planner records in the plan, so that the next one finds it.
Users write their own, as a class of these, and register it by name: ``tl.register_strategy("mine", Mine)``. Nothing is
ever imported because a table or an option says so.

A strategy that does not declare itself incremental (``IncrementalPartitionAwareStrategy``) is given all partitions of the
table each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tidelake.config import TableConfig
from tidelake.errors import InvalidError
from tidelake.filegroup import FileSlice


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """What a strategy knows: the table, the options of the service, and the time."""

    table: TableConfig
    options: Mapping[str, str]
    now: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file group with work: its latest slice, and why it was taken."""

    file_slice: FileSlice
    reason: str = ""

    @property
    def partition_path(self) -> str:
        return self.file_slice.partition_path

    @property
    def group(self) -> tuple[str, str]:
        """The file group: its partition path and its id."""
        return self.partition_path, self.file_slice.file_id

    @property
    def log_bytes(self) -> int:
        return sum(log.size_bytes for log in self.file_slice.logs)

    @property
    def base_bytes(self) -> int:
        return self.file_slice.base.size_bytes if self.file_slice.base else 0

    @property
    def io_bytes(self) -> int:
        """What compacting it reads and writes, about."""
        return self.base_bytes * 2 + self.log_bytes


class IncrementalPartitionAwareStrategy:
    """Declares that a strategy is content with the partitions that changed or were left."""


class ServiceStrategy:
    """The base of all strategies: takes everything."""

    def filter_partition_paths(
        self, config: ServiceConfig, partitions: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """The partitions to look at now, and those that are left for later."""
        return partitions, ()

    def choose(self, config: ServiceConfig, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """The file groups to take, in the order to take them in; what is not returned is left for later."""
        return candidates


class Composed(ServiceStrategy, IncrementalPartitionAwareStrategy):
    """Several strategies one after the other: each filters what the one before left."""

    def __init__(self, parts: Sequence[ServiceStrategy]) -> None:
        self.parts = tuple(parts)

    def filter_partition_paths(
        self, config: ServiceConfig, partitions: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """What all parts let through."""
        process: Sequence[str] = partitions
        missing: list[str] = []
        for part in self.parts:
            process, left = part.filter_partition_paths(config, process)
            missing += left
        return process, missing

    def choose(self, config: ServiceConfig, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """What all parts let through, in the last one's order."""
        for part in self.parts:
            candidates = part.choose(config, candidates)
        return candidates


S = TypeVar("S", bound=type[ServiceStrategy])
_KNOWN: dict[str, type[ServiceStrategy]] = {}


def register_strategy(name: str, cls: S) -> S:
    """Make a strategy known by a name, which options and calls may then use."""
    if not (isinstance(cls, type) and issubclass(cls, ServiceStrategy)):
        raise InvalidError(f"{cls!r} is no class of ServiceStrategy", value=name)
    if not name or "+" in name or name != name.strip():
        raise InvalidError(f"{name!r} cannot name a strategy", value=name, hint="a word without '+'")
    _KNOWN[name] = cls
    return cls


def make_strategy(name: str | Sequence[str], aliases: Mapping[str, str]) -> ServiceStrategy:
    """A strategy by its name; several, joined by ``+`` or as a list, filter one after the other.

    ``aliases`` are Apache Hudi's class names.
    """
    given = name.split("+") if isinstance(name, str) else list(name)
    names = [part for each in given for part in aliases.get(each.strip().rpartition(".")[2], each).split("+")]
    made = [_one(part.strip()) for part in names]
    return made[0] if len(made) == 1 else Composed(made)


def is_incremental(strategy: ServiceStrategy) -> bool:
    """Whether a strategy, with all its parts, declares itself incremental."""
    if isinstance(strategy, Composed):
        return all(is_incremental(part) for part in strategy.parts)
    return isinstance(strategy, IncrementalPartitionAwareStrategy)


def _one(name: str) -> ServiceStrategy:
    known = _KNOWN.get(name)
    if known is None:
        raise InvalidError(
            f"the strategy {name!r} is not known",
            value=name,
            hint=f"known are {', '.join(sorted(_KNOWN))}; tl.register_strategy adds others",
        )
    return known()
