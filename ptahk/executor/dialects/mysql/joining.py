"""``CREATE TABLE`` with the indexes that follow it as one statement, for a load into scratch. Pure.

A server waits for its disk some six times a statement. ``CREATE INDEX`` right behind its table says
what an index among the table's definitions says, and the server keeps the same of either (tested on
both makes by ``SHOW CREATE TABLE``). Whatever is not plainly that is sent as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.errors import UsageError
from ptahk.executor.dialects.mysql.declared import Prepared
from ptahk.executor.dialects.mysql.lexer import Token
from ptahk.migrations.lexing.named import listed

_NOT_BEHIND: Final = frozenset(
    {"AS", "IGNORE", "LIKE", "PARTITION", "REPLACE", "SELECT", "TABLE", "VALUES", "WITH"}
)
"""Behind the definitions of a table: it gets rows or columns from elsewhere, or its keys are
judged by what stands there."""
_EXECUTABLE: Final = ("/*!", "/*M!")
"""Code that not every server sees: a place in the text is no place in the statement then."""
_KEYS: Final = frozenset({"KEY", "PRIMARY", "UNIQUE"})


@dataclass(frozen=True, slots=True)
class Batch:
    """What is sent at once."""

    sql: str
    parts: tuple[Prepared, ...]
    """The statements that it stands for, in order."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that takes indexes."""

    name: str
    head: str
    """Its statement up to the end of its definitions."""
    tail: str


def joined(statements: Iterator[Prepared]) -> Iterator[Batch]:
    """The statements as they are sent.

    :raises UsageError: of the statements; after all that stands before it was given out.
    """
    parts: list[Prepared] = []
    indexes: list[str] = []
    table: _Table | None = None
    while True:
        try:
            each = next(statements, None)
        except UsageError:
            if parts:
                yield _batch(parts, table, indexes)
            raise
        index = _index_of(each, table)
        if each is not None and index:
            parts.append(each)
            indexes.append(index)
            continue
        if parts:
            yield _batch(parts, table, indexes)
        if each is None:
            return
        parts, indexes, table = [each], [], _table(each)


def _batch(parts: Sequence[Prepared], table: _Table | None, indexes: Sequence[str]) -> Batch:
    if table is None or not indexes:
        return Batch(parts[0].sql, tuple(parts))
    return Batch(", ".join([table.head, *indexes]) + table.tail, tuple(parts))


def _is_plain(prepared: Prepared) -> bool:
    """Whether what is sent is the text that its tokens are of."""
    source = prepared.source
    return prepared.sql == source.text and not any(mark in source.text for mark in _EXECUTABLE)


def _words(tokens: Sequence[Token]) -> list[str]:
    """The keys of what is no name in quotes."""
    return [token.key if token.kind != "name" else "" for token in tokens]


def _table(prepared: Prepared) -> _Table | None:
    """The table that it creates, where that takes the indexes behind it; else None."""
    tokens = prepared.source.tokens
    words = _words(tokens)
    if words[:2] != ["CREATE", "TABLE"] or len(tokens) < 6 or words[3] != "(":
        return None
    if not tokens[2].is_name or not _is_plain(prepared):
        return None
    end = _closes(words, 3)
    parts = list(listed(tokens[4:end]))
    if not _NOT_BEHIND.isdisjoint(words[end:]) or not all(_is_part(each) for each in parts):
        return None
    name = tokens[2].called
    if _wants_a_key(parts) or _refers_to(tokens, name):
        return None
    place = tokens[end].at - prepared.source.start
    return _Table(name, prepared.sql[:place], prepared.sql[place:])


def _closes(words: Sequence[str], start: int) -> int:
    """Where the parenthesis that opens there is closed; the last place where it is not."""
    depth = 0
    for place in range(start, len(words)):
        depth += {"(": 1, ")": -1}.get(words[place], 0)
        if depth == 0:
            return place
    return len(words) - 1


def _is_part(tokens: Sequence[Token]) -> bool:
    """Whether it is a definition of one, not another way to say what the table is like."""
    return len(tokens) > 1 and _words(tokens)[0] not in ("LIKE", "SELECT", "VALUES", "WITH", "(")


def _wants_a_key(parts: Sequence[Sequence[Token]]) -> bool:
    """Whether it counts by a column without a key of its own: the server refuses the table
    alone, and would take it with the index."""
    keyed = {_first_of_key(part) for part in parts}
    return any(
        "AUTO_INCREMENT" in _words(part)
        and _KEYS.isdisjoint(_words(part))
        and part[0].called.lower() not in keyed
        for part in parts
    )


def _first_of_key(part: Sequence[Token]) -> str:
    """The column that a key among the definitions begins with, folded; empty: it is no key."""
    words = _words(part)
    if words[0] != "CONSTRAINT" and words[0] not in _KEYS and words[0] != "INDEX":
        return ""
    if "FOREIGN" in words or "(" not in words:
        return ""
    return part[words.index("(") + 1].called.lower()


def _refers_to(tokens: Sequence[Token], name: str) -> bool:
    """Whether a foreign key of its own references it: the key may need an index behind it."""
    words = _words(tokens)
    return any(
        word == "REFERENCES" and place + 1 < len(tokens)
        and tokens[place + 1].called.lower() == name.lower()
        for place, word in enumerate(words)
    )  # fmt: skip


def _index_of(prepared: Prepared | None, table: _Table | None) -> str:
    """The index as one of the table's definitions; empty where it is no such index."""
    if prepared is None or table is None:
        return ""
    tokens = prepared.source.tokens
    words = _words(tokens)
    unique = words[1:2] == ["UNIQUE"]
    at = 2 if unique else 1
    if words[0] != "CREATE" or words[at : at + 1] != ["INDEX"] or len(tokens) < at + 7:
        return ""
    name, whose = tokens[at + 1], tokens[at + 3]
    if words[at + 2] != "ON" or words[at + 4] != "(" or _closes(words, at + 4) != len(words) - 1:
        return ""
    if words[-1] != ")" or not name.is_name or whose.called != table.name:
        return ""
    if not _is_plain(prepared):
        return ""
    base = prepared.source.start
    columns = prepared.sql[tokens[at + 4].at - base : tokens[-1].end - base]
    return f"{'UNIQUE ' if unique else ''}INDEX {name.text} {columns}"
