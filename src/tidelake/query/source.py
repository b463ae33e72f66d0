"""An opened table, as queries see it: storage, configuration, and the timeline as of one moment."""

from __future__ import annotations

from datetime import date, datetime, tzinfo

from tidelake.config import TableConfig
from tidelake.filegroup import TableView, ViewPoint
from tidelake.storage import Storage
from tidelake.timeline import Timeline, TimelineReader, as_instant, load_config, load_timeline, timeline_zone

PointInTime = str | datetime | date


class TableSource:
    """A table's state at the moment it was loaded. ``refresh`` gives the state of a later moment."""

    def __init__(self, storage: Storage, config: TableConfig, timeline: Timeline, reader: TimelineReader) -> None:
        self.storage = storage
        self.config = config
        self.timeline = timeline
        self.reader = reader

    @staticmethod
    def load(storage: Storage) -> TableSource:
        """Read properties and timeline."""
        config = load_config(storage)
        return TableSource(storage, config, load_timeline(storage, config), TimelineReader(storage, config))

    def refresh(self) -> TableSource:
        """The table as it is now; contents of timeline files already read are kept."""
        config = load_config(self.storage)
        return TableSource(self.storage, config, load_timeline(self.storage, config), self.reader)

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the table's instant times."""
        return timeline_zone(self.config.timezone_is_utc)

    def point(self, as_of: PointInTime | None, as_of_completion: PointInTime | None) -> ViewPoint:
        """A user's points in time as a view point."""
        return ViewPoint(
            None if as_of is None else as_instant(as_of, self.zone),
            None if as_of_completion is None else as_instant(as_of_completion, self.zone),
        )

    def view(self, point: ViewPoint | None = None) -> TableView:
        """The visible slices at a point in time."""
        return TableView(self.storage, self.config, self.timeline, self.reader, point)
