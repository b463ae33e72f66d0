"""The entry point: help, versions, exit codes, one-sentence errors, broken pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidelake as tl
from tidelake.cli.main import main
from tidelake.errors import TidelakeError
from tidelake.storage import discard_memory_storage, open_storage

SRC = Path(__file__).parents[3] / "src"
COMMANDS = ("show", "timeline", "files", "schema", "read", "doctor")


def process(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, *(("-m", "tidelake.cli.main") if code is None else ("-c", code)), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.run(program, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_version_asked_is_printed(tidelake):
    """--version prints the package's version and exits with 0."""
    ran = tidelake("--version")
    assert (ran.code, ran.out.strip()) == (0, f"tidelake {tl.__version__}")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_examples(tidelake, command):
    """Every command's help shows examples that begin with the command."""
    ran = tidelake(command, "--help")
    assert ran.code == 0
    assert "--format" in ran.out
    assert f"tidelake {command}" in ran.out.partition("examples:")[2]


def test_help_names_every_command(tidelake):
    """The top help lists all commands."""
    ran = tidelake("--help")
    assert ran.code == 0
    assert all(f"\n    {command}" in ran.out for command in COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("show",),
        ("show", "x", "--format", "xml"),
        ("timeline", "x", "--limit", "0"),
        ("timeline", "x", "--limit", "-3"),
        ("timeline", "x", "--limit", "3", "--all"),
        ("timeline", "x", "--arch"),
        ("read", "x", "--columns", ","),
        ("read", "x", "--output", "rows.xlsx"),
        ("read", "x", "--mode", "sideways"),
        ("read", "x", "--count", "--limit", "3"),
        ("read", "x", "--as-of", "20260101", "--as-of-completion", "20260101"),
        ("read", "x", "--spark", "--output", "rows.csv"),
        ("show", "x", "--storage-option", "nokey"),
    ],
)
def test_usage_wrong_exits_with_two(tidelake, arguments):
    """Wrong usage gives exit code 2, a message on standard error and nothing on standard output."""
    ran = tidelake(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert "error:" in ran.err


def test_storage_option_without_equals_is_not_repeated(tidelake):
    """A storage option that is refused is not printed: it may be a secret."""
    ran = tidelake("show", "x", "--storage-option", "hunter2")
    assert "hunter2" not in ran.err


@pytest.mark.parametrize("command", ["show", "timeline", "files", "schema", "read"])
def test_path_without_a_table_is_one_sentence(tidelake, tmp_path, command):
    """A folder that is no table gives exit code 1 and one line on standard error, without a traceback."""
    ran = tidelake(command, str(tmp_path))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("tidelake: ")
    assert "is not a table" in ran.err
    assert ran.err.count("\n") == 1


def test_scheme_unknown_is_one_sentence(tidelake):
    """A URI of an unknown kind is refused in one sentence that names the known ones."""
    ran = tidelake("show", "ftp://host/table")
    assert ran.code == 1
    assert "s3://" in ran.err


@pytest.mark.parametrize("how", ["option", "variable"])
def test_error_while_debugging_is_raised(tmp_path, monkeypatch, how):
    """--debug and TIDELAKE_DEBUG=1 let the error through with its traceback."""
    if how == "variable":
        monkeypatch.setenv("TIDELAKE_DEBUG", "1")
    with pytest.raises(TidelakeError):
        main(["show", str(tmp_path), *(["--debug"] if how == "option" else [])])


def test_error_unexpected_is_one_sentence(tidelake, golden, monkeypatch):
    """A bug of ours is told as one sentence with the way to the traceback, not as a traceback."""

    def broken(*_: object, **__: object) -> int:
        raise RuntimeError("boom\nsecond line")

    monkeypatch.setattr("tidelake.cli.timeline.run", broken)
    ran = tidelake("timeline", golden("cow_v9_empty"))
    assert ran.code == 1
    assert "RuntimeError: boom second line" in ran.err
    assert "--debug" in ran.err
    assert ran.err.count("\n") == 1


def test_interrupt_while_running_exits_quietly(tidelake, golden, monkeypatch):
    """Control-C ends a command with code 130 and without a traceback."""

    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidelake.cli.timeline.run", interrupted)
    ran = tidelake("timeline", golden("cow_v9_empty"))
    assert (ran.code, ran.err) == (130, "")


def test_process_real_shows_a_table(golden):
    """The program as it is started from a shell shows a table."""
    done = process("show", golden("cow_v9_twoparts"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "COPY_ON_WRITE, version 9" in done.stdout


def test_process_real_with_an_error_has_no_traceback(tmp_path):
    """The program as it is started from a shell answers an error in one line, with code 1."""
    done = process("read", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tidelake: ")
    assert done.stderr.count("\n") == 1


def test_pipe_closed_early_ends_quietly(golden):
    """When the reader of the output goes away, the program ends without a complaint."""
    program = [sys.executable, "-m", "tidelake.cli.main", "timeline", golden("mor_v9_hive")]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(program, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment) as running:
        os.close(writing)
        _, complaint = running.communicate(timeout=120)
    assert complaint == ""
    assert running.returncode == 141


def test_timeline_imports_no_engine(golden):
    """``tidelake timeline`` loads neither Arrow nor polars nor pyspark, which would take longer than the command."""
    code = (
        "import sys; from tidelake.cli.main import main; code = main(sys.argv[1:]); "
        "heavy = {'pyarrow', 'polars', 'pyspark', 'numpy', 'pandas', 'obstore', 'sqlglot', 'rich', 'typer'};"
        "print('loaded', sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    done = process("timeline", golden("mor_v9_hive"), code=code)
    assert done.returncode == 0, done.stderr
    assert "deltacommit" in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_commands_without_spark_import_no_pyspark(golden):
    """No command loads pyspark unless ``--spark`` asks for it."""
    path = golden("mor_v9_hive")
    code = (
        "import sys; from tidelake.cli.main import main; path = sys.argv[1];"
        "[main([command, path]) for command in ('show', 'files', 'schema', 'read', 'doctor')];"
        "print('loaded', 'pyspark' in sys.modules)"
    )
    done = process(path, code=code)
    assert done.stdout.splitlines()[-1] == "loaded False", done.stderr


@pytest.mark.parametrize("command", COMMANDS[:5])
def test_uri_of_another_storage_is_shown(tidelake, golden, command):
    """Commands take URIs of any storage, not local paths alone."""
    folder = Path(golden("mor_v9_hive"))
    storage = open_storage("memory://cli-uri")
    for path in folder.rglob("*"):
        if path.is_file():
            storage.put(str(path.relative_to(folder)), path.read_bytes())
    try:
        ran = tidelake(command, "memory://cli-uri")
    finally:
        discard_memory_storage("cli-uri")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_table_looked_at_is_not_touched(tidelake, golden, untouched, command):
    """No command writes to, creates or removes anything in the table."""
    path = golden("mor_v9_hive")
    before = untouched(path)
    tidelake(command, path)
    assert untouched(path) == before
