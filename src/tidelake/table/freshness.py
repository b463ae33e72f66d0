"""The verbs of a table about event time: how complete and fresh it is, what was declared, and who is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from tidelake.errors import UnsupportedError
from tidelake.observe.freshness import FreshnessReport, freshness_report
from tidelake.observe.signals import Signal, send_signal
from tidelake.observe.waiting import refuse_no_event_time, view_named, wait_complete
from tidelake.table.services import TableServices
from tidelake.timeline import as_epoch_ms
from tidelake.write import Commit, WriteRequest, declare, make_metadata, make_txn

EventTime: TypeAlias = datetime | str | int
"""A datetime with a zone, ISO text with one, or milliseconds since 1970 UTC."""


class TableFreshness(TableServices):
    """Completion and freshness of a table."""

    def freshness(self) -> FreshnessReport:
        """How complete and how fresh both views are, worked out anew: per table, clock and partition."""
        return freshness_report(self._refreshed(), self._clock.now_ms())

    def declare_complete(self, event_time: EventTime, *, txn: tuple[str, int] | None = None) -> Commit:
        """Say, in an empty commit, that no event before this time is still to come from an input (``txn``'s application)."""
        as_epoch_ms(event_time)  # also None is refused: it would declare nothing
        return declare(self._source.storage, self._clock, self._request("upsert", None, txn, event_time))

    def wait_complete(self, event_time: EventTime, view: str = "ro", timeout_s: float = 60) -> FreshnessReport:
        """Return when a view (``"ro"`` or ``"rt"``) holds all data before an event time; ``IncompleteError`` if it is late.

        The data that arrived must be there, and an input's word (a watermark), or the literal completion, must say that
        there is no more to come.
        """
        return wait_complete(self._refreshed, self._clock, as_epoch_ms(event_time), view_named(view), timeout_s)

    def signal_complete(
        self,
        event_time: EventTime,
        *,
        view: str = "ro",
        partition: str | None = None,
        marker: str | None = None,
        webhook: str | None = None,
    ) -> bool:
        """Tell others, once, if the table (or a partition) is complete to an event time; whether it was told now.

        ``marker`` is the name of a file that is put into the partition, or into the table's folder; ``webhook`` a URL that
        gets a POST of JSON. What was told before is not told again, and a partition without data is not complete.
        """
        signal = Signal(as_epoch_ms(event_time), view_named(view), partition, marker, webhook)
        return send_signal(self._refreshed(), self._clock, signal)

    def sync_catalog(self, name: str | None = None) -> dict[str, str]:
        """Keep completion and freshness as properties of the table in Spark's catalog; returns those that changed.

        ``name`` is the catalog's name of the table (``db.trips``), by default the table's own. A table that the catalog does
        not have is made there.
        """
        if self._spark is None:
            raise UnsupportedError(
                "the catalog is reached through Spark, and the table has no session",
                table=self.path,
                hint="open_table(path, spark=spark)",
            )
        from tidelake.spark.catalog import sync_catalog  # noqa: PLC0415 - an optional dependency

        source = self._refreshed()
        return sync_catalog(self._spark, source, name or self.name, self._clock.now_ms())

    def _request(
        self,
        operation: str,
        metadata: Mapping[str, str] | None,
        txn: tuple[str, int] | None,
        watermark: EventTime | None = None,
    ) -> WriteRequest:
        if watermark is not None:
            refuse_no_event_time(self._source)
        return WriteRequest(
            operation,
            make_metadata(metadata),
            self._file_options(),
            txn=make_txn(txn),
            watermark=None if watermark is None else as_epoch_ms(watermark),
            options=self._options,
        )

    def _said(self, request: WriteRequest) -> Commit | None:
        """A write of nothing leaves no trace, unless it declares something, or is a batch that is to be written once."""
        is_silent = request.watermark is None and request.txn is None
        return None if is_silent else declare(self._source.storage, self._clock, request)
