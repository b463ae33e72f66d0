"""The example of the daily snapshot, at a small size: exact at every midnight, on Spark."""

from __future__ import annotations

from pathlib import Path

from examples.daily_snapshot import Size, run


def test_daily_snapshot_read_optimised_view_is_the_day_at_midnight(spark, tmp_path: Path) -> None:
    told: list[str] = []
    assert run(spark, str(tmp_path / "meters"), Size(meters=60, events=1_200, batches_a_day=2), told.append), told
    assert len(told) == 3
