"""For which objects a declaration states owner or privileges (C-10.6).

Only these are compared under ``policy.privileges: Declared``. A statement's own words say so; the
names in it are resolved by the search path that was in force where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ptahk.executor.dialects.postgres.declared import qualified_name
from ptahk.executor.dialects.postgres.lexer import Statement, Token
from ptahk.executor.planning.model import ObjectId, Query

Attribute = Literal["owner", "acl"]

_ROUTINES: Final = frozenset({"FUNCTION", "PROCEDURE", "ROUTINE", "AGGREGATE"})
_PLURALS: Final = frozenset({"TABLES", "SEQUENCES", "FUNCTIONS", "PROCEDURES", "ROUTINES"})
_TWO_WORDS: Final = frozenset({"MATERIALIZED", "FOREIGN", "EVENT", "LARGE", "TEXT"})
_ROUTINE_KINDS: Final = frozenset({"function", "procedure", "aggregate"})
_TYPE_KINDS: Final = frozenset({"enum", "domain", "composite", "range", "type", "base type"})


@dataclass(frozen=True, slots=True)
class Mention:
    """One object that a statement states something for."""

    attribute: Attribute
    what: str
    """The statement's keyword: TABLE, FUNCTION, SCHEMA, TYPE, …; plurals mean all of a schema."""
    name: tuple[str, ...]
    arguments: str | None
    """The text between a routine's parentheses."""
    columns: tuple[str, ...]
    path: tuple[str, ...]
    role: str | None
    """The owner that is stated, as written."""
    statement: Statement


def mentions(statement: Statement, path: tuple[str, ...]) -> list[Mention]:
    """What a statement states, if anything; empty for all that states nothing.

    :param path: schemas of the search path in force.
    """
    head = statement.words(1)[0]
    if head == "ALTER":
        return _owner(statement, path)
    if head in ("GRANT", "REVOKE"):
        return _grant(statement, path)
    if head == "CREATE" and statement.words(2)[1:] == ("SCHEMA",):
        return _authorization(statement, path)
    return []


def _keys(tokens: Sequence[Token]) -> list[str]:
    return [token.key if token.kind == "word" else "" for token in tokens]


def _owner(statement: Statement, path: tuple[str, ...]) -> list[Mention]:
    tokens, keys = statement.tokens, _keys(statement.tokens)
    if len(keys) < 5 or keys[-3:-1] != ["OWNER", "TO"]:
        return []
    what, index = _what(keys, 1)
    while keys[index] in ("IF", "EXISTS", "ONLY"):
        index += 1
    name, index = qualified_name(tokens, index)
    arguments = _arguments(statement, index) if what in _ROUTINES else None
    last = tokens[-1]
    role = last.text.lower() if last.kind == "word" else last.key
    return [Mention("owner", what, name, arguments, (), path, role, statement)] if name else []


def _authorization(statement: Statement, path: tuple[str, ...]) -> list[Mention]:
    tokens, keys = statement.tokens, _keys(statement.tokens)
    if "AUTHORIZATION" not in keys:
        return []
    at = keys.index("AUTHORIZATION")
    role, _ = qualified_name(tokens, at + 1)
    start = 5 if keys[2:5] == ["IF", "NOT", "EXISTS"] else 2
    name, _ = qualified_name(tokens, start) if start < at else (role, 0)
    if not (role and name):
        return []
    return [Mention("owner", "SCHEMA", name, None, (), path, role[0], statement)]


def _grant(statement: Statement, path: tuple[str, ...]) -> list[Mention]:
    tokens, keys = statement.tokens, _keys(statement.tokens)
    end = "TO" if keys[0] == "GRANT" else "FROM"
    if "ON" not in keys or end not in keys:
        return []
    on, stop = keys.index("ON"), len(keys) - 1 - keys[::-1].index(end)
    columns = _columns(tokens[1:on])
    what, index = _what(keys, on + 1)
    if keys[on + 1] == "ALL" and keys[on + 3 : on + 5] == ["IN", "SCHEMA"]:
        what, index = keys[on + 2], on + 5
    out: list[Mention] = []
    while index < stop:
        name, after = qualified_name(tokens, index)
        if not name:
            break
        arguments = _arguments(statement, after) if what in _ROUTINES else None
        out.append(Mention("acl", what, name, arguments, columns, path, None, statement))
        index = _after_comma(tokens, after, stop)
    return out


def _what(keys: Sequence[str], index: int) -> tuple[str, int]:
    """The keyword of the object's kind; without any it is a table's name."""
    word = keys[index]
    if word in _TWO_WORDS:
        return keys[index + 1], index + 2
    known = _ROUTINES | {"TABLE", "VIEW", "SEQUENCE", "SCHEMA", "TYPE", "DOMAIN", "INDEX",
                         "LANGUAGE", "COLLATION", "CONVERSION", "OPERATOR", "STATISTICS",
                         "PUBLICATION", "PROCEDURAL"}  # fmt: skip
    return (word, index + 1) if word in known else ("TABLE", index)


