"""Finding the file group of a key: key generation and indexes."""

from tidelake.index.keygen import KeyGenerator, record_keys, value_text
from tidelake.index.simple import locate

__all__ = ["KeyGenerator", "locate", "record_keys", "value_text"]
