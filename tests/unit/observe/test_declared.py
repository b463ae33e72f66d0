"""Declared watermarks, waiting for completion, and signals."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import tidelake as tl
from tidelake.errors import IncompleteError, InvalidError, UnavailableError
from tidelake.observe.signals import SIGNALS_DIR
from tidelake.timeline import as_epoch_ms
from unit.observe.event_tables import EventWorld, at, events

D0 = "day=d0"


def test_watermark_is_taken_by_every_verb_of_writing() -> None:
    """Each declares for its input: the txn's application, or the default one."""
    world = EventWorld()
    table = world.open()
    table.insert(events((0, "07:00")), watermark=at("01:00"))
    table.bulk_insert(events((1, "07:00")), watermark=at("01:01"))
    table.upsert(events((0, "08:00")), watermark=at("01:02"), txn=("loader", 1))
    table.delete([0], watermark=at("01:03"))
    assert dict(table.freshness().inputs) == {"default": at("01:03"), "loader": at("01:02")}
    assert table.delete([77], watermark=at("01:04")) is not None, "a delete of nothing still says what it declares"
    assert table.delete([78]) is None
    table.insert_overwrite(events((0, "08:00")), watermark=at("01:05"))
    table.insert_overwrite_table(events((0, "08:00")), watermark=at("01:06"))
    table.delete_partitions([D0], watermark=at("01:07"))
    report = table.freshness()
    assert dict(report.inputs) == {"default": at("01:07"), "loader": at("01:02")}
    assert report.watermark_ms == at("01:02")
    key = "tidelake.watermark.default"
    assert (world.last_commit().extra_metadata or {})[key] == str(at("01:07"))


def test_watermark_never_goes_back() -> None:
    """What an input declared it does not take back."""
    world = EventWorld()
    world.upsert((0, "07:00"), watermark=at("07:00"))
    world.upsert((0, "08:00"), watermark=at("06:00"))
    assert world.open().freshness().watermark_ms == at("07:00")


