"""Bloom filters: no key is ever denied, and few are taken for others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.deep import examples
from tidelake.errors import CorruptError, TidelakeError, UnsupportedError
from tidelake.format.base_footer import BaseFooter, decode_footer, encode_footer
from tidelake.format.bloom import DYNAMIC, SIMPLE, bloom_hashes, build_bloom, decode_bloom, encode_bloom

_keys = st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=60)


@given(_keys)
@examples()
def test_bloom_has_every_key_that_was_put_in(keys: list[str]) -> None:
    """No false negatives, for keys of any length and letters, before and after the footer's text form."""
    array = pa.array(keys, pa.string())
    bloom = build_bloom(array)
    assert bloom.may_contain(array).all()
    for code in (DYNAMIC, SIMPLE):
        assert decode_bloom(encode_bloom(bloom, code), code).may_contain(array).all()


@given(_keys)
@examples()
def test_bloom_of_known_hashes_is_the_same(keys: list[str]) -> None:
    """Hashes that were made for many keys at once give any of them the filter that it has by itself."""
    array = pa.array(keys, pa.string())
    for rate in (1e-3, 1e-9):
        hashes = bloom_hashes(array, error_rate=rate)
        for start, count in ((0, len(keys)), (len(keys) // 2, len(keys)), (0, 1)):
            some = array.slice(start, count)
            assert build_bloom(some, error_rate=rate, hashes=hashes[start : start + count]) == build_bloom(
                some, error_rate=rate
            )


def test_bloom_sliced_keys_are_those_of_the_slice() -> None:
    """A slice of a larger array is hashed from its own offset."""
    keys = pa.array([f"k{i}" for i in range(100)])
    bloom = build_bloom(keys.slice(10, 20))
    found = bloom.may_contain(keys)
    assert found[10:30].all()
    assert found.sum() == 20


def test_bloom_false_positives_are_as_rare_as_asked() -> None:
    """One in a hundred if one in a hundred is asked for, and practically none by default."""
    keys, others = (pa.array([f"{p}{i}" for i in range(20_000)]) for p in ("key-", "other-"))
    assert build_bloom(keys).may_contain(others).sum() == 0
    rate = build_bloom(keys, error_rate=0.01).may_contain(others).mean()
    assert 0.001 < rate < 0.03


def test_bloom_damage_is_a_typed_error() -> None:
    """Bad base64, cut text, unknown types and foreign versions are named."""
    text = encode_bloom(build_bloom(pa.array(["a", "b"])))
    assert decode_bloom(text).may_contain(pa.array(["a", "z"])).tolist() == [True, False]
    with pytest.raises(CorruptError):
        decode_bloom("!!!")
    with pytest.raises(UnsupportedError):
        decode_bloom(text, "OTHER")
    for end in range(0, len(text), 4):
        with pytest.raises(TidelakeError):
            decode_bloom(text[:end])


def test_footer_reads_back() -> None:
    """Bloom, key range and schema of a base file survive the footer."""
    footer = BaseFooter(encode_bloom(build_bloom(pa.array(["a"]))), DYNAMIC, "a", "é", "{}", "avro")
    assert decode_footer(encode_footer(footer)) == footer
    assert footer.bloom is not None
    assert decode_footer({}) == BaseFooter()
    assert BaseFooter().bloom is None
    with pytest.raises(CorruptError):
        decode_footer({b"hoodie_min_record_key": b"\xff"})
