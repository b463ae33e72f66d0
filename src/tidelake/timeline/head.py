"""The head: the one object whose change decides what is true.

``.hoodie/.tidelake/head`` names the timeline file that was published last. It changes only by put-if-match, and each
change guards the publication of one timeline file, whose bytes were staged before. So of two publishers one is first,
and a publisher that dies after its turn is finished by the next one from the staged bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tidelake.errors import AlreadyExistsError, CorruptError, NotFoundError, UnavailableError
from tidelake.storage import Storage

HEAD_FILE = ".hoodie/.tidelake/head"
STAGED_DIR = ".hoodie/.tidelake/staged"


@dataclass(frozen=True, slots=True)
class Head:
    """What was published last. ``file`` is empty if the turn named nothing. ``nonce`` makes each content unique."""

    n: int
    instant: str
    file: str
    completion: str
    nonce: str

    def encode(self) -> bytes:
        """The head's bytes."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @property
    def staged_path(self) -> str:
        """Where the published file's bytes were staged."""
        return staged_path(self.file, self.nonce)


def staged_path(file: str, nonce: str) -> str:
    """Where the bytes of a timeline file wait for their turn."""
    return f"{STAGED_DIR}/{file}.{nonce}"


def decode_head(data: bytes) -> Head:
    """The head from its bytes."""
    try:
        fields = json.loads(data)
        head = Head(**fields)
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptError(f"the table's head cannot be parsed: {error}", file=HEAD_FILE) from error
    texts = (head.instant, head.file, head.completion, head.nonce)
    if not isinstance(head.n, int) or not all(isinstance(text, str) for text in texts) or "/" in head.file:
        raise CorruptError("the table's head has fields of the wrong kind", file=HEAD_FILE)
    return head


def read_head(storage: Storage, greatest_known: str, nonce: str) -> tuple[Head, str]:
    """The head and its version; a table without one (Apache Hudi made it) gets one that names nothing."""
    for _ in range(8):
        try:
            data, version = storage.get_with_version(HEAD_FILE)
            return decode_head(data), version
        except NotFoundError:
            fresh = Head(0, "", "", greatest_known, nonce)
            try:
                return fresh, storage.put_if_absent(HEAD_FILE, fresh.encode())
            except UnavailableError as error:  # whose it is now, if anybody's, is read back
                if not error.retryable and not isinstance(error, AlreadyExistsError):
                    raise
    raise UnavailableError("the table's head cannot be made, or it appears and disappears", file=HEAD_FILE)
