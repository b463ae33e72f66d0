"""Metrics: read by Prometheus' own parser, from text, from a file, and over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidelake.errors import UnavailableError
from tidelake.observe.metrics import CONTENT_TYPE, metrics_text, serving_metrics, write_metrics_file
from unit.observe.event_tables import EventWorld, at

Parsed = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Parsed:
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def of(found: Parsed, name: str, **labels: str) -> float:
    return found[name, tuple(sorted({"table": "events", **labels}.items()))]


def world() -> EventWorld:
    made = EventWorld()
    made.upsert((0, "07:00"), (1, "08:00"), txn=("loader", 1), watermark="2026-01-01T06:00:00Z")
    made.upsert((0, "09:00"), (1, "10:00"))
    return made


def test_metrics_are_what_the_report_says() -> None:
    """Every value under its name, in seconds, with the table and the view as labels."""
    made = world()
    report = made.open().freshness()
    found = parsed(metrics_text(report))
    assert of(found, "tidelake_up") == 1
    assert of(found, "tidelake_table_completion_timestamp_seconds", view="rt") == at("09:00") / 1000
    assert of(found, "tidelake_table_completion_timestamp_seconds", view="ro") == (at("09:00") - 1) / 1000
    assert of(found, "tidelake_table_freshness_timestamp_seconds", view="rt") == at("10:00") / 1000
    assert of(found, "tidelake_table_freshness_timestamp_seconds", view="ro") == at("08:00") / 1000
    assert of(found, "tidelake_table_watermark_timestamp_seconds", input="loader") == at("06:00") / 1000
    assert of(found, "tidelake_table_holding_file_groups") == 2
    completed_ms = at("10:32") + 1
    assert of(found, "commitLatencyInMs") == completed_ms - at("09:00")
    assert of(found, "commitFreshnessInMs") == completed_ms - at("10:00")


def test_metrics_of_a_stopped_pipeline_age() -> None:
    """Nothing is written, and the ages grow with the clock."""
    made = world()
    table = made.open()
    before = parsed(metrics_text(table.freshness()))
    made.clock.advance(3_600)
    after = parsed(metrics_text(table.freshness()))
    for name, labels in (
        ("tidelake_table_completion_age_seconds", {"view": "ro"}),
        ("tidelake_table_freshness_age_seconds", {"view": "rt"}),
        ("tidelake_table_last_write_age_seconds", {}),
    ):
        assert of(after, name, **labels) - of(before, name, **labels) == pytest.approx(3_600)
    name = "tidelake_table_completion_timestamp_seconds"
    assert of(after, name, view="ro") == of(before, name, view="ro")


def test_metrics_over_http_are_worked_out_at_each_scrape() -> None:
    """A real server and a real client; what is written between two scrapes is seen, and a lost table is down."""
    made = world()
    table = made.open()
    with serving_metrics(table.freshness, table.name, 0, "127.0.0.1") as port:

        def scrape() -> Parsed:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                return parsed(answer.read().decode())

        assert of(scrape(), "tidelake_table_freshness_timestamp_seconds", view="rt") == at("10:00") / 1000
        made.upsert((0, "10:10"))
        assert of(scrape(), "tidelake_table_freshness_timestamp_seconds", view="rt") == at("10:10") / 1000
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/else", timeout=30)
        error.value.close()
        assert error.value.code == 404
        for path in (".hoodie/hoodie.properties", ".hoodie/hoodie.properties.backup"):
            made.storage.delete(path)
        assert scrape() == {("tidelake_up", (("table", "events"),)): 0.0}


def test_metrics_file_is_replaced_whole(tmp_path: Path) -> None:
    """A collector reads the old text or the new one; a folder that is not there is said so."""
    text = metrics_text(world().open().freshness())
    target = tmp_path / "events.prom"
    target.write_text("old")
    write_metrics_file(str(target), text)
    assert target.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["events.prom"]
    assert parsed(text)
    with pytest.raises(UnavailableError, match="cannot be written"):
        write_metrics_file(str(tmp_path / "none" / "x.prom"), text)


def test_metrics_escape_what_others_named() -> None:
    """A table's name is a label's value, whatever is in it."""
    made = world()
    report = made.open().freshness()
    object.__setattr__(report, "table", 'a"b\\c\nd')
    assert {dict(labels)["table"] for _, labels in parsed(metrics_text(report))} == {'a"b\\c\nd'}
