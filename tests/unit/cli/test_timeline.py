"""``tidelake timeline``: what is listed, in which order, and the picture."""

from __future__ import annotations

import pytest

from tidelake.cli.picture import ASCII_MARKS, Span, make_scale

FIELDS = {
    "requested_time",
    "completion_time",
    "action",
    "requested_as",
    "state",
    "operation",
    "requested_at",
    "completed_at",
    "duration_ms",
    "archived",
}


def test_timeline_json_lists_instants_in_order(tidelake, golden):
    """The JSON form is a list of instants by requested time, with operations and durations."""
    instants = tidelake("timeline", golden("mor_v9_hive"), "--format", "json").json()
    assert all(set(instant) == FIELDS for instant in instants)
    assert [i["operation"] for i in instants] == ["INSERT", "UPSERT", "DELETE", "UPSERT"]
    assert [i["requested_time"] for i in instants] == sorted(i["requested_time"] for i in instants)
    assert all(i["state"] == "completed" and i["duration_ms"] > 0 for i in instants)


def test_timeline_table_shows_a_bar_for_each_instant(tidelake, golden):
    """The table has a line with a bar for each instant, and no colours where there is no terminal."""
    ran = tidelake("timeline", golden("mor_v9_hive"))
    assert (ran.code, ran.err) == (0, "")
    lines = [line for line in ran.out.splitlines() if " deltacommit " in line]
    assert len(lines) == 4
    assert all("█" in line for line in lines)
    assert "\x1b" not in ran.out


def test_timeline_colours_forced_are_by_action(tidelake, golden, monkeypatch):
    """With colours, actions and bars have them; NO_COLOR wins."""
    path = golden("mor_v9_hive")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[36mdeltacommit" in tidelake("timeline", path).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in tidelake("timeline", path).out


def test_timeline_pending_is_open_ended(tidelake, golden):
    """--pending shows only what has not completed, with an open bar."""
    path = golden("cow_v9_inflight")
    (instant,) = tidelake("timeline", path, "--pending", "--format", "json").json()
    assert (instant["state"], instant["completion_time"], instant["duration_ms"]) == ("inflight", None, None)
    assert "▶" in tidelake("timeline", path, "--pending").out


def test_timeline_compaction_is_called_so(tidelake, golden):
    """A completed compaction is shown as one, although its file says commit."""
    path = golden("mor_v9_inline_compaction")
    found = tidelake("timeline", path, "--format", "json").json()
    compactions = [i for i in found if i["requested_as"] == "compaction"]
    assert compactions
    assert all((i["action"], i["operation"]) == ("commit", "COMPACT") for i in compactions)
    assert " compaction " in tidelake("timeline", path).out


def test_timeline_archived_comes_before_active(tidelake, golden):
    """--archived adds the instants of the history, marked, in the order of time."""
    path = golden("cow_v9_archived")
    active = tidelake("timeline", path, "--format", "json").json()
    whole = tidelake("timeline", path, "--archived", "--all", "--format", "json").json()
    assert [i for i in whole if not i["archived"]] == active
    assert len(whole) > len(active)
    assert [i["archived"] for i in whole] == sorted((i["archived"] for i in whole), reverse=True)


def test_timeline_limit_keeps_the_last(tidelake, make_timeline):
    """Without a word the last 25 are shown, --limit N the last N, --all all."""
    names = [f"202601010000{i:02d}000_202601010000{i:02d}500.clean" for i in range(40)]
    path = make_timeline(*names)

    def shown(*options: str) -> list[str]:
        found = tidelake("timeline", path, "--format", "json", *options).json()
        return [i["requested_time"] for i in found]

    everything = shown("--all")
    assert len(everything) == 40
    assert shown() == everything[-25:]
    assert shown("--limit", "3") == everything[-3:]
    assert "the last 25 of 40 instants" in tidelake("timeline", path).out


def test_timeline_empty_says_so(tidelake, make_timeline):
    """A table without instants gives a sentence, or an empty list."""
    path = make_timeline()
    assert tidelake("timeline", path).out.strip() == "cow_v9_empty: no instants"
    assert tidelake("timeline", path, "--format", "json").json() == []


def test_timeline_contents_unreadable_still_lists(tidelake, make_timeline):
    """Names decide: instants whose files cannot be read are listed, without an operation."""
    path = make_timeline("20260101000000000_20260101000001000.commit", "20260101000000000.commit.requested")
    (instant,) = tidelake("timeline", path, "--format", "json").json()
    assert (instant["operation"], instant["duration_ms"]) == (None, 1000)


def test_timeline_time_that_is_none_has_no_bar(tidelake, make_timeline):
    """Special times that are no moments (all zeros) are listed without a place on the scale."""
    path = make_timeline("00000000000000_20260101000001000.commit", "20260101000002000_20260101000003000.clean")
    first, second = tidelake("timeline", path, "--format", "json").json()
    assert (first["requested_at"], first["duration_ms"]) == (None, None)
    assert second["duration_ms"] == 1000
    assert tidelake("timeline", path).code == 0


def test_timeline_narrow_terminal_drops_columns(tidelake, golden, monkeypatch):
    """On 80 columns the bars stay and no line is longer; less important columns go."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = tidelake("timeline", golden("mor_v9_hive")).out.splitlines()
    assert "completed  " not in lines[1]
    assert all(len(line) <= 80 for line in lines[1:-1])
    assert all("█" in line for line in lines[2:-1])


def test_timeline_overlapping_writers_overlap_in_the_picture(tidelake, make_timeline):
    """Two writers that ran at the same time have bars that share columns."""
    path = make_timeline("20260101000000000_20260101000010000.clean", "20260101000005000_20260101000015000.rollback")
    lines = [line for line in tidelake("timeline", path).out.splitlines() if "█" in line]
    first, second = ({i for i, c in enumerate(line) if c == "█"} for line in lines)
    assert first & second
    assert first - second
    assert second - first


def test_scale_long_idle_gap_takes_one_column():
    """A night between two commits is cut: both keep a bar in proportion to their time."""
    spans = [Span(0, 10_000), Span(100_000_000, 100_010_000)]
    scale = make_scale(spans, 41)
    bars = [scale.bar(span, ASCII_MARKS) for span in spans]
    assert [bar.count("#") for bar in bars] == [20, 20]
    assert bars[1].startswith(" " * 21)
    assert scale.longest_gap_ms == 99_990_000
    assert scale.axis(ASCII_MARKS).count(":") == 1


def test_scale_pending_long_ago_does_not_squeeze_others():
    """An instant pending for a year runs to the right edge and leaves the scale to the others."""
    year = 31_536_000_000
    spans = [Span(0, None), Span(year, year + 1_000), Span(year + 1_000, year + 2_000)]
    scale = make_scale(spans, 40)
    assert scale.bar(spans[0], ASCII_MARKS) == "#" * 39 + ">"
    assert all(scale.bar(span, ASCII_MARKS).count("#") >= 15 for span in spans[1:])


@pytest.mark.parametrize(
    "spans",
    [
        [Span(5, 5)],
        [Span(5, None)],
        [Span(5, None), Span(9, None)],
        [Span(0, 0), Span(0, 0)],
        [Span(i * 1_000, i * 1_000 + 1) for i in range(500)],
    ],
)
def test_scale_of_any_spans_draws_each_within_its_width(spans):
    """However the spans lie, each has at least one character and none leaves the width."""
    scale = make_scale(spans, 20)
    for span in spans:
        bar = scale.bar(span, ASCII_MARKS)
        assert len(bar) <= 20
        assert bar.strip()
    assert len(scale.axis(ASCII_MARKS)) == 20
