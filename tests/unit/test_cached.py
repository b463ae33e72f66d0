"""Attributes that are worked out once: kept by each object, and in nobody's way."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass

from tidelake._cached import cached


@dataclass(frozen=True)
class Counted:
    """Has an attribute that says how often it was worked out."""

    calls: list[int]

    @cached
    def value(self) -> int:
        """How often."""
        self.calls.append(1)
        return len(self.calls)


def test_cached_asked_twice_is_worked_out_once_for_each_object() -> None:
    """It is kept by the object, also by a frozen one, and goes with it where it is sent."""
    one, other = Counted([]), Counted([0])
    assert (one.value, one.value, other.value, one.calls) == (1, 1, 2, [1])
    assert pickle.loads(pickle.dumps(one)).value == 1
    assert Counted.value.__doc__ == "How often."


class Waiting:
    """Has an attribute that is there once another object's is being worked out."""

    def __init__(self) -> None:
        self.begun, self.other = threading.Event(), self

    @cached
    def value(self) -> bool:
        self.begun.set()
        return self.other.begun.wait(10)


def test_cached_of_one_object_does_not_wait_for_that_of_another() -> None:
    """Two threads work the same attribute of two objects out, and each needs the other to have begun."""
    one, other = Waiting(), Waiting()
    one.other, other.other = other, one
    thread = threading.Thread(target=lambda: other.value, daemon=True)
    thread.start()
    assert one.value
    thread.join(10)
    assert other.value
