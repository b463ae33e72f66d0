"""``tidelake show``, ``files`` and ``schema``."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_show_table_says_what_it_is(tidelake, golden):
    """The table form names type, keys, partitions, ordering, sizes and the last commits."""
    ran = tidelake("show", golden("mor_v9_hive"))
    assert (ran.code, ran.err) == (0, "")
    facts = {line.split("  ")[0]: line for line in ran.out.splitlines()}
    assert "MERGE_ON_READ, version 9" in facts["type"]
    assert facts["key"].endswith("  id")
    assert facts["partitioned by"].endswith("  city")
    assert facts["ordered by"].endswith("  ts")
    assert "EVENT_TIME_ORDERING" in facts["merge mode"]
    assert "3 partitions, 4 file groups" in facts["size"]
    assert "UPSERT" in ran.out


def test_show_json_has_sizes_and_commits(tidelake, golden):
    """The JSON form has the same as numbers and lists."""
    shown = tidelake("show", golden("cow_v9_inflight"), "--format", "json").json()
    assert shown["name"] == "cow_v9_inflight"
    assert shown["record_key"] == ["id"]
    assert shown["base_bytes"] > 0
    assert len(shown["pending"]) == 1
    assert [commit["operation"] for commit in shown["last_commits"]] == ["INSERT", "UPSERT"]
    assert {"name": "id", "type": "int32"} in shown["columns"]


def test_show_empty_table_is_no_error(tidelake, golden):
    """A table without commits is shown."""
    ran = tidelake("show", golden("cow_v9_empty"))
    assert ran.code == 0
    assert "no commits" in ran.out


def test_files_totals_are_those_of_the_slices(tidelake, golden):
    """The totals of the table form add up the slices of the JSON form."""
    path = golden("mor_v9_hive")
    slices = tidelake("files", path, "--format", "json").json()
    total = tidelake("files", path).out.splitlines()[-1]
    logs = sum(len(s["log_files"]) for s in slices)
    assert f"{len({s['partition'] for s in slices})} partitions, {len(slices)} file groups" in total
    assert f"in {logs} logs" in total
    assert all((Path(path) / s["base_file"]).stat().st_size == s["base_bytes"] for s in slices)


@pytest.mark.parametrize("options", [(), ("--all",)])
def test_files_partition_named_shows_only_it(tidelake, golden, options):
    """--partition keeps one partition, of one or of several levels."""
    path = golden("cow_v9_twoparts")
    everything = tidelake("files", path, "--format", "json", *options).json()
    wanted = everything[0]["partition"]
    found = tidelake("files", path, "--partition", wanted, "--format", "json", *options).json()
    assert found == [s for s in everything if s["partition"] == wanted]
    assert len(found) < len(everything)


def test_files_all_includes_older_slices(tidelake, golden):
    """--all shows every slice of a file group, the latest among them."""
    path = golden("cow_v9_twoparts")
    latest = tidelake("files", path, "--format", "json").json()
    every = tidelake("files", path, "--all", "--format", "json").json()
    assert len(every) > len(latest)
    assert all(s in every for s in latest)


@pytest.mark.parametrize("partition", ["city=nowhere", "no/such/depth", ".hoodie", "../elsewhere"])
def test_files_partition_unknown_is_an_error(tidelake, golden, partition):
    """A partition that is not there gives a sentence, not an empty table."""
    ran = tidelake("files", golden("mor_v9_hive"), "--partition", partition)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1


def test_schema_columns_have_types_and_roles(tidelake, golden):
    """The schema names types, nullability and what columns are for; meta columns only when asked."""
    path = golden("mor_v9_hive")
    columns = tidelake("schema", path, "--format", "json").json()
    by_name = {column["name"]: column for column in columns}
    assert by_name["price"]["type"] == "double"
    assert by_name["city"]["roles"] == ["partition"]
    assert all(isinstance(column["nullable"], bool) for column in columns)
    assert not any(name.startswith("_hoodie") for name in by_name)
    with_meta = tidelake("schema", path, "--meta", "--format", "json").json()
    assert [column["name"] for column in with_meta[:2]] == ["_hoodie_commit_time", "_hoodie_commit_seqno"]
    assert "double" in tidelake("schema", path).out


def test_schema_avro_is_the_stated_one(tidelake, golden):
    """--avro prints an Avro record schema as JSON."""
    record = tidelake("schema", golden("mor_v9_hive"), "--avro").json()
    assert record["type"] == "record"
    assert "price" in [field["name"] for field in record["fields"]]
