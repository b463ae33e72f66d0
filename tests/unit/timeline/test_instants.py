"""The timeline from names: states folded, the first active instant, and what is refused."""

from __future__ import annotations

import pytest

from model.tables import table_properties
from tidelake.config import parse_table_config
from tidelake.errors import CorruptError, NotATableError, UnsupportedError
from tidelake.format.names import PROPERTIES_BACKUP_FILE, PROPERTIES_FILE, TIMELINE_DIR, State, parse_timeline_name
from tidelake.format.properties import encode_properties
from tidelake.storage import MemoryStorage
from tidelake.timeline import Timeline, load_config, load_timeline

T1, T2, T3, T4, T5 = (f"2026010100000{n}000" for n in range(1, 6))


def _timeline(*names: str) -> Timeline:
    parsed = [parse_timeline_name(name) for name in names]
    assert all(parsed)
    return Timeline(name for name in parsed if name is not None)


def test_timeline_states_of_one_instant_fold_into_the_most_advanced() -> None:
    """Requested, inflight and completed files are one instant; its pending name is kept."""
    timeline = _timeline(f"{T1}.compaction.requested", f"{T1}.compaction.inflight", f"{T1}_{T2}.commit")
    (instant,) = timeline.instants
    assert (instant.action, instant.state, instant.completion_time) == ("commit", State.COMPLETED, T2)
    assert instant.pending_action == "compaction"
    assert instant.file_name == f"{T1}_{T2}.commit"
    assert instant.requested_file_name == f"{T1}.compaction.requested"
    assert timeline.pending == ()


def test_timeline_pending_compaction_is_a_write_but_not_completed() -> None:
    """A service counts under the action it completes as, and is pending until then."""
    timeline = _timeline(f"{T1}.compaction.requested", f"{T2}.logcompaction.inflight", f"{T3}.clustering.requested")
    assert [(i.action, i.is_write, i.is_completed) for i in timeline.instants] == [
        ("commit", True, False),
        ("deltacommit", True, False),
        ("replacecommit", True, False),
    ]
    assert [str(i) for i in timeline.pending] == [f"{T1}.compaction", f"{T2}.logcompaction", f"{T3}.clustering"]
    assert timeline.completed_writes == ()


def test_timeline_inflight_commit_has_its_short_name() -> None:
    """The inflight file of a commit is ``<time>.inflight``."""
    timeline = _timeline(f"{T1}.commit.requested", f"{T1}.inflight")
    (instant,) = timeline.instants
    assert instant.state is State.INFLIGHT
    assert instant.file_name == f"{T1}.inflight"


def test_timeline_two_completions_of_one_instant_count_once_at_the_first() -> None:
    """If two completed files exist, the earlier completion stands: a completed instant never moves later."""
    timeline = _timeline(f"{T1}_{T3}.deltacommit", f"{T1}_{T2}.deltacommit")
    (instant,) = timeline.instants
    assert instant.completion_time == T2


def test_timeline_is_sorted_by_requested_time() -> None:
    """Order is that of requested times, whatever the completion."""
    timeline = _timeline(f"{T2}_{T3}.commit", f"{T1}_{T4}.commit", f"{T3}.commit.requested")
    assert [i.requested_time for i in timeline.instants] == [T1, T2, T3]
    assert timeline.greatest_time == T4
    assert len(timeline) == 3


def test_timeline_first_active_skips_savepoints_and_other_services() -> None:
    """The first write instant, in any state, that no completed savepoint keeps."""
    names = [f"{T1}_{T2}.commit", f"{T1}_{T5}.savepoint", f"{T2}_{T3}.clean", f"{T3}.deltacommit.requested"]
    assert _timeline(*names).first_active == T3
    assert _timeline(names[0], f"{T1}.savepoint.inflight").first_active == T1
    assert _timeline(names[0], names[1]).first_active is None
    assert _timeline().first_active is None
    assert _timeline().greatest_time == ""


def test_timeline_by_time_holds_completed_writes_alone() -> None:
    """A rollback or clean at the same time as nothing does not stand for a write."""
    timeline = _timeline(f"{T1}_{T2}.commit", f"{T2}_{T3}.rollback", f"{T3}.deltacommit.inflight")
    assert list(timeline.by_time) == [T1]
    assert [i.requested_time for i in timeline.of_action("rollback")] == [T2]


def test_load_timeline_ignores_foreign_names_and_refuses_legacy_ones() -> None:
    """Checksums and temporary files are passed over; a completed instant without completion time is refused by name."""
    storage = MemoryStorage()
    config = parse_table_config(table_properties())
    names = (f"{T1}.commit.requested", f"{T1}_{T2}.commit", f".{T1}_{T2}.commit.crc", "x.tmp", "history")
    for name in (*names, f"{T1}.unknown"):
        storage.put(f"{TIMELINE_DIR}/{name}", b"")
    storage.put(f"{TIMELINE_DIR}/history/manifest_1", b"")
    assert len(load_timeline(storage, config)) == 1
    storage.put(f"{TIMELINE_DIR}/{T3}.commit", b"")
    with pytest.raises(UnsupportedError, match=f"{T3}.commit"):
        load_timeline(storage, config)


def test_load_config_damaged_properties_come_from_the_backup() -> None:
    """A wrong checksum sends the reader to the backup; without one it is an error; without both, no table."""
    storage = MemoryStorage()
    with pytest.raises(NotATableError):
        load_config(storage)
    good = encode_properties(table_properties())
    storage.put(PROPERTIES_FILE, encode_properties({**table_properties(), "hoodie.table.checksum": "1"}))
    with pytest.raises(CorruptError, match=r"hoodie\.table\.checksum is 1"):
        load_config(storage)
    storage.put(PROPERTIES_BACKUP_FILE, good)
    assert load_config(storage).name == "t"
