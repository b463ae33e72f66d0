"""Every codec, on every file that Apache Hudi wrote into the golden tables: decode, encode, decode is the identity.

Where Apache Hudi's bytes are canonical (log blocks, delete lists, Avro records, bloom filters, manifests, partition
metafiles up to their date comment) ours are the same bytes. Each test says how many files of its kind it met, and fails
if there were none. TIDELAKE_EXTRA_TABLES names a folder of further tables; those of version 8 and 9 are checked too.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden.support import GOLDEN
from tidelake.format import history, names, plans, properties, service_metadata
from tidelake.format.avro_container import decode_container
from tidelake.format.avro_data import decode_avro_block, encode_avro_block
from tidelake.format.avro_record import AvroRecord, decode_record, to_plain
from tidelake.format.avro_schema import parse_record, to_json
from tidelake.format.base_footer import BLOOM_KEY, decode_footer, encode_footer
from tidelake.format.bloom import encode_bloom
from tidelake.format.bytes_reader import BytesReader
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.delete_block import DELETE_TYPE, decode_deletes, encode_deletes
from tidelake.format.log_block import BlockType, LogBlock, encode_block, read_blocks
from tidelake.format.names import State

EXTRA = os.environ.get("TIDELAKE_EXTRA_TABLES")
SYNC_BYTES = 16

RECORDS: dict[tuple[str, State], type[AvroRecord]] = {
    ("commit", State.INFLIGHT): CommitMetadata,
    ("commit", State.COMPLETED): CommitMetadata,
    ("deltacommit", State.INFLIGHT): CommitMetadata,
    ("deltacommit", State.COMPLETED): CommitMetadata,
    ("replacecommit", State.REQUESTED): plans.RequestedReplaceMetadata,
    ("replacecommit", State.INFLIGHT): CommitMetadata,
    ("replacecommit", State.COMPLETED): ReplaceCommitMetadata,
    ("clustering", State.REQUESTED): plans.RequestedReplaceMetadata,
    ("compaction", State.REQUESTED): plans.CompactionPlan,
    ("logcompaction", State.REQUESTED): plans.CompactionPlan,
    ("clean", State.REQUESTED): plans.CleanerPlan,
    ("clean", State.COMPLETED): service_metadata.CleanMetadata,
    ("rollback", State.REQUESTED): plans.RollbackPlan,
    ("rollback", State.COMPLETED): service_metadata.RollbackMetadata,
    ("savepoint", State.COMPLETED): service_metadata.SavepointMetadata,
    ("restore", State.REQUESTED): plans.RestorePlan,
    ("restore", State.COMPLETED): service_metadata.RestoreMetadata,
    ("indexing", State.REQUESTED): plans.IndexPlan,
    ("indexing", State.COMPLETED): service_metadata.IndexCommitMetadata,
}


class StoredFile(NamedTuple):
    """One file of a table: which table, where in it, and its bytes."""

    table: str
    path: str
    data: bytes

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.table}/{self.path}"


def _unzip(archive: Path) -> Iterator[StoredFile]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            # Further tables come with the folders of a Mac, and with the rows that they are expected to have.
            if not info.is_dir() and "__MACOSX" not in info.filename and "gold_" not in info.filename:
                yield StoredFile(archive.stem, info.filename, opened.read(info))


@cache
def golden_files() -> tuple[StoredFile, ...]:
    return tuple(file for archive in sorted(GOLDEN.glob("*.zip")) for file in _unzip(archive))


@cache
def extra_files() -> tuple[StoredFile, ...]:
    archives = sorted(Path(EXTRA or "").glob("*.zip"))
    # Version 6 is not read, and one table has a torn block on purpose: it is of the tests of damaged logs.
    fit = [archive for archive in archives if "_v6_" not in archive.stem and "corrupt" not in archive.stem]
    return tuple(file for archive in fit for file in _unzip(archive))


Files = Callable[[], tuple[StoredFile, ...]]
needs_extra = pytest.mark.skipif(not EXTRA, reason="TIDELAKE_EXTRA_TABLES names no folder of further tables")
every_source = pytest.mark.parametrize(
    "files", [pytest.param(golden_files, id="golden"), pytest.param(extra_files, id="extra", marks=needs_extra)]
)


def report(counts: Counter[str], *wanted: str) -> None:
    """Print how many of each kind were met, and fail if one of those wanted was not."""
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    assert not [kind for kind in wanted if not counts[kind]], f"met only {dict(counts)}"


def is_golden(files: Files) -> bool:
    return files is golden_files


def is_in_timeline(file: StoredFile) -> bool:
    return file.folder.endswith(".hoodie/timeline") and not file.name.startswith(".")


@every_source
def test_properties_of_every_table_encode_and_decode_to_the_same_values(files: Files) -> None:
    """hoodie.properties keep every value and have the checksum that we compute, the metadata table's too."""
    counts: Counter[str] = Counter()
    for file in files():
        if file.name != "hoodie.properties":
            continue
        values = properties.decode_properties(file.data)
        properties.check_table_properties(values)
        assert values[properties.CHECKSUM_KEY] == str(properties.table_checksum(values)), str(file)
        encoded = properties.encode_properties(values)
        assert properties.decode_properties(encoded) == values, str(file)
        lines = [line for line in file.data.decode("latin-1").splitlines() if not line.startswith("#")]
        assert encoded.decode("latin-1").splitlines() == lines, str(file)
        counts["metadata table" if "/metadata/" in file.path else "table"] += 1
    report(counts, "table", "metadata table")


