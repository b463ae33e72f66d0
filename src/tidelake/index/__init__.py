"""Finding the file group of a key: key generation and indexes."""

from tidelake.index.bucket import bucket_file_id, bucket_numbers, bucket_of
from tidelake.index.key_cache import KEPT, Hashes, key_hashes
from tidelake.index.keygen import KeyGenerator, record_keys, value_text
from tidelake.index.simple import doubled, keep_keys, locate, matches

__all__ = [
    "KEPT",
    "Hashes",
    "KeyGenerator",
    "bucket_file_id",
    "bucket_numbers",
    "bucket_of",
    "doubled",
    "keep_keys",
    "key_hashes",
    "locate",
    "matches",
    "record_keys",
    "value_text",
]