def _columns(tokens: Sequence[Token]) -> tuple[str, ...]:
    depth, out = 0, []
    for token in tokens:
        if token.key == "(":
            depth += 1
        elif token.key == ")":
            depth -= 1
        elif depth and token.kind in ("word", "name"):
            out.append(token.text.lower() if token.kind == "word" else token.key)
    return tuple(out)


def _arguments(statement: Statement, index: int) -> str | None:
    """The text of a routine's argument list that starts at ``index``; None without one."""
    tokens = statement.tokens
    if index >= len(tokens) or tokens[index].key != "(":
        return None
    out: list[str] = []
    depth = 0
    for token in tokens[index:]:
        depth += {"(": 1, ")": -1}.get(token.key, 0)
        if depth == 0:
            break
        out.append(token.text)
    joined = " ".join(out[1:])
    return joined.replace(" . ", ".").replace(" ,", ",")


def _after_comma(tokens: Sequence[Token], index: int, stop: int) -> int:
    depth = 0
    for at in range(index, stop):
        depth += {"(": 1, ")": -1}.get(tokens[at].key, 0)
        if depth == 0 and tokens[at].key == ",":
            return at + 1
    return stop


def resolve(
    found: Iterable[Mention], objects: Mapping[ObjectId, Any], query: Query
) -> list[tuple[Mention, ObjectId]]:
    """The objects that the mentions mean.

    :param query: on the scratch session, for the spelling of routines' argument types.
    """
    by_name: dict[tuple[str, str], list[ObjectId]] = {}
    schemas: dict[str, list[ObjectId]] = {}
    for oid in objects:
        if len(oid.name) >= 2:
            by_name.setdefault((oid.name[0], oid.name[1]), []).append(oid)
        if oid.name:
            schemas.setdefault(oid.name[0], []).append(oid)
    out = []
    for mention in found:
        for oid in _matches(mention, by_name, schemas, query):
            out.append((mention, oid))
    return out


def _matches(
    mention: Mention,
    by_name: Mapping[tuple[str, str], list[ObjectId]],
    schemas: Mapping[str, list[ObjectId]],
    query: Query,
) -> list[ObjectId]:
    what = mention.what
    if what == "SCHEMA":
        return [oid for oid in schemas.get(mention.name[0], []) if oid.kind == "schema"]
    if what in _PLURALS:
        return [oid for oid in schemas.get(mention.name[-1], []) if _fits(oid, what.rstrip("S"))]
    if len(mention.name) >= 2:
        places: Sequence[str] = (mention.name[-2],)
    else:
        places = mention.path
    for schema in places:
        candidates = by_name.get((schema, mention.name[-1]), [])
        if mention.columns:
            columns = [
                oid for oid in candidates if oid.kind == "column" and oid.name[2] in mention.columns
            ]
            if columns:
                return columns
        fitting = [oid for oid in candidates if _fits(oid, what)]
        if fitting:
            return _overloads(fitting, mention, schema, query) if what in _ROUTINES else fitting
    return []


def _fits(oid: ObjectId, what: str) -> bool:
    if what in _ROUTINES:
        return oid.kind in _ROUTINE_KINDS
    if what in ("TYPE", "DOMAIN"):
        return len(oid.name) == 2 and oid.kind in _TYPE_KINDS
    if what in ("TABLE", "VIEW", "SEQUENCE", "INDEX"):
        return len(oid.name) == 2 and oid.kind not in _TYPE_KINDS | {"operator", "collation"}
    return oid.kind == what.lower()


def _overloads(
    candidates: list[ObjectId], mention: Mention, schema: str, query: Query
) -> list[ObjectId]:
    if len(candidates) == 1 or mention.arguments is None:
        return candidates
    types = ", ".join(_types_only(mention.arguments))
    rows = query(
        "SELECT coalesce(pg_get_function_identity_arguments(p.oid), '')"
        " FROM pg_catalog.pg_proc p WHERE p.oid = to_regprocedure(%s)",
        (f'"{schema}"."{mention.name[-1]}"({types})',),
    )
    if not rows:
        return candidates
    exact = [oid for oid in candidates if oid.name[-1] == rows[0][0]]
    return exact or candidates


def _types_only(arguments: str) -> list[str]:
    """The types of an argument list, without modes and names: what ``regprocedure`` reads."""
    out = []
    for item in arguments.split(","):
        words = item.split()
        if words[:1] and words[0].upper() == "OUT":
            continue
        if words[:1] and words[0].upper() in ("IN", "INOUT", "VARIADIC"):
            words = words[1:]
        named = len(words) == 2 and words[0].lower() not in ("double", "character", "bit", "time")
        out.append(" ".join(words[1:] if named else words))
    return [text for text in out if text]