@every_source
def test_partition_metafile_of_every_partition_encodes_and_decodes_to_the_same_values(files: Files) -> None:
    """Partition metafiles keep both values, and our bytes are Apache Hudi's but for the date in a comment."""
    counts: Counter[str] = Counter()
    for file in files():
        if file.name != names.PARTITION_META_FILE:
            continue
        values = properties.decode_partition_metadata(file.data)
        encoded = properties.encode_partition_metadata(values)
        assert properties.decode_partition_metadata(encoded) == values, str(file)
        lines = file.data.decode("latin-1").splitlines()
        assert encoded.decode("latin-1").splitlines() == [lines[0], *lines[2:]], str(file)
        counts["metafile"] += 1
    report(counts, "metafile")


@every_source
def test_names_of_every_file_parse_and_print_to_the_same_text(files: Files) -> None:
    """Names of timeline files, base files, log files and history files read back as themselves."""
    counts: Counter[str] = Counter()
    for file in files():
        if is_in_timeline(file):
            parsed = names.parse_timeline_name(file.name)
            assert parsed is not None, str(file)
            assert str(parsed) == file.name
            counts[f"{parsed.action} {parsed.state.name.lower()}"] += 1
        elif file.folder.endswith("/timeline/history") and file.name.endswith(".parquet"):
            found = names.parse_history_name(file.name)
            assert found is not None, str(file)
            assert str(found) == file.name
            counts["history file"] += 1
        elif ".log." in file.name and not file.name.endswith(".crc"):
            log = names.parse_log_name(file.name)
            assert log is not None, str(file)
            assert str(log) == file.name
            counts["change-data file" if log.is_cdc else "log file"] += 1
        elif file.name.endswith((".parquet", ".hfile")):
            base = names.parse_base_name(file.name)
            assert base is not None, str(file)
            assert str(base) == file.name
            counts[f"{base.extension} base file"] += 1
    wanted = ["log file", "parquet base file", "commit completed", "deltacommit completed"]
    if is_golden(files):
        wanted += ["history file", "change-data file"]
        wanted += [f"{action} {state.name.lower()}" for action, state in RECORDS if action != "indexing"]
    report(counts, *wanted)


def check_record(cls: type[AvroRecord], data: bytes, label: str) -> None:
    """decode, encode, decode gives the same record, no field of the file is left out, and the bytes are the same."""
    record = decode_record(cls, data)
    sync = data[-SYNC_BYTES:]
    encoded = record.encode(sync)
    assert decode_record(cls, encoded) == record, label
    plain = decode_container(data)
    assert {name: value for name, value in to_plain(record).items() if name in plain} == plain, label
    if to_plain(record).keys() == plain.keys():
        # The same fields in the same schema: what stands between the sync markers is canonical.
        assert encoded.split(sync, 1)[1] == data.split(sync, 1)[1], label


@every_source
def test_timeline_file_of_every_kind_encodes_and_decodes_to_the_same_record(files: Files) -> None:
    """Every Avro record of the timeline survives decode, encode, decode, without losing a field."""
    counts: Counter[str] = Counter()
    for file in files():
        if not is_in_timeline(file):
            continue
        parsed = names.parse_timeline_name(file.name)
        assert parsed is not None
        if not file.data:
            counts["empty"] += 1
            continue
        cls = RECORDS[parsed.action, parsed.state]
        check_record(cls, file.data, str(file))
        counts[cls.avro_name] += 1
        counts[f"{parsed.action} {parsed.state.name.lower()}"] += 1
    wanted = ["HoodieCommitMetadata", "HoodieReplaceCommitMetadata", "empty"]
    if is_golden(files):
        wanted += [cls.avro_name for (action, _), cls in RECORDS.items() if action != "indexing"]
    report(counts, *wanted)


