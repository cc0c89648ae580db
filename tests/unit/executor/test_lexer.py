"""Splitting PostgreSQL text, by vectors and at random: quotes, comments, bodies, commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.errors import UsageError
from ptahk.executor.dialects.postgres.lexer import split


def texts(source: str) -> list[str]:
    return [statement.text for statement in split("f.sql", source)]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("", []),
        (";;  ;", []),
        ("-- only a comment", []),
        ("a; b", ["a", "b"]),
        ("\ufeffa;", ["a"]),
        ("a 'x;y'; b", ["a 'x;y'", "b"]),
        ("a 'x''y;'; b", ["a 'x''y;'", "b"]),
        ("a E'x\\';y'; b", ["a E'x\\';y'", "b"]),
        ("a 'x\\'; b", ["a 'x\\'", "b"]),
        ('a "x;""y"; b', ['a "x;""y"', "b"]),
        ('a U&"d\\0061t;a"; b', ['a U&"d\\0061t;a"', "b"]),
        ("a $$x;y$$; b", ["a $$x;y$$", "b"]),
        ("a $t$x;$$;$t$; b", ["a $t$x;$$;$t$", "b"]),
        ("a x$t$y; b$t$", ["a x$t$y", "b$t$"]),
        ("a $1; b", ["a $1", "b"]),
        ("a /* ; /* ; */ ; */ c; b", ["a /* ; /* ; */ ; */ c", "b"]),
        ("a -- ;\nc; b", ["a -- ;\nc", "b"]),
        ("a (b; c); d", ["a (b; c)", "d"]),
        (
            "create function f() returns int begin atomic select case when 1 then 2 end; end; b",
            [
                "create function f() returns int begin atomic select case when 1 then 2 end; end",
                "b",
            ],
        ),
        ("begin; create table t (); end; b", ["begin", "create table t ()", "end", "b"]),
        ("\\restrict abc\na;\n\\unrestrict abc\n", ["a"]),
        ('create table "begin" (atomic int); b', ['create table "begin" (atomic int)', "b"]),
    ],
)
def test_vectors(source: str, wanted: list[str]) -> None:
    assert texts(source) == wanted


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("a;\n'x", 2, "quote"),
        ('a;\n\n"x', 3, "quote"),
        ("a;\n$q$ x", 2, "$q$"),
        ("a; /* x\n", 1, "comment"),
        ("a;\n\\i b.sql", 2, "psql"),
        ("a \\gexec", 1, "psql"),
        ("a;\nb\0;", 2, "NUL"),
    ],
)
def test_refusals_name_the_line(source: str, line: int, word: str) -> None:
    with pytest.raises(UsageError) as refused:
        texts(source)
    assert refused.value.message.startswith(f"f.sql:{line}: ")
    assert word in refused.value.message


def test_lines_are_those_of_the_first_token() -> None:
    found = list(split("f.sql", "-- one\n\na\nb;\n  c ;d\n;e"))
    assert [(each.text, each.line) for each in found] == [
        ("a\nb", 3),
        ("c", 5),
        ("d", 5),
        ("e", 6),
    ]
    assert found[0].line_of(3) == 4


pieces = st.sampled_from(
    [
        "select 1",
        "'a;b'",
        '"c;d"',
        "$$e;f$$",
        "$x$;$$;$x$",
        "/* ; */",
        "-- ;\n",
        "(;)",
        "E'\\';'",
        "word",
        "\n",
        " ",
        "::text",
        "1.5e3",
    ]
)


@given(st.lists(st.lists(pieces, min_size=1, max_size=6), max_size=8))
def test_statements_come_back_as_they_were_joined(parts: list[list[str]]) -> None:
    written = ["x " + " ".join(each) + " y" for each in parts]
    assert texts(" ;\n".join(written)) == written


@given(st.text(alphabet="ae'\"$/*-;()\\\n E&U", max_size=60))
def test_any_text_is_split_or_refused(source: str) -> None:
    try:
        found = texts(source)
    except UsageError as refused:
        assert refused.reason == "InvalidSource"
    else:
        assert all(text in source for text in found)


def test_a_carriage_return_ends_a_line_comment_as_it_does_on_the_server() -> None:
    assert texts("-- one\rCREATE TABLE a ();\r-- two\rCREATE TABLE b ();\r") == [
        "CREATE TABLE a ()",
        "CREATE TABLE b ()",
    ]
