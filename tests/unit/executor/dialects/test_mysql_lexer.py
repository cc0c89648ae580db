"""Splitting as the servers' own client does it, and names in what was split."""

from __future__ import annotations

import pytest

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql.catalog import server_of
from ptahk.executor.dialects.mysql.declared import Reader
from ptahk.executor.dialects.mysql.lexer import Server, split

MYSQL = server_of("9.7.4-2")
MARIADB = server_of("10.11.18-MariaDB-0+deb12u1")


def texts(text: str, server: Server = MYSQL) -> list[str]:
    return [statement.text for statement in split("f.sql", text, server)]


def test_versions() -> None:
    assert Server(False, 90704) == MYSQL
    assert Server(True, 101118) == MARIADB
    assert server_of("5.5.5-10.6.4-MariaDB-log") == Server(True, 100604)
    assert server_of("8.4.3") == Server(False, 80403)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a; b;\n;;c", ["a", "b", "c"]),
        ("a ';' \";\" `;` 'it''s;' 'x\\';' ; b", ["a ';' \";\" `;` 'it''s;' 'x\\';'", "b"]),
        ("-- x;\na # y;\n/* ; */ b;--\nc", ["a # y;\n/* ; */ b", "c"]),
        ("a 1--1; b", ["a 1--1", "b"]),
        ("delimiter //\na; b//\nDELIMITER ;\nc;", ["a; b", "c"]),
        ("delimiter $$\na; end$$ b$$", ["a; end", "b"]),
        ("delimiter ;;\na;b;;\ndelimiter ;\nc", ["a;b", "c"]),
        ("/*!50003 CREATE*/ /*!50017 DEFINER=x*/ y;", ["/*!50003 CREATE*/ /*!50017 DEFINER=x*/ y"]),
        ("/*!40101 SET x */;\n/*!99999 no */;\nb;", ["/*!40101 SET x */", "b"]),
        ("/*M!999999\\- enable the sandbox mode */ \na;", ["a"]),
        ("\ufeffa;", ["a"]),
        ("create procedure p() begin a; b; end; c", ["create procedure p() begin a; b; end", "c"]),
        ("select \\N; a", ["select \\N", "a"]),
        ("a\xa0b; c", ["a\xa0b", "c"]),
    ],
)
def test_statements(text: str, found: list[str]) -> None:
    assert texts(text) == found


def test_what_only_one_make_reads() -> None:
    assert texts("/*M!100301 a */; b") == ["b"]
    assert texts("/*M!100301 a */; b", MARIADB) == ["/*M!100301 a */", "b"]
    assert texts("/*!80000 a */; b") == ["/*!80000 a */", "b"]
    assert texts("/*!80000 a */; b", MARIADB) == ["b"]


def test_of_an_executable_comment_only_the_code_is_kept() -> None:
    text = "/*!50003 CREATE */ /*+ hint */ x'0;1' @@SESSION.a @`b` /*!1000 c */ 12"
    (statement,) = split("f.sql", text, MYSQL)
    assert statement.text == text
    assert [(token.kind, token.key) for token in statement.tokens] == [
        ("word", "CREATE"), ("plain", ""), ("variable", "@@SESSION.a"), ("variable", "@"),
        ("name", "b"), ("number", "1000"), ("word", "C"), ("number", "12"),
    ]  # fmt: skip
    assert [text[token.at : token.end] for token in statement.tokens][-2:] == ["c", "12"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a;\n'x", 2, "unterminated quote"),
        ("a;\n\n/* x", 3, "unterminated comment"),
        ("a\0b", 1, "NUL"),
        ("a;\n\\! ls", 2, "command of the client"),
        ("\ndelimiter \\x\n", 2, "backslash"),
        ("a;\n\nsystem ls", 3, "command of the client"),
        ("a;\n/*!40000 b; c */", 2, "executable comment holds the terminator"),
        ("a;\n/*!40000 b /*!40000 c */; d", 2, "executable comment holds the terminator"),
        ("a;\ncreate procedure p() begin b;", 2, "no END"),
    ],
)
def test_what_cannot_be_split(text: str, line: int, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        texts(text)
    assert str(refused.value).startswith(f"f.sql:{line}:")


def prepared(text: str) -> list[str]:
    reader = Reader("scratch", "shop")
    made = [reader.prepare(statement) for statement in split("f.sql", text, MYSQL)]
    return [each.sql for each in made if each is not None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("create table shop.t (a int)", ["create table `scratch`.t (a int)"]),
        ("use x; create table x.t (a int)", ["create table `scratch`.t (a int)"]),
        ("create view v as select t.a from t", ["create view v as select t.a from t"]),
        (
            "create view v as select extract(year from t.a), trim(both 'x' from t.b) from t",
            ["create view v as select extract(year from t.a), trim(both 'x' from t.b) from t"],
        ),
        (
            "create definer=`a b`@localhost sql security definer view v as select 1",
            ["create  sql security definer view v as select 1"],
        ),
        ("create definer=current_user() view v as select 1", ["create  view v as select 1"]),
        (
            "create trigger tr before update on t for each row"
            " update k set k.a = new.a where k.b = old.b",
            [
                "create trigger tr before update on t for each row"
                " update k set k.a = new.a where k.b = old.b"
            ],
        ),
        ("insert into t values (1); lock tables t write; commit", []),
        ("set foreign_key_checks = 0, sql_mode = ''", ["SET sql_mode = ''"]),
        ("alter table t disable keys", []),
        (
            "create event e on schedule every 1 day do delete from t",
            ["create event e on schedule every 1 day DISABLE do delete from t"],
        ),
        (
            "create event e on schedule every 1 day enable comment 'x' do delete from t",
            ["create event e on schedule every 1 day DISABLE comment 'x' do delete from t"],
        ),
    ],
)
def test_what_is_sent(text: str, found: list[str]) -> None:
    assert prepared(text) == found