@every_source
def test_history_of_every_table_decodes_to_manifests_and_records(files: Files) -> None:
    """History manifests are our bytes, history files hold what manifest and name say, and their records survive."""
    counts: Counter[str] = Counter()
    sizes = {(file.table, file.path): len(file.data) for file in files()}
    for file in files():
        if not file.folder.endswith("/timeline/history") or file.name.endswith(".crc"):
            continue
        if file.name == history.VERSION_FILE:
            number = history.decode_version(file.data)
            assert str(number).encode() == file.data
            assert (file.table, f"{file.folder}/manifest_{number}") in sizes, str(file)
            counts["version"] += 1
        elif history.manifest_number(file.name) is not None:
            listed = history.decode_manifest(file.data)
            assert history.encode_manifest(listed) == file.data, str(file)
            assert all(sizes[file.table, f"{file.folder}/{each.name}"] == each.size_bytes for each in listed)
            counts["manifest"] += 1
        else:
            _check_history_file(file, counts)
    wanted = ["version", "manifest", "history file", "metadata of commit", "metadata of deltacommit"]
    wanted += ["plan of HoodieCleanerPlan", "plan of HoodieCompactionPlan"]
    report(counts, *(wanted if is_golden(files) else ()))


def _check_history_file(file: StoredFile, counts: Counter[str]) -> None:
    table = pq.read_table(pa.BufferReader(file.data))
    assert tuple(table.column_names) == history.COLUMNS, str(file)
    instants = history.archived_instants(table)
    name = names.parse_history_name(file.name)
    assert name is not None
    times = [instant.requested_time for instant in instants]
    assert (times[0], times[-1]) == (name.min_instant, name.max_instant), str(file)
    assert times == sorted(times)
    for row, instant in zip(table.to_pylist(), instants, strict=True):
        stored = (row["instantTime"], row["completionTime"], row["action"], row["metadata"], row["plan"])
        assert stored == (
            instant.requested_time, instant.completion_time, instant.action, instant.metadata, instant.plan,
        )  # fmt: skip
        if instant.metadata:
            check_record(RECORDS[instant.action, State.COMPLETED], instant.metadata, str(file))
            counts[f"metadata of {instant.action}"] += 1
        if instant.plan:
            planned = _plan_class(instant)
            check_record(planned, instant.plan, str(file))
            counts[f"plan of {planned.avro_name}"] += 1
    counts["history file"] += 1


def _plan_class(instant: history.ArchivedInstant) -> type[AvroRecord]:
    fields = decode_container(instant.plan or b"").keys()
    candidates = (plans.CompactionPlan, plans.CleanerPlan, plans.RequestedReplaceMetadata, CommitMetadata)
    owners = {"operations": 0, "policy": 1, "clusteringPlan": 2, "partitionToWriteStats": 3}
    return candidates[next(place for field, place in owners.items() if field in fields)]


@cache
def log_files_of(files: Files) -> tuple[StoredFile, ...]:
    return tuple(file for file in files() if ".log." in file.name and not file.name.endswith(".crc"))


def blocks_of(files: Files, *types: BlockType) -> Iterator[tuple[StoredFile, LogBlock]]:
    for file in log_files_of(files):
        for block in read_blocks(file.data):
            if block.type in types:
                yield file, block


@every_source
def test_log_file_of_every_kind_encodes_to_the_same_bytes(files: Files) -> None:
    """Log files decode into blocks that encode to the very bytes of the file."""
    counts: Counter[str] = Counter()
    for file in log_files_of(files):
        blocks = list(read_blocks(file.data))
        assert b"".join(encode_block(block) for block in blocks) == file.data, str(file)
        counts["log file"] += 1
        counts.update(block.type.name for block in blocks)
    report(counts, "log file", "AVRO_DATA", "DELETE", "PARQUET_DATA", "HFILE_DATA")


@every_source
def test_delete_block_of_every_kind_encodes_to_the_same_bytes(files: Files) -> None:
    """Delete lists keep their union branches and array framing: the encoded content is the same bytes."""
    counts: Counter[str] = Counter()
    for file, block in blocks_of(files, BlockType.DELETE):
        deletes = decode_deletes(block.content)
        assert encode_deletes(deletes) == bytes(block.content), str(file)
        assert decode_deletes(encode_deletes(deletes)).equals(deletes), str(file)
        counts["delete block"] += 1
        for ordering in deletes.field("ordering").to_pylist():
            counts.update([name for name, value in (ordering or {"null": True}).items() if value is not None])
    wanted = ["delete block", "int", "long"]
    report(counts, *wanted, *(("double", "string", "decimal", "array") if is_golden(files) else ()))


