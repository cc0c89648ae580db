"""Qualified names in SQL text: which tokens may name a database, and which certainly do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.executor.dialects.mysql.lexer import Token

_TABLES_FOLLOW: Final = frozenset(
    {
        "FROM", "JOIN", "STRAIGHT_JOIN", "INTO", "UPDATE", "TABLE", "TABLES", "REFERENCES", "VIEW",
        "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "SEQUENCE", "CALL", "TRUNCATE", "RENAME",
        "EXISTS", "FOLLOWS", "PRECEDES", "UNION",
    }
)  # fmt: skip
_LIST_ENDS: Final = frozenset(
    {
        "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "SELECT", "SET", "VALUES", "DO", "THEN",
        "WINDOW", "FOR", ";", "BEGIN",
    }
)  # fmt: skip
_TAKES_FROM: Final = frozenset(
    {"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "MID", "POSITION", "OVERLAY"}
)
"""Functions whose arguments may hold FROM."""
_SEQUENCES: Final = frozenset({"NEXTVAL", "LASTVAL", "SETVAL"})


@dataclass(frozen=True, slots=True)
class Mention:
    """A dotted name."""

    qualifier: Token
    name: Token
    certain: bool
    """It stands where only a database can: before a table's or a routine's name."""


@dataclass(slots=True)
class _Level:
    function: str = ""
    in_list: bool = False
    """Within the tables of a FROM."""


def mentions(tokens: Sequence[Token], what: str) -> Iterator[Mention]:
    """The dotted names of a statement.

    :param what: the kind of object that the statement is about, in upper case.
    """
    levels = [_Level()]
    at = 0
    headed = what in ("TRIGGER", "INDEX")  # the first ON of these is followed by a table
    while at < len(tokens):
        token = tokens[at]
        previous = tokens[at - 1].key if at else ""
        if token.key == "(":
            levels.append(_Level(previous if at and tokens[at - 1].kind == "word" else ""))
        elif token.key == ")":
            if len(levels) > 1:
                levels.pop()
        elif token.kind == "word" and token.key in _LIST_ENDS:
            levels[-1].in_list = False
        elif token.kind == "word" and token.key == "FROM":
            levels[-1].in_list = levels[-1].function not in _TAKES_FROM
        if _dotted(tokens, at) and previous != ".":
            third = at + 3 < len(tokens) and tokens[at + 3].key == "."
            called = at + 3 < len(tokens) and tokens[at + 3].key == "("
            follows = _follows(tokens, at, levels[-1], what) or (headed and previous == "ON")
            yield Mention(token, tokens[at + 2], third or called or follows)
            at += 3
            continue
        if token.key == "ON" and headed and at and previous != "ON":
            headed = _dotted(tokens, at + 1)
        at += 1


def _dotted(tokens: Sequence[Token], at: int) -> bool:
    return (
        at + 2 < len(tokens)
        and tokens[at].is_name
        and tokens[at + 1].key == "."
        and tokens[at + 1].kind == "other"
        and tokens[at + 2].is_name
    )


def _follows(tokens: Sequence[Token], at: int, level: _Level, what: str) -> bool:
    """Whether a table or a routine must stand here."""
    if not at:
        return False
    previous = tokens[at - 1]
    before = tokens[at - 2].key if at > 1 else ""
    key = previous.key if previous.kind in ("word", "other") else ""
    if key == ",":
        return level.in_list
    if key == "(":
        return level.function in _SEQUENCES
    if key == "FROM":
        return level.function not in _TAKES_FROM
    if key == "UPDATE":
        return before not in ("KEY", "ON")
    if key == "FOR":
        return before == "VALUE"
    if key == "LIKE":
        return what == "TABLE" and at < 10
    if key == "TO":
        return what == "TABLE" and tokens[0].key in ("RENAME", "ALTER")
    return key in _TABLES_FOLLOW
