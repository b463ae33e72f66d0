"""Whose turn it is among kinds of work that do not cost the same: always the one that has had the least time so far."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class Turns(Generic[Kind]):
    """Gives each kind of work the same time, so that the cheap ones come more often."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = list(kinds)
        self._spent = [0.0] * len(self._kinds)

    @contextmanager
    def turn(self) -> Iterator[Kind]:
        """The kind whose turn it is; what happens within is on its account."""
        place = self._spent.index(min(self._spent))
        began = time.perf_counter()
        try:
            yield self._kinds[place]
        finally:
            self._spent[place] += time.perf_counter() - began