@pytest.mark.parametrize(
    "given",
    [
        at("07:00"),
        "2026-01-01T07:00:00Z",
        "2026-01-01 08:00:00.000+01:00",
        datetime(2026, 1, 1, 7, tzinfo=timezone.utc),
        datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_event_time_of_a_user_has_a_zone(given: Any) -> None:
    """Milliseconds, ISO text and datetimes with a zone are the same moment."""
    assert as_epoch_ms(given) == at("07:00")


@pytest.mark.parametrize("given", ["2026-01-01T07:00:00", datetime(2026, 1, 1, 7), "soon", True, None, 1.5, 10**15])
def test_event_time_of_a_user_without_a_zone_is_refused(given: Any) -> None:
    """A zone, or a unit, is never guessed."""
    with pytest.raises(InvalidError):
        as_epoch_ms(given)


@pytest.mark.parametrize(
    "given",
    [
        datetime(2026, 1, 1, 7, 0, 0, 500, tzinfo=timezone.utc),
        datetime(2026, 1, 1, 7, 0, 0, 1_001, tzinfo=timezone(timedelta(hours=1))),
        "2026-01-01T07:00:00.0005Z",
        "2026-01-01 07:00:00.000000001+00:00",
    ],
)
def test_event_time_of_a_user_finer_than_a_millisecond_is_refused(given: Any) -> None:
    """Cut, it would stand for an earlier time, and events between the two would be left out in silence."""
    world = EventWorld()
    world.upsert((0, "06:00"))
    table = world.open()
    asks: list[Callable[[], object]] = [
        lambda: as_epoch_ms(given),
        lambda: table.declare_complete(given),
        lambda: table.wait_complete(given),
        lambda: table.signal_complete(given, marker="_SUCCESS"),
        lambda: table.upsert(events((0, "07:00")), watermark=given),
        lambda: table.compact(strategy="event_time", threshold=given, dry_run=True),
        lambda: table.scan(mode="read_optimized", as_of_event_time=given).to_arrow(),
    ]
    for ask in asks:
        with pytest.raises(InvalidError, match="finer than a millisecond") as error:
            ask()
        assert error.value.value == str(given)
        assert "whole milliseconds" in (error.value.hint or "")


def test_event_time_of_a_user_in_whole_milliseconds_is_taken_however_it_is_written() -> None:
    """Zeros after the milliseconds say nothing more."""
    assert as_epoch_ms("2026-01-01T07:00:00.001000000Z") == at("07:00") + 1
    assert as_epoch_ms(datetime(2026, 1, 1, 7, 0, 0, 1_000, tzinfo=timezone.utc)) == at("07:00") + 1


def test_declare_complete_without_an_event_time_field_is_refused() -> None:
    """There is nothing that could be complete."""
    world = EventWorld(event_time_field=None)
    with pytest.raises(InvalidError, match="no event-time field"):
        world.open().declare_complete(at("07:00"))
    with pytest.raises(InvalidError, match="no event-time field"):
        world.open().wait_complete(at("07:00"))


def test_declaring_nothing_is_refused() -> None:
    """A commit that says nothing would look like one that does."""
    world = EventWorld()
    with pytest.raises(InvalidError, match="None"):
        world.open().declare_complete(None)  # type: ignore[arg-type]
    assert len(world.open().timeline) == 0


def test_declare_complete_is_an_empty_commit_that_rows_do_not_feel() -> None:
    """Nothing but the declaration changes."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    rows = world.open().scan().to_arrow()
    commit = world.open().declare_complete("2026-01-01T09:00:00Z", txn=("loader", 4))
    assert (commit.stats, world.last_commit().stats) == ((), ())
    assert world.open().scan().to_arrow().equals(rows)
    assert dict(world.open().freshness().inputs) == {"loader": at("09:00")}


def test_wait_complete_returns_at_once_if_it_is_so() -> None:
    """A view that holds what arrived, and a literal completion or a declared watermark."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    began = world.clock.now_ms()
    world.open().wait_complete(at("07:00"))
    world.open().declare_complete(at("08:00"))
    world.open().wait_complete(at("08:00"), view="ro")
    assert world.clock.now_ms() == began, "nobody slept"


def test_wait_complete_waits_until_the_logs_are_compacted() -> None:
    """The declared watermark is not enough for base files that lack what arrived; the other view has it."""
    world = EventWorld()
    world.upsert((0, "07:00"))
    world.upsert((0, "07:30"), watermark=at("08:00"))
    table = world.open()
    table.wait_complete(at("08:00"), view="rt")
    with pytest.raises(IncompleteError) as error:
        table.wait_complete(at("08:00"), view="ro", timeout_s=20)
    assert error.value.retryable
    assert "1 file group(s) hold it back: day=d0/" in error.value.message
    assert "complete to 2026-01-01T07:29:59.999Z, declared 2026-01-01T08:00:00.000Z" in error.value.message
    slept = world.clock.monotonic_s()
    assert 20 <= slept - 120 < 21, "it looked until its time was over"
    sleep = world.clock.sleep

    def compact_then_sleep(seconds: float) -> None:
        world.clock.sleep = sleep  # type: ignore[method-assign]
        world.open().compact()
        sleep(seconds)

    world.clock.sleep = compact_then_sleep  # type: ignore[method-assign]
    report = table.wait_complete(at("08:00"), view="ro")
    assert report.holding == ()


def test_wait_complete_of_an_unknown_view_is_refused() -> None:
    """There are two."""
    with pytest.raises(InvalidError, match="known are rt, snapshot, ro, read_optimized"):
        EventWorld().open().wait_complete(at("07:00"), view="all")


def test_signal_by_a_marker_is_put_once_when_the_partition_is_complete() -> None:
    """Not before; once; readers pass over it; and it says the latest time."""
    world = EventWorld()
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((0, "07:10"), (1, "07:10"), watermark=at("08:00"))
    table = world.open()
    path = f"{D0}/_SUCCESS"
    assert not table.signal_complete(at("08:00"), partition=D0, marker="_SUCCESS")
    assert not world.storage.exists(path)
    table.compact(partitions=[D0])
    assert table.signal_complete(at("08:00"), partition=D0, marker="_SUCCESS")
    told = json.loads(world.storage.get(path))
    assert (told["partition"], told["complete_to_ms"], told["view"]) == (D0, at("08:00"), "ro")
    world.storage.delete(path)
    assert not table.signal_complete(at("08:00"), partition=D0, marker="_SUCCESS")
    assert not world.storage.exists(path), "what was told is not told again"
    assert not table.signal_complete(at("08:00"), marker="_SUCCESS"), "the other partition has logs"
    table.compact()
    assert table.signal_complete(at("08:00"), marker="_SUCCESS")
    assert world.storage.exists("_SUCCESS")
    assert table.signal_complete(at("07:30"), partition=D0, marker="_SUCCESS")
    assert table.signal_complete(at("07:40"), partition=D0, marker="_SUCCESS")
    assert table.signal_complete(at("07:20"), partition=D0, marker="_SUCCESS")
    assert json.loads(world.storage.get(path))["complete_to_ms"] == at("07:40")
    assert table.scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_signal_of_a_partition_without_data_is_not_sent_and_writes_nothing(table_type: str) -> None:
    """A partition that is misspelt, that is to come or that was deleted, is not complete."""
    world = EventWorld(table_type=table_type)
    world.upsert((0, "07:00"), (1, "07:00"), watermark=at("08:00"))
    table = world.open()
    table.delete_partitions(["day=d1"])
    for view in ("ro", "rt"):
        for partition in ("day=d7", "day=d1"):
            assert not table.signal_complete(at("07:30"), view=view, partition=partition, marker="_SUCCESS")
    paths = [info.path for info in world.storage.list_files()]
    assert not [path for path in paths if path.endswith("_SUCCESS") or path.startswith(SIGNALS_DIR)]
    world.upsert((7, "07:10"))
    assert table.signal_complete(at("07:00"), view="rt", partition="day=d1", marker="_SUCCESS"), "there is data now"


def test_signal_of_a_path_that_is_no_partition_is_refused() -> None:
    """Folders that the table's keys never make, and any partition of a table without partitions."""
    world = EventWorld()
    world.upsert((0, "07:00"), watermark=at("08:00"))
    for path in (".hoodie", "no/such/column", "d0", "hour=1", ""):
        with pytest.raises(InvalidError, match="no partition of the table") as error:
            world.open().signal_complete(at("07:30"), partition=path, marker="_SUCCESS")
        assert error.value.value == path
        assert error.value.hint
    assert not world.storage.exists(".hoodie/_SUCCESS")
    flat = EventWorld(partition_by=())
    flat.upsert((0, "07:00"), watermark=at("08:00"))
    with pytest.raises(InvalidError, match="the table has no partitions"):
        flat.open().signal_complete(at("07:30"), partition=D0, marker="_SUCCESS")
    assert flat.open().signal_complete(at("07:30"), marker="_SUCCESS")


@contextmanager
def listening(*answers: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers so, then 200; gives its URL, and what it was sent."""
    left, sent = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(left.pop(0) if left else 200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/done", sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_signal_by_a_webhook_is_sent_once_and_again_if_it_was_not_taken() -> None:
    """A real server: it refuses, gets it again, and then no more, whoever asks."""
    world = EventWorld()
    world.upsert((0, "07:00"), watermark=at("08:00"))
    with listening(503) as (url, sent):
        with pytest.raises(UnavailableError, match="did not take the signal"):
            world.open().signal_complete(at("08:00"), webhook=url)
        assert world.open().signal_complete(at("08:00"), webhook=url)
        assert not world.open().signal_complete(at("08:00"), webhook=url)
        assert world.open().signal_complete(at("07:00"), webhook=url), "another time is another signal"
    assert [told["complete_to"] for told in sent] == ["2026-01-01T08:00:00.000Z"] * 2 + ["2026-01-01T07:00:00.000Z"]
    assert sent[0] == sent[1]
    assert sent[0]["table"] == "events"


def test_signal_of_a_sender_that_died_is_sent_after_a_while() -> None:
    """Rather twice than never."""
    world = EventWorld()
    world.upsert((0, "07:00"), watermark=at("08:00"))
    with listening() as (url, sent):
        assert world.open().signal_complete(at("08:00"), webhook=url)
        (record,) = (info.path for info in world.storage.list_files(SIGNALS_DIR))
        world.storage.put(record, json.dumps({"state": "sending", "at_ms": world.clock.now_ms()}).encode())
        assert not world.open().signal_complete(at("08:00"), webhook=url), "another is at it"
        world.clock.advance(601)
        assert world.open().signal_complete(at("08:00"), webhook=url)
    assert len(sent) == 2


@pytest.mark.parametrize(
    "how",
    [{}, {"marker": "_S", "webhook": "http://x"}, {"marker": "SUCCESS"}, {"marker": "_a/b"}, {"webhook": "file:///x"}],
)
def test_signal_of_a_wrong_kind_is_refused(how: dict[str, str]) -> None:
    """One of two, a name that readers pass over, and a URL of the web."""
    with pytest.raises(tl.InvalidError):
        EventWorld().open().signal_complete(at("07:00"), **how)  # type: ignore[arg-type]
