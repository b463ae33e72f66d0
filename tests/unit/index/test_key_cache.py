"""Looking keys up among those of a base file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidelake.index.key_cache import FileKeys, KeyCache, WantedKeys, key_hashes


@pytest.mark.parametrize("wanted_count", [0, 1, 50, 3000])
@pytest.mark.parametrize("file_count", [0, 1, 70, 2000])
@pytest.mark.parametrize("repeated", ["nothing", "wanted", "file"])
def test_file_keys_present_are_those_that_are_in_both(wanted_count: int, file_count: int, repeated: str) -> None:
    """Whichever are more, and whether keys stand twice on either side, every wanted key that the file has is found."""
    pick = np.random.default_rng(wanted_count * 31 + file_count)
    of_file = [f"key-{number}" for number in pick.permutation(4000)[:file_count]]
    wanted = [f"key-{number}" for number in pick.permutation(4000)[:wanted_count]]
    of_file += of_file[: file_count // 2] if repeated == "file" else []
    wanted += wanted[: wanted_count // 2] if repeated == "wanted" else []
    keys, stored = pa.array(wanted, pa.string()), pa.array(of_file, pa.string())
    found = FileKeys.of(stored).present(WantedKeys.of(keys))
    assert sorted(found) == np.flatnonzero(np.asarray(pc.is_in(keys, stored))).tolist()


def test_file_keys_of_one_hash_are_told_apart() -> None:
    """A hash that meets is not yet a key that does."""
    keys = pa.array(["a", "b", "c"])
    wanted = WantedKeys.of(pa.array(["x", "b", "y", "z"]), key_hashes(pa.array(["a", "b", "c", "d"])))
    assert FileKeys.of(keys).present(wanted).tolist() == [1]


def file_keys(number: int, count: int = 100) -> FileKeys:
    return FileKeys.of(pa.array([f"{number}-{key}" for key in range(count)]))


def name_of(number: int) -> tuple[str, str, int]:
    return "table", f"file-{number}", 1


def test_key_cache_finds_most_of_files_that_are_asked_for_in_turn_and_do_not_all_fit() -> None:
    """A table's files are asked for one after the other by each write: what fits is found, whoever came last."""
    cache = KeyCache(16 * file_keys(0).size_bytes + 100)
    found = 0
    for turn in range(60):
        for number in range(20):
            kept = cache.get(name_of(number))
            if kept is None:
                cache.put(name_of(number), file_keys(number))
            elif turn >= 10:
                found += 1
                assert kept.keys[0].as_py() == f"{number}-0"
    assert found > 0.7 * 50 * 20


def test_key_cache_takes_to_other_files() -> None:
    """Files of yesterday make room for those that are asked for now, by and by."""
    cache = KeyCache(10 * file_keys(10).size_bytes)
    for number in range(10):
        cache.put(name_of(number), file_keys(number))
    for _ in range(100):
        for number in range(10, 18):
            if cache.get(name_of(number)) is None:
                cache.put(name_of(number), file_keys(number))
    assert all(cache.get(name_of(number)) for number in range(10, 18))


def test_key_cache_holds_no_more_than_its_bound() -> None:
    """Whatever the sizes, and after the bound was lowered; a file that is larger than all of it is not kept."""
    cache, each = KeyCache(10_000), np.random.default_rng(1).integers(1, 200, 500).tolist()
    kept: set[int] = set()

    def held() -> int:
        return sum(file_keys(number, each[number]).size_bytes for number in kept if cache.get(name_of(number)))

    for number, count in enumerate(each):
        cache.put(name_of(number), file_keys(number, count))
        kept.add(number)
    assert 5_000 < held() <= 10_000
    cache.limit(3_000)
    assert 0 < held() <= 3_000
    cache.limit(10**9)
    cache.put(name_of(-1), file_keys(-1, 1000))
    assert cache.get(name_of(-1)) is None
    assert held() <= 3_000
