"""Looking keys up among those of a base file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidelake.index.key_cache import FileKeys, WantedKeys, key_hashes


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
