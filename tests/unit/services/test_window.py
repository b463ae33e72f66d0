"""Which commits and partitions a plan looks at: every case of the incremental services, on timelines made by hand."""

from __future__ import annotations

import pytest

from tidelake.format.names import State, TimelineName
from tidelake.services.cursor import CURSOR_DIR, Cursor, read_cursor, write_cursor
from tidelake.services.kinds import CLUSTERING, LOG_COMPACTION
from unit.services.hand_made import Hand, at, number_of
from unit.services.service_tables import World


@pytest.fixture
def hand() -> Hand:
    """A table with an empty timeline, and no cursor."""
    world = World()
    for info in list(world.storage.list_files(CURSOR_DIR)):
        world.storage.delete(info.path)
    return Hand(world)


def looked_at(hand: Hand, cursor: Cursor | None = None) -> tuple[set[int], set[str] | None, str]:
    found = hand.window(cursor=cursor)
    partitions = None if found.partitions is None else set(found.partitions)
    return {number_of(time) for time in found.instants}, partitions, found.source


def test_window_of_the_seed(hand: Hand) -> None:
    """T7 completed at T9, within [T3, T11): it counts, too."""
    hand.write(0, 1, "p0")
    hand.write(2, 4, "p2")
    hand.service(3, 8, "p0", missing=["p9"])
    hand.write(5, 6, "p5")
    hand.write(7, 9, "p7")
    hand.write(10, None, "p10")
    assert looked_at(hand) == ({2, 5, 7}, {"p2", "p5", "p7", "p9"}, "incremental")
    assert hand.window().left == at(3)


def test_window_completion_equal_to_left_is_in_and_before_it_is_out(hand: Hand) -> None:
    hand.write(1, 5, "in")
    hand.write(2, 4, "out")
    hand.service(5, 6)
    assert looked_at(hand)[:2] == ({1}, {"in"})


def test_window_completion_equal_to_right_is_found_by_the_next_plan(hand: Hand) -> None:
    """A commit that completes at the very instant of a plan is not the plan's, and is in the next window."""
    hand.write(1, 10, "p")
    hand.service(10, 11)
    assert looked_at(hand)[:2] == ({1}, {"p"})


def test_window_requested_before_left_and_completed_after_is_in(hand: Hand) -> None:
    hand.write(1, 9, "late")
    hand.service(5, 6)
    assert looked_at(hand)[:2] == ({1}, {"late"})


def test_window_replaced_and_deleted_partitions_count(hand: Hand) -> None:
    hand.service(1, 2)
    hand.write(3, 4, replaced=["gone"])
    hand.write(5, 6, "new", replaced=["old"])
    assert looked_at(hand)[:2] == ({3, 5}, {"gone", "new", "old"})


def test_window_starts_at_the_oldest_pending_service(hand: Hand) -> None:
    hand.write(1, 2, "before")
    hand.service(3, None, "a", missing=["x"])
    hand.write(4, 5, "between")
    hand.service(6, 7, "b", missing=["y"])
    assert looked_at(hand)[:2] == ({4}, {"between", "x", "y"})


def test_window_starts_at_a_service_that_completed_after_the_last_was_requested(hand: Hand) -> None:
    """Out of order: 3 completed after 6 was planned, so what 6 could not take is looked at again."""
    hand.service(3, 8, "a", missing=["x"])
    hand.write(4, 5, "a")
    hand.service(6, 7, "b", missing=["y"])
    assert looked_at(hand)[:2] == ({4}, {"a", "x", "y"})


def test_window_after_a_service_that_was_done_before_the_last_was_planned(hand: Hand) -> None:
    hand.service(1, 4, "a", missing=["x"])
    hand.write(2, 3, "a")
    hand.service(5, 6, "b", missing=["y"])
    assert looked_at(hand)[:2] == (set(), {"y"})


def test_window_foreign_plan_looks_at_everything(hand: Hand) -> None:
    """C1 is pending on fg1 when D(fg1) completes; the foreign C2 omits fg1 and does not say so; then C1 completes."""
    hand.service(3, 7, "fg1")
    hand.write(2, 4, "fg1")
    hand.service(5, 6, "other", missing=None, is_ours=False)
    assert looked_at(hand) == (set(), None, "full_fallback:foreign plan")


def test_window_foreign_plan_before_the_last_is_no_reason_to_look_at_everything(hand: Hand) -> None:
    hand.service(1, 2, "a", missing=None, is_ours=False)
    hand.service(3, 4, "b")
    hand.write(5, 6, "c")
    assert looked_at(hand) == ({5}, {"c"}, "incremental")


def test_window_old_plan_without_a_list_of_missing_partitions(hand: Hand) -> None:
    hand.service(1, 2, "a", missing=None)
    hand.write(3, 4, "c")
    assert looked_at(hand) == ({3}, {"c"}, "incremental")


def test_window_first_plan_without_a_cursor_is_full(hand: Hand) -> None:
    hand.write(1, 2, "p")
    assert looked_at(hand) == (set(), None, "full")


