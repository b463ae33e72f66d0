"""Values that an object works out when it is first asked for them, and keeps.

``functools.cached_property`` has a lock before Python 3.12, one for all objects of a class: whoever reads the commits of one
table would keep all others waiting, and who waits for a thread that asks another table would wait for ever. Here two
threads that ask one object at the same moment may both work its value out; the values are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached(Generic[T]):
    """A method as an attribute that is worked out once."""

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached[T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> cached[T] | T:
        if instance is None:
            return self
        # What stands in the object itself is found before this is asked again.
        value = instance.__dict__[self._name] = self._method(instance)
        return value
