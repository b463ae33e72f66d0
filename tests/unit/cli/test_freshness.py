"""``tidelake freshness`` and ``tidelake metrics``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelake.storage import LocalStorage
from unit.observe.event_tables import EventWorld, at
from unit.observe.test_metrics import parsed


@pytest.fixture
def path(tmp_path: Path) -> str:
    folder = tmp_path / "events"
    folder.mkdir()
    world = EventWorld(storage=LocalStorage(str(folder)))
    world.upsert((0, "07:00"), (1, "07:00"))
    world.upsert((0, "09:00"), (1, "08:00"))
    world.open().compact(partitions=["day=d0"])
    return str(folder)


def test_freshness_draws_both_views_of_each_partition(tidelake, path):
    """The table first, then what is furthest behind: d1, whose log holds it back."""
    ran = tidelake("freshness", path)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    rows = [line for line in lines if "█" in line or "░" in line]
    assert [row.split()[0] for row in rows] == ["table", "ro", "day=d1", "ro", "day=d0", "ro"]
    assert rows[2].split()[-2:] == ["2026-01-01T08:00:00.000Z", "2026-01-01T08:00:00.000Z"]
    assert rows[3].split()[-2:] == ["2026-01-01T07:59:59.999Z", "2026-01-01T07:00:00.000Z"]
    assert rows[4].count("█") == 40 > rows[2].count("█") > 0
    assert "held back by 1 file group(s): day=d1/" in ran.out
    assert "and 1 partition that are further on" in tidelake("freshness", path, "--limit", "1").out


def test_freshness_as_json_says_all(tidelake, path):
    """For programs."""
    found = tidelake("freshness", path, "--format", "json").json()
    assert found["ro"]["completion_ms"] == at("08:00") - 1
    assert [each["path"] for each in found["partitions"]] == ["day=d0", "day=d1"]
    assert found["holding"][0]["min_event_ms"] == at("08:00")


def test_freshness_of_a_table_without_event_times_says_so(tidelake, golden):
    """No picture, but a reason."""
    ran = tidelake("freshness", golden(_any_golden()))
    assert ran.code == 0
    assert "no event-time field" in ran.out


def test_metrics_are_printed_and_written(tidelake, path, tmp_path):
    """As Prometheus reads them."""
    printed = parsed(tidelake("metrics", path).out)
    key = ("tidelake_table_completion_timestamp_seconds", (("table", "events"), ("view", "ro")))
    assert printed[key] == (at("08:00") - 1) / 1000
    target = tmp_path / "events.prom"
    assert tidelake("metrics", path, "--file", str(target)).code == 0
    assert parsed(target.read_text())[key] == printed[key]
    assert tidelake("metrics", path, "--file", "x", "--port", "1").code == 2
    assert tidelake("metrics", path, "--port", "99999").code == 2


def _any_golden() -> str:
    from unit.cli.conftest import GOLDEN

    return sorted(GOLDEN.glob("*.zip"))[0].stem
