"""What every service call knows: the table, the clock, the options, and who runs its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from tidelake._clock import Clock
from tidelake.config import WriterOptions
from tidelake.engine.tasks import LocalRunner, TaskRunner
from tidelake.locking import Lock, make_lock
from tidelake.query import TableSource
from tidelake.services.strategy import ServiceConfig
from tidelake.storage import Storage
from tidelake.timeline.transitions import Transitions
from tidelake.write.context import FileOptions


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call of a service."""

    storage: Storage
    clock: Clock
    files: FileOptions
    writer: WriterOptions = field(default_factory=WriterOptions)
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the service, by Apache Hudi's names: those of the call, of the handle, and of the table."""
    runner: TaskRunner = field(default_factory=LocalRunner)

    def source(self) -> TableSource:
        """The table as it is now."""
        return TableSource.load(self.storage)

    def config(self, source: TableSource) -> ServiceConfig:
        """What a strategy knows."""
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, timezone.utc)
        return ServiceConfig(source.config, self.options, now)

    def lock(self) -> Lock:
        """The lock that the table's writers share."""
        return make_lock(self.writer.lock, self.storage, self.clock)

    def moves(self, source: TableSource) -> Transitions:
        """Who moves instants."""
        return Transitions(self.storage, source.config, self.clock, self.lock())
