"""What Hudi keeps in a base file's footer beside the parquet schema: bloom filter, key range, Avro schema.

Everything here is optional: files written through Spark rows have no Avro schema, tables without meta columns no bloom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.errors import CorruptError
from tidelake.format.bloom import SIMPLE, BloomFilter, decode_bloom, encode_bloom

BLOOM_KEY = b"org.apache.hudi.bloomfilter"
OLD_BLOOM_KEY = b"com.uber.hoodie.bloomfilter"
BLOOM_TYPE_KEY = b"hoodie_bloom_filter_type_code"
MIN_KEY = b"hoodie_min_record_key"
MAX_KEY = b"hoodie_max_record_key"
SCHEMA_KEY = b"parquet.avro.schema"
MODEL_KEY = b"writer.model.name"


@dataclass(frozen=True, slots=True)
class BaseFooter:
    """The footer's key-value metadata; ``bloom_text`` is decoded only when asked for, since it may be large."""

    bloom_text: str | None = None
    bloom_type: str = SIMPLE
    min_key: str | None = None
    max_key: str | None = None
    schema_text: str | None = None
    model_name: str | None = None

    @property
    def bloom(self) -> BloomFilter | None:
        """The keys' bloom filter, if the file has one."""
        return None if self.bloom_text is None else decode_bloom(self.bloom_text, self.bloom_type)


def decode_footer(metadata: Mapping[bytes, bytes]) -> BaseFooter:
    """The footer from a parquet file's key-value metadata."""

    def text(*keys: bytes) -> str | None:
        for key in keys:
            if key in metadata:
                try:
                    return metadata[key].decode("utf-8")
                except UnicodeDecodeError:
                    raise CorruptError(f"the footer's {key.decode()} is not UTF-8") from None
        return None

    return BaseFooter(
        text(BLOOM_KEY, OLD_BLOOM_KEY),
        text(BLOOM_TYPE_KEY) or SIMPLE,
        text(MIN_KEY),
        text(MAX_KEY),
        text(SCHEMA_KEY),
        text(MODEL_KEY),
    )


def encode_footer(footer: BaseFooter) -> dict[bytes, bytes]:
    """The key-value metadata of a footer."""
    entries = (
        (BLOOM_KEY, footer.bloom_text),
        (BLOOM_TYPE_KEY, footer.bloom_type if footer.bloom_text is not None else None),
        (MIN_KEY, footer.min_key),
        (MAX_KEY, footer.max_key),
        (SCHEMA_KEY, footer.schema_text),
        (MODEL_KEY, footer.model_name),
    )
    return {key: value.encode("utf-8") for key, value in entries if value is not None}


__all__ = ["BaseFooter", "decode_footer", "encode_bloom", "encode_footer"]
