"""Which object a statement of MySQL or MariaDB is about, by its first tokens. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ptahk.migrations.lexing.tokens import Token

OBJECTS: Final = frozenset(
    {"TABLE", "VIEW", "INDEX", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "SEQUENCE"}
)
DATABASE: Final = frozenset({"DATABASE", "SCHEMA"})
_OTHERS: Final = frozenset({"USER", "ROLE", "SERVER", "TABLESPACE", "PACKAGE"})
_BEFORE_OBJECT: Final = 24
"""Tokens that may stand between CREATE and what it creates."""


def object_at(tokens: Sequence[Token]) -> int | None:
    """Where the statement says what kind of object it is about."""
    skip = 0
    for place, token in enumerate(tokens[1:_BEFORE_OBJECT], start=1):
        if token.key == "DEFINER" and place + 1 < len(tokens) and tokens[place + 1].key == "=":
            skip = place + 2  # the account may be called like a kind
        if place > skip and token.kind == "word" and token.key in OBJECTS | DATABASE:
            return place
        if place > skip and token.key in _OTHERS:
            return place
    return None


def name_at(tokens: Sequence[Token], place: int) -> int:
    """Where the name begins, its database included; may be past the end.

    :param place: of the kind, or of ``ON``.
    """
    at = place + 1
    while at < len(tokens) and tokens[at].key in ("IF", "NOT", "EXISTS"):
        at += 1
    return at


def name_after(tokens: Sequence[Token], place: int) -> str:
    """The name without its database; empty where there is none."""
    at = name_at(tokens, place)
    if at + 2 < len(tokens) and tokens[at + 1].key == ".":
        at += 2
    return tokens[at].called if at < len(tokens) else ""


def listed(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """What commas outside parentheses separate; an item may be empty."""
    depth = start = 0
    for place, token in enumerate(tokens):
        key = "" if token.kind == "name" else token.key
        depth += {"(": 1, ")": -1}.get(key, 0)
        if key == "," and depth == 0:
            yield tokens[start:place]
            start = place + 1
    yield tokens[start:]
