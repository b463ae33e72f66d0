"""Decoded timeline files that are kept in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelake as tl
from small_rows import rows
from tidelake.errors import CorruptError
from tidelake.format.avro_record import decode_record
from tidelake.format.commit_metadata import CommitMetadata, ReplaceCommitMetadata
from tidelake.format.names import parse_timeline_name
from tidelake.timeline import decoded
from tidelake.timeline.decoded import DecodedRecords

SYNC = b"0123456789abcdef"


def commit(text: str) -> CommitMetadata:
    return CommitMetadata({}, False, {"said": text}, 1, "UPSERT")


def test_decoded_same_bytes_are_decoded_once() -> None:
    kept = DecodedRecords(10_000)
    data = commit("a").encode(SYNC)
    assert kept.get(CommitMetadata, data) is kept.get(CommitMetadata, bytes(data))
    assert kept.get(ReplaceCommitMetadata, data).extra_metadata == {"said": "a"}
    other = commit("b").encode(SYNC)
    assert kept.get(CommitMetadata, other) == commit("b")


def test_decoded_what_is_kept_is_bounded() -> None:
    size = len(commit("a").encode(SYNC))
    kept = DecodedRecords(2 * size)
    a, b, c = (kept.get(CommitMetadata, commit(text).encode(SYNC)) for text in "abc")
    assert kept.get(CommitMetadata, commit("c").encode(SYNC)) is c
    assert kept.get(CommitMetadata, commit("b").encode(SYNC)) is b
    again = kept.get(CommitMetadata, commit("a").encode(SYNC))
    assert again == a
    assert again is not a
    large = commit("x" * 3 * size).encode(SYNC)
    assert kept.get(CommitMetadata, large) is not kept.get(CommitMetadata, large)
    assert kept.get(CommitMetadata, commit("a").encode(SYNC)) is again


def test_decoded_damage_is_not_kept() -> None:
    kept = DecodedRecords(10_000)
    for _ in range(2):
        with pytest.raises(CorruptError):
            kept.get(CommitMetadata, b"Obj\x01 nothing")


def test_decoded_what_a_writer_keeps_is_what_a_reader_decodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is kept as it was made: the same as from its file, whatever wrote it."""
    mine = DecodedRecords(10_000_000)
    for module in ("tidelake.write.transaction", "tidelake.services.execution"):
        monkeypatch.setattr(f"{module}.DECODED", mine)
    table = tl.create_table(str(tmp_path), rows((1, "a", 1)).schema, record_key="id", ordering_fields="ts")
    table.insert(rows((1, "a", 1), (2, "b", 1)))
    table.upsert(rows((1, "c", 2), (3, "d", 1)))
    table.delete([2])
    table.compact()
    table.insert_overwrite(rows((9, "z", 1)))
    seen = 0
    for path in (tmp_path / ".hoodie" / "timeline").iterdir():
        name = parse_timeline_name(path.name)
        if name is None or name.state.name != "COMPLETED":
            continue
        cls = ReplaceCommitMetadata if name.action == "replacecommit" else CommitMetadata
        data = path.read_bytes()
        assert mine._kept[cls, decoded._digest(data)][1] == decode_record(cls, data)
        seen += 1
    assert seen == 5
