"""The whole error tree.

Every error says what happened, the offending value, the table and instant it concerns, and what to do next.
There are few kinds: two errors differ in kind only if the caller would act differently.

::

    TidelakeError
    ├── InvalidError        the caller's input is wrong: change the call
    │   ├── NotATableError      the path holds no table
    │   ├── ColumnNotFoundError a named column does not exist
    │   ├── FilterError         a filter does not parse or cannot be evaluated
    │   └── OptionError         an option's value is wrong
    ├── NotExactError       base files do not hold exactly the data before an event time: compact at it, or ask for another
    ├── ConflictError       another writer was first: redo the work (retryable)
    ├── UnavailableError    storage did not answer, or not in time (retryable)
    │   ├── NotFoundError       an object is not there (not retryable)
    │   ├── AlreadyExistsError  put-if-absent met an object (not retryable)
    │   ├── PreconditionError   put-if-match met another version (not retryable)
    │   ├── MissingFileError    a file that the timeline refers to is gone (not retryable)
    │   └── IncompleteError     a view did not become complete in time
    ├── CorruptError        bytes on storage are damaged: repair or restore them
    │   └── LimitError          bytes on storage claim more than ``_limits`` allows
    ├── UnsupportedError    the table is right, but uses what we do not read: the message names it
    └── InternalError       a broken promise of ours: report it
"""

from __future__ import annotations

TEXT_CHARS = 1_000
"""How much of a hostile value an error repeats."""


class TidelakeError(Exception):
    """Base of all errors raised on purpose. Picklable; ``retryable`` says whether the same call may succeed later."""

    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        value: object = None,
        table: str | None = None,
        instant: str | None = None,
        file: str | None = None,
        hint: str | None = None,
    ) -> None:
        message = _clip(message)
        super().__init__(message)
        self.message = message
        plain = value if value is None or isinstance(value, (str, int, float, bool)) else repr(value)
        self.value = _clip(plain) if isinstance(plain, str) else plain
        self.table = table
        self.instant = instant
        self.file = file
        self.hint = hint if hint is None else _clip(hint)

    def __str__(self) -> str:
        parts = [self.message]
        about = [
            f"{name} {value}"
            for name, value in (("file", self.file), ("instant", self.instant), ("table", self.table))
            if value and value not in self.message
        ]
        if about:
            parts.append(f" ({', '.join(about)})")
        if self.hint:
            parts.append(f": {self.hint}" if not self.message.endswith(".") else f" {self.hint}")
        return "".join(parts)

    def with_context(
        self, *, table: str | None = None, instant: str | None = None, file: str | None = None
    ) -> TidelakeError:
        """Fill in what a lower layer could not know; what is already said stays."""
        self.table = self.table or table
        self.instant = self.instant or instant
        self.file = self.file or file
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _clip(text: str) -> str:
    """A text that a person can read, whatever it quotes."""
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}... ({len(text)} characters)"


def _rebuild(kind: type[TidelakeError], message: str, state: dict[str, object]) -> TidelakeError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class InvalidError(TidelakeError):
    """The caller's input is wrong."""


class NotATableError(InvalidError):
    """The path holds no table."""


class ColumnNotFoundError(InvalidError):
    """A named column does not exist in the table."""


class FilterError(InvalidError):
    """A filter does not parse, or compares what cannot be compared."""


class OptionError(InvalidError):
    """An option has a value that it cannot have."""


class NotExactError(TidelakeError):
    """Base files do not hold exactly the data before an event time."""


class ConflictError(TidelakeError):
    """Another writer was first."""

    retryable = True


class UnavailableError(TidelakeError):
    """Storage did not answer, or not in time."""

    retryable = True


class NotFoundError(UnavailableError):
    """No object under that name."""

    retryable = False


class AlreadyExistsError(UnavailableError):
    """put-if-absent met an object."""

    retryable = False


class PreconditionError(UnavailableError):
    """put-if-match met another version of the object."""

    retryable = False


class MissingFileError(UnavailableError):
    """A data file that the timeline refers to is gone."""

    retryable = False


class IncompleteError(UnavailableError):
    """A view did not become complete up to an event time in the time that was given."""


class CorruptError(TidelakeError):
    """Bytes on storage are damaged."""


class LimitError(CorruptError):
    """Bytes on storage claim more than the bounds in ``_limits`` allow."""


class UnsupportedError(TidelakeError):
    """The table uses a feature that is not read here; the message names it."""


class InternalError(TidelakeError):
    """A promise of this library is broken."""
