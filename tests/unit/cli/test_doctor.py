"""``tidelake doctor``: what it finds wrong, and its exit code."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tidelake.cli import doctor_machine
from tidelake.errors import UnsupportedError
from tidelake.spark.java import Java

PROJECT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def java(monkeypatch):
    """A Java that is there, without starting one for each test."""
    monkeypatch.setattr("tidelake.spark.java.find_java", lambda: Java("/opt/java", 17, "PATH"))


def statuses(ran) -> dict[str, str]:
    return {check["about"]: check["status"] for check in ran.json()}


def test_doctor_of_a_sound_table_finds_no_problem(tidelake, golden):
    """A table that Apache Hudi wrote has no problem and no warning, and the exit code is 0."""
    ran = tidelake("doctor", golden("mor_v9_hive"), "--format", "json")
    assert ran.code == 0
    found = statuses(ran)
    table = ("storage", "properties", "table", "timeline", "pending instants", "history", "commits", "schema", "files")
    assert {found[about] for about in table} == {"ok"}
    assert {"python", "pyarrow", "polars", "pyspark", "java", "PYSPARK_PYTHON"} <= set(found)


def test_doctor_table_form_ends_with_the_count(tidelake, golden):
    """The table form has a line for each check and ends with how many problems there are."""
    ran = tidelake("doctor", golden("mor_v9_metadata_table"))
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("0 problems")
    assert "column_stats" in ran.out


def test_doctor_of_no_table_is_a_problem(tidelake, tmp_path):
    """A folder without a table is a problem, told in the list."""
    ran = tidelake("doctor", str(tmp_path), "--format", "json")
    assert ran.code == 1
    assert statuses(ran)["storage"] == "problem"


def test_doctor_pending_instant_is_a_warning(tidelake, golden):
    """A pending instant is a warning with its name, and the exit code stays 0."""
    ran = tidelake("doctor", golden("cow_v9_inflight"), "--format", "json")
    (check,) = [check for check in ran.json() if check["about"] == "pending instants"]
    assert (ran.code, check["status"]) == (0, "warning")
    assert ".commit" in check["says"]


def test_doctor_missing_file_is_a_problem(tidelake, golden):
    """A base file that is gone is a problem that names the file."""
    path = golden("cow_v9_twoparts")
    lost = tidelake("files", path, "--format", "json").json()[0]["base_file"]
    (Path(path) / lost).unlink()
    ran = tidelake("doctor", path, "--format", "json")
    (check,) = [check for check in ran.json() if check["about"] == "files"]
    assert (ran.code, check["status"]) == (1, "problem")
    assert lost in check["says"]


def test_doctor_short_log_is_a_problem(tidelake, golden):
    """A log shorter than its commit wrote is a problem."""
    path = golden("mor_v9_hive")
    slices = tidelake("files", path, "--format", "json").json()
    log = Path(path) / next(s["log_files"][0] for s in slices if s["log_files"])
    log.write_bytes(log.read_bytes()[:-10])
    ran = tidelake("doctor", path, "--format", "json")
    assert (ran.code, statuses(ran)["files"]) == (1, "problem")


def test_doctor_damaged_properties_without_backup_is_a_problem(tidelake, golden):
    """A wrong checksum without a backup is a problem; with a good backup it is a warning."""
    path = golden("mor_v9_hive")
    properties = Path(path) / ".hoodie" / "hoodie.properties"
    good = properties.read_text()
    properties.write_text(re.sub(r"checksum=\d+", "checksum=1", good))
    ran = tidelake("doctor", path, "--format", "json")
    assert (ran.code, statuses(ran)["properties"]) == (1, "problem")
    properties.with_name("hoodie.properties.backup").write_text(good)
    ran = tidelake("doctor", path, "--format", "json")
    assert (ran.code, statuses(ran)["properties"]) == (0, "warning")


def test_doctor_backup_left_over_is_a_warning(tidelake, golden):
    """Good properties with a backup beside them tell of an update that did not end."""
    path = golden("mor_v9_hive")
    properties = Path(path) / ".hoodie" / "hoodie.properties"
    properties.with_name("hoodie.properties.backup").write_bytes(properties.read_bytes())
    ran = tidelake("doctor", path, "--format", "json")
    assert (ran.code, statuses(ran)["properties backup"]) == (0, "warning")


def test_doctor_version_too_new_is_a_problem(tidelake, golden):
    """A table version that is not read is a problem that names it."""
    path = golden("mor_v9_hive")
    properties = Path(path) / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("table.version=9", "table.version=99"))
    ran = tidelake("doctor", path, "--format", "json")
    (check,) = [check for check in ran.json() if check["about"] == "table"]
    assert (ran.code, check["status"]) == (1, "problem")
    assert "99" in check["says"]


def says(ran, about):
    (check,) = [check for check in ran.json() if check["about"] == about]
    return check["status"], check["says"]


def test_doctor_heartbeat_fresh_names_the_write(tidelake, golden):
    """A heartbeat of the last two minutes means that somebody is writing, and what others must know is said."""
    path = golden("mor_v9_hive")
    assert "nobody" in says(tidelake("doctor", path, "--format", "json"), "writers")[1]
    beat = Path(path) / ".hoodie" / ".heartbeat" / "20260101000000000"
    beat.parent.mkdir()
    beat.touch()
    status, said = says(tidelake("doctor", path, "--format", "json"), "writers")
    assert (status, "20260101000000000" in said, "same" in said) == ("ok", True, True)


def test_doctor_lock_left_behind_is_a_warning(tidelake, golden):
    """A lock file that nobody has touched for long keeps Apache Hudi's writers, and ours that share it, waiting."""
    path = golden("mor_v9_hive")
    assert says(tidelake("doctor", path, "--format", "json"), "lock") == ("ok", "no lock is held")
    lock = Path(path) / ".hoodie" / "lock"
    lock.touch()
    assert "is held" in says(tidelake("doctor", path, "--format", "json"), "lock")[1]
    os.utime(lock, (1, 1))
    assert says(tidelake("doctor", path, "--format", "json"), "lock")[0] == "warning"


def test_doctor_worker_python_that_differs_is_a_problem(tidelake, monkeypatch):
    """PYSPARK_PYTHON of another minor version, or that does not run, is a problem; the same one is not."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert statuses(tidelake("doctor", "--format", "json"))["PYSPARK_PYTHON"] == "ok"
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    ran = tidelake("doctor", "--format", "json")
    assert (ran.code, statuses(ran)["PYSPARK_PYTHON"]) == (1, "problem")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(doctor_machine, "python_version", lambda _: (3, 7))
    assert statuses(tidelake("doctor", "--format", "json"))["PYSPARK_PYTHON"] == "problem"


def test_doctor_java_missing_is_a_warning(tidelake, monkeypatch):
    """Without Java everything in process works: a warning, not a problem."""

    def none() -> Java:
        raise UnsupportedError("Spark needs Java 17 or later: there is none")

    monkeypatch.setattr("tidelake.spark.java.find_java", none)
    ran = tidelake("doctor", "--format", "json")
    assert (ran.code, statuses(ran)["java"]) == (0, "warning")


def test_doctor_versions_are_those_of_the_project():
    """The least versions that the doctor wants are those that the package asks for."""
    text = (PROJECT / "pyproject.toml").read_text()
    for name, least in {**doctor_machine.NEEDED, **doctor_machine.NEEDED_BY_SPARK}.items():
        stated = re.search(rf'"{name}>=([\d.]+)', text)
        assert stated is not None, name
        assert doctor_machine.numbers(stated[1]) == least, name
