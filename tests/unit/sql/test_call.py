"""What a CALL statement says, parsed without a session; and what is none of ours."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidError
from tidelake.sql.call import Call, parse_call


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "",
        "-- CALL help()\nSELECT 1",
        "SELECT call FROM calls",
        "CALLING help()",
        "CALL iceberg.system.expire_snapshots('db.t')",
        "CALL other.show_commits(table => 'x')",
    ],
)
def test_call_of_another_statement_or_catalog_is_none(text: str) -> None:
    """What is no CALL, or names a catalog, is left to Spark."""
    assert parse_call(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CALL help", Call("help")),
        ("call HELP()", Call("help")),
        ("CALL help;", Call("help")),
        ("CALL help; -- done", Call("help")),
        ("CALL help -- done", Call("help")),
        ("CALL help(); -- done", Call("help")),
        ("CALL help(); /* done */ ; -- (really)\n", Call("help")),
        ("CALL f('a; -- b'); -- c", Call("f", ("a; -- b",))),
        ("  /* a\n b */ -- c\n CALL help() ; ", Call("help")),
        ("CALL system.show_commits('/a', 10)", Call("show_commits", ("/a", 10))),
        ("CALL `system` . `Show_Commits` ( '/a' )", Call("show_commits", ("/a",))),
        ("CALL f(TABLE => '/a', Limit => -3)", Call("f", (), (("table", "/a"), ("limit", -3)))),
        ('CALL f("/a", a => true, b => NULL, c => 1.5)', Call("f", ("/a",), (("a", True), ("b", None), ("c", 1.5)))),
        ("CALL f('it''s (a; b)', x => 'CALL g()')", Call("f", ("it's (a; b)",), (("x", "CALL g()"),))),
        ("CALL f('a' 'b', \"O''Brien\", '''')", Call("f", ("ab", "O''Brien", "'"))),
        (
            "CALL f(order => 1, partition => 'p', end => 2)",
            Call("f", (), (("order", 1), ("partition", "p"), ("end", 2))),
        ),
        ("CALL sum(1)", Call("sum", (1,))),
    ],
)
def test_call_of_ours_is_parsed(text: str, expected: Call) -> None:
    """Names without case, comments, the prefix, positional and named values of each kind."""
    assert parse_call(text) == expected


@pytest.mark.parametrize("blank", [" ", "\n", "/* a */", "-- a\n", " /* a */ -- b\n"])
def test_call_after_and_before_many_blanks_takes_no_time(blank: str) -> None:
    """Blanks and comments without end, before a statement that is no CALL or after a CALL, are passed over once."""
    assert parse_call(blank * 1_000 + "SELECT 1") is None
    assert parse_call(blank * 1_000 + "CALL help;" + blank * 1_000) == Call("help")
    with pytest.raises(InvalidError):
        parse_call("CALL help;" + blank * 1_000 + "x")


def test_call_with_markers_takes_the_values_given() -> None:
    """``:name`` and ``?`` take their values from args, as in spark.sql."""
    assert parse_call("CALL f(table => :t, limit => :n)", {"t": "/a", "n": 3}).named == (("table", "/a"), ("limit", 3))
    assert parse_call("CALL f(?, ?)", ["/a", 3]).positional == ("/a", 3)
    with pytest.raises(InvalidError, match="marker"):
        parse_call("CALL f(:t)", {"u": 1})
    with pytest.raises(InvalidError, match="list"):
        parse_call("CALL f(:t)", {"t": [1]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CALL", "is no CALL"),
        ("CALL 'x'", "is no CALL"),
        ("CALL f(", "does not parse"),
        ("CALL f('a') SELECT 1", "goes on|does not parse"),
        ("CALL f('a'); CALL g()", "goes on|does not parse"),
        ("CALL f('a') x", "goes on"),
        ("CALL f('a'); -- one\nCALL g()", "goes on|does not parse"),
        ("CALL help; -- one\nSELECT 1", "goes on|does not parse"),
        ("CALL f(a => 'x', 3)", "without a name"),
        ("CALL f(current_date())", "no plain value"),
        ("CALL f((SELECT 1))", "no plain value"),
        ("CALL f(x)", "no plain value"),
        ("CALL f(" + "(" * 5_000 + "1", "too long"),
        ("CALL f('" + "x" * 100_000 + "')", "too long"),
        ("CALL f(" + "9" * 5_000 + ")", "too long"),
    ],
)
def test_call_that_is_wrong_is_refused_in_a_sentence(text: str, said: str) -> None:
    """Half a CALL, more than one statement, and what is no plain value."""
    with pytest.raises(InvalidError, match=said):
        parse_call(text)