@every_source
def test_avro_block_of_every_kind_encodes_to_the_same_bytes(files: Files) -> None:
    """Avro data blocks and change-data blocks decode to Arrow batches that encode to the very bytes of the block."""
    counts: Counter[str] = Counter()
    for file, block in blocks_of(files, BlockType.AVRO_DATA, BlockType.CDC_DATA):
        record = parse_record(block.schema_text)
        assert parse_record(to_json(record)) == record, str(file)
        batch = decode_avro_block(block.content, record)
        encoded = encode_avro_block(batch, record)
        assert encoded == bytes(block.content), str(file)
        again = decode_avro_block(encoded, record)
        assert again.schema == batch.schema, str(file)
        assert repr(again.to_pylist()) == repr(batch.to_pylist()), str(file)  # as text, since NaN is not NaN
        counts[block.type.name] += 1
        counts["rows"] += batch.num_rows
    report(counts, "AVRO_DATA", "rows", *(("CDC_DATA",) if is_golden(files) else ()))


@every_source
def test_base_footer_and_bloom_filter_of_every_base_file_encode_to_the_same_text(files: Files) -> None:
    """Footers keep their entries, bloom filters their text, and every key of the file is in its bloom filter."""
    counts: Counter[str] = Counter()
    for file in files():
        if not file.name.endswith(".parquet") or ".hoodie/" in file.path:
            continue
        assert names.parse_base_name(file.name) is not None, str(file)
        opened = pq.ParquetFile(pa.BufferReader(file.data))
        stored = opened.metadata.metadata or {}
        footer = decode_footer(stored)
        encoded = encode_footer(footer)
        assert decode_footer(encoded) == footer, str(file)
        assert {key: value for key, value in stored.items() if key in encoded} == encoded, str(file)
        counts["footer"] += 1
        if BLOOM_KEY in stored:
            bloom = footer.bloom
            assert bloom is not None
            assert encode_bloom(bloom, footer.bloom_type) == stored[BLOOM_KEY].decode("ascii"), str(file)
            keys = opened.read(columns=["_hoodie_record_key"]).column(0).combine_chunks()
            assert bloom.may_contain(keys).all(), str(file)
            counts["bloom filter"] += 1
        if footer.schema_text is not None:
            record = parse_record(footer.schema_text)
            assert parse_record(to_json(record)) == record, str(file)
            counts["Avro schema"] += 1
    report(counts, "footer", "bloom filter", "Avro schema")


def test_delete_list_with_any_decimal_is_what_fastavro_makes_of_it() -> None:
    """Decimal ordering values of any sign and size keep their value, in the bytes that Avro's own rule gives."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
    for text in ("0", "-1", "1", "127", "128", "-128", "-129", "123456789012345.123456789012345", "-0.000000000000001"):
        value = Decimal(text).quantize(Decimal("1e-15"), context=Context(prec=40))
        deletes = pa.array([{"key": "k", "partition": "", "ordering": {"decimal": value}}], DELETE_TYPE)
        content = encode_deletes(deletes)
        assert decode_deletes(content).equals(deletes), text
        own = io.BytesIO()
        fastavro.schemaless_writer(own, schema, value)
        assert content.endswith(own.getvalue() + b"\0"), text


def test_timeline_file_that_is_deflated_decodes_to_the_same_record() -> None:
    """A container with the deflate codec, which some writers choose, gives what the plain one gives."""
    plain = next(file.data for file in golden_files() if is_in_timeline(file) and file.name.endswith(".deltacommit"))
    sync = plain[-SYNC_BYTES:]
    assert plain.startswith(b"Obj\x01")
    record = decode_record(CommitMetadata, plain)
    encoded = record.encode(sync)
    head, body = encoded.split(sync, 1)
    reader = BytesReader(body)
    assert reader.varint("count") == 1
    payload = bytes(reader.take(reader.varint("size"), "payload"))
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    small = squeeze.compress(payload) + squeeze.flush()
    entries = b"\x04" + head[5:-1] + b"\x14avro.codec\x0edeflate" + b"\x00"
    size = bytearray()
    zigzag = len(small) << 1
    while zigzag >= 0x80:
        size.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    size.append(zigzag)
    deflated = b"Obj\x01" + entries + sync + b"\x02" + bytes(size) + small + sync
    assert decode_record(CommitMetadata, deflated) == record
