"""Names and literals as every supported server reads them."""

from __future__ import annotations

import pytest

from ptahk.executor.dialects.postgres.quote import (
    clip,
    dollar,
    ident,
    literal,
    object_name,
    qualified,
)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("a", "a"),
        ("a_1", "a_1"),
        ("A", '"A"'),
        ("1a", '"1a"'),
        ("a b", '"a b"'),
        ('a"b', '"a""b"'),
        ("select", '"select"'),
        ("user", '"user"'),
        ("ä", '"ä"'),
        ("a\n", '"a\n"'),
        ("", '""'),
    ],
)
def test_ident(name: str, quoted: str) -> None:
    assert ident(name) == quoted


def test_qualified() -> None:
    assert qualified(("public", "T t", "x")) == 'public."T t".x'


@pytest.mark.parametrize(
    ("text", "sql"), [("a", "'a'"), ("it's", "'it''s'"), ("a\\b", "E'a\\\\b'"), ("", "''")]
)
def test_literal(text: str, sql: str) -> None:
    assert literal(text) == sql


@pytest.mark.parametrize("body", ["", "select 1", "$$", "a$", "$ptahk1$ $$", "$ptahk1$"])
def test_dollar_quotes_what_it_is_given(body: str) -> None:
    sql = dollar(body)
    tag = sql[: sql.index("$", 1) + 1]
    assert sql == f"{tag}{body}{tag}"
    assert sql.index(tag, len(tag)) == len(tag) + len(body)


def test_clip_keeps_whole_characters() -> None:
    assert clip("ä" * 40) == "ä" * 31
    assert clip("short") == "short"


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("t", "a", "t_a_key"),
        ("t", "", "t_key"),
        ("t" * 63, "a", "t" * 57 + "_a_key"),
        ("t" * 40, "c" * 40, "t" * 29 + "_" + "c" * 29 + "_key"),
    ],
)
def test_object_name_is_the_server_s_choice(first: str, second: str, name: str) -> None:
    assert object_name(first, second, "key") == name
