"""Errors: they travel between processes, say what they know, and carry whether to try again."""

from __future__ import annotations

import pickle

import pytest

from tidelake import errors
from tidelake.errors import ConflictError, CorruptError, TidelakeError, UnavailableError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TidelakeError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_of_every_kind_is_picklable_with_all_it_knows(kind: type[TidelakeError]) -> None:
    """A Spark worker's error arrives as it was raised."""
    error = kind("it broke", value=7, table="s3://t", instant="20260101000000000", file="a/b", hint="mend it")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert vars(again) == vars(error)
    assert str(again) == str(error)
    assert again.retryable == error.retryable


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_of_every_kind_is_in_the_drawn_tree(kind: type[TidelakeError]) -> None:
    """The module's picture of the tree names every kind, and each kind says what it is."""
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


def test_error_text_says_each_thing_once() -> None:
    """File, instant and table are added unless the message has them, and the hint comes last."""
    error = CorruptError("file a/b is cut", file="a/b", table="t9", hint="restore it")
    assert str(error) == "file a/b is cut (table t9): restore it"


def test_error_context_fills_in_and_never_overwrites() -> None:
    """A lower layer's word stands."""
    error = CorruptError("x", file="inner").with_context(file="outer", table="t", instant="i")
    assert (error.file, error.table, error.instant) == ("inner", "t", "i")


def test_error_value_of_any_type_is_kept_as_text() -> None:
    """Values that may not travel are shown, not carried."""
    assert CorruptError("x", value=object).value == repr(object)
    assert CorruptError("x", value=3).value == 3


def test_error_retryable_kinds_are_conflicts_and_unanswered_requests() -> None:
    """Only what may succeed when tried again says so."""
    assert {kind for kind in KINDS if kind.retryable} >= {ConflictError, UnavailableError}
    assert not CorruptError.retryable
    assert not errors.NotFoundError.retryable