def test_window_first_plan_of_a_new_table_is_incremental() -> None:
    hand = Hand(World())
    hand.write(1, 2, "p")
    assert looked_at(hand, read_cursor(hand.storage, "compaction")) == ({1}, {"p"}, "incremental")


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"last":5,"upto":"1","carry":[]}', b'{"last":null,"upto":"1"}', b"\xff"]
)
def test_window_damaged_cursor_counts_as_none(hand: Hand, damage: bytes) -> None:
    hand.service(1, 2, "a", missing=["x"])
    hand.write(3, 4, "c")
    hand.storage.put(f"{CURSOR_DIR}/compaction", damage)
    assert read_cursor(hand.storage, "compaction") is None
    assert looked_at(hand, read_cursor(hand.storage, "compaction")) == ({3}, {"c", "x"}, "incremental")


def test_window_cursor_counts_while_its_service_is_the_last(hand: Hand) -> None:
    hand.service(1, 2, "a", missing=["x"])
    hand.write(3, 4, "c")
    hand.write(5, 6, "d")
    write_cursor(hand.storage, "compaction", Cursor((at(1), at(2)), at(6), frozenset({"y"})))
    cursor = read_cursor(hand.storage, "compaction")
    assert looked_at(hand, cursor) == ({5}, {"d", "y"}, "incremental")
    hand.service(7, 8, "d", missing=["z"])
    assert looked_at(hand, cursor) == (set(), {"z"}, "incremental")


def test_window_unreadable_plan_looks_at_everything(hand: Hand) -> None:
    hand.service(1, 2, "a")
    hand.put(TimelineName(at(1), "compaction", State.REQUESTED), b"damaged")
    partitions, source = looked_at(hand)[1:]
    assert partitions is None
    assert source.startswith(f"full_fallback:the plan {at(1)}")


def test_window_unreadable_commit_looks_at_everything(hand: Hand) -> None:
    hand.service(1, 2, "a")
    hand.write(3, 4, "p")
    hand.put(TimelineName(at(3), "deltacommit", State.COMPLETED, at(4)), b"damaged")
    partitions, source = looked_at(hand)[1:]
    assert partitions is None
    assert source.startswith("full_fallback:a commit cannot be read")


def test_window_services_of_other_kinds_have_their_own(hand: Hand) -> None:
    hand.write(1, 2, "p")
    hand.service(3, 4, "a")
    hand.write(5, 6, "q")
    assert hand.window(CLUSTERING).source == "full"
    assert hand.window(LOG_COMPACTION).source == "full"
    assert looked_at(hand)[0] == {5}


def test_window_of_clustering_counts_compactions_as_changes(hand: Hand) -> None:
    hand.write(1, 2, "p")
    hand.service(3, 4, "a")
    found = hand.window(CLUSTERING, Cursor(None, at(3), frozenset()))
    assert found.partitions == {"a"}


def test_window_last_service_from_the_history(hand: Hand) -> None:
    hand.service(1, 3, "a", missing=["x"])
    hand.write(2, 4, "late")
    hand.write(5, 6, "c")
    hand.write(7, 8, "d")
    hand.archive(1, 2, 5)
    assert looked_at(hand) == ({2, 5, 7}, {"late", "c", "d", "x"}, "incremental")


def test_window_archived_service_that_completed_late_counts(hand: Hand) -> None:
    hand.service(1, 8, "a", missing=["x"])
    hand.write(2, 3, "a")
    hand.service(5, 6, "b", missing=["y"])
    hand.archive(1)
    assert looked_at(hand) == ({2}, {"a", "x", "y"}, "incremental")


@pytest.mark.parametrize("is_archived", [False, True])
def test_window_taken_back_overwrite_looks_at_everything(hand: Hand, is_archived: bool) -> None:
    """The overwrite retired groups with logs, the service passed them by, and then they are back."""
    hand.write(1, 2, "p")
    hand.service(5, 6, "q")
    hand.write(7, 8, "r")
    hand.rollback(9, 10, 3, "replacecommit")
    hand.write(11, 12, "s")
    if is_archived:
        hand.archive(1, 5, 7, 9)
    assert looked_at(hand)[1] is None


@pytest.mark.parametrize("is_archived", [False, True])
def test_window_taken_back_delta_commit_is_no_reason_to_look_at_everything(hand: Hand, is_archived: bool) -> None:
    hand.service(5, 6, "q")
    hand.rollback(9, 10, 7, "deltacommit")
    hand.write(11, 12, "s")
    if is_archived:
        hand.archive(5, 9)
    assert looked_at(hand)[1:] == ({"s"}, "incremental")


def test_window_restore_looks_at_everything_until_the_next_service(hand: Hand) -> None:
    hand.service(1, 2, "a")
    hand.put(TimelineName(at(3), "restore", State.INFLIGHT), b"")
    hand.put(TimelineName(at(3), "restore", State.COMPLETED, at(4)), _restore(99))
    assert looked_at(hand)[1] is None
    hand.service(5, 6, "b")
    assert looked_at(hand)[1] == set()


def _restore(target: int) -> bytes:
    from tidelake.format.service_metadata import RestoreMetadata

    return RestoreMetadata(at(3), 0, (at(target),), {}, 1, ()).encode(bytes(16))
