"""What a statement of MySQL or MariaDB may leave behind, in the database and in its session. Pure.

These servers commit most statements by themselves. What became of one that failed, or whose end
nobody saw, is told by what kind of statement it is and by the definition of the one object that it
is about (C-11.13, C-11.14).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from ptahk.migrations import words
from ptahk.migrations.lexing.named import name_at, object_at
from ptahk.migrations.lexing.tokens import Statement, Token

_DEFINED: Final = frozenset({"CREATE", "ALTER", "DROP", "RENAME"})
_ATOMIC: Final = _DEFINED | {"TRUNCATE", "GRANT", "REVOKE"}
_HARMLESS: Final = frozenset(
    {"SHOW", "EXPLAIN", "DESCRIBE", "DESC", "CHECKSUM", "FLUSH", "LOCK", "UNLOCK", "DEALLOCATE",
     "PREPARE", "HELP"}
)  # fmt: skip
"""They change nothing that anybody keeps."""
_RUNS_CODE: Final = frozenset({"CALL", "EXECUTE", "DO", "BEGIN"})
_MOVES_ROWS: Final = frozenset({"TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT"})
"""``ALTER TABLE`` with these changes rows, and no definition."""
_UNREPEATABLE: Final = frozenset({"PREPARE", "HANDLER", "EXECUTE"})
SYNTAX_ERROR: Final = 1064
"""The server's number; nothing of the statement ran."""


def object_of(statement: Statement, database: str) -> str:
    """The one object whose definition tells whether the statement took effect, as ``kind name``.

    :param database: the target's name; an object of another one tells nothing here.
    :returns: ``""`` where no definition tells.
    """
    tokens = words.code(statement)
    head = tokens[0].key if tokens[0].kind == "word" else ""
    if head not in _DEFINED:
        return ""
    place = 1 if head == "RENAME" else object_at(tokens)
    if place is None or place >= len(tokens) or _tells_nothing(tokens, head, place):
        return ""
    kind = tokens[place].key.rstrip("S") if head == "RENAME" else tokens[place].key
    if kind == "INDEX":
        on = next((n for n, each in enumerate(tokens) if n > place and each.key == "ON"), None)
        if on is None:
            return ""
        kind, place = "TABLE", on
    if kind not in ("TABLE", "VIEW", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "SEQUENCE"):
        return ""
    name = _own_name(tokens, name_at(tokens, place), database)
    return f"{kind.lower()} {name}" if name else ""


def _tells_nothing(tokens: Sequence[Token], head: str, place: int) -> bool:
    keys = {token.key for token in tokens if token.kind == "word"}
    kind = tokens[place].key
    if head in ("DROP", "RENAME"):
        return _several(tokens, place)
    if head == "CREATE":
        return tokens[1].key == "OR" and kind in ("TABLE", "SEQUENCE")
    return kind == "SEQUENCE" or (kind == "TABLE" and bool(keys & _MOVES_ROWS))


def _several(tokens: Sequence[Token], place: int) -> bool:
    """A list of objects stands there."""
    return any(token.key == "," for token in tokens[place:])


def _own_name(tokens: Sequence[Token], at: int, database: str) -> str:
    """The name that begins there, unless it is another database's."""
    if at >= len(tokens) or not tokens[at].is_name:
        return ""
    if at + 2 < len(tokens) and tokens[at + 1].key == "." and tokens[at + 2].is_name:
        return tokens[at + 2].called if tokens[at].called == database else ""
    return tokens[at].called


def proves_nothing_done(statement: Statement, code: int, *, mariadb: bool) -> bool:
    """Whether the server's error says by itself that a statement which commits took no effect.

    MySQL's DDL is atomic over all the objects that a statement names; MariaDB's over one.

    :param code: the server's number.
    """
    tokens = words.code(statement)
    head = tokens[0].key
    if head in _RUNS_CODE:
        return False
    if code == SYNTAX_ERROR or head in _HARMLESS:
        return True
    if head == "ANALYZE":  # MariaDB's also runs what it explains
        return tokens[1].key in ("TABLE", "LOCAL", "NO_WRITE_TO_BINLOG")
    if head not in _ATOMIC:
        return False
    return not mariadb or _one_object(tokens, head)


def _one_object(tokens: Sequence[Token], head: str) -> bool:
    keys = [token.key for token in tokens]
    if head in ("GRANT", "REVOKE"):
        to = "TO" if head == "GRANT" else "FROM"
        return to in keys and "," not in keys[keys.index(to) :]
    if head == "TRUNCATE":
        return "," not in keys
    place = 1 if head == "RENAME" else object_at(tokens)
    if place is None:
        return False
    accounts = keys[place] in ("USER", "ROLE")
    if head in ("DROP", "RENAME") or accounts:
        return not _several(tokens, place)
    return not (head == "CREATE" and keys[1] == "OR" and keys[place] in ("TABLE", "SEQUENCE"))


def may_define_tables(statement: Statement) -> bool:
    """After it another storage engine may be in the database."""
    return words.words(words.inner(statement) or statement, 1)[0] in _DEFINED | _RUNS_CODE


def leftovers(statements: Sequence[Statement]) -> list[str]:
    """What takes away that statements left in their session, but for its settings."""
    out: dict[str, None] = {}
    for statement in statements:
        tokens = words.code(statement)
        for name in _user_variables(tokens):
            out[f"SET {name} = NULL"] = None
        keys = [token.key for token in tokens[:4]]
        if keys[:1] == ["PREPARE"] and len(tokens) > 1:
            out[f"DEALLOCATE PREPARE {tokens[1].text}"] = None
        if keys[:1] == ["CREATE"] and "TEMPORARY" in keys and (place := object_at(tokens)):
            at = name_at(tokens, place)
            dotted = at + 2 < len(tokens) and tokens[at + 1].key == "."
            name = "".join(token.text for token in tokens[at : at + (3 if dotted else 1)])
            out[f"DROP TEMPORARY TABLE IF EXISTS {name}"] = None
    return list(out)


def _user_variables(tokens: Sequence[Token]) -> Iterator[str]:
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.kind != "variable" or token.text.startswith("@@"):
            continue
        if before is not None and before.end == token.at and before.kind != "other":
            continue  # user@host
        if token.text != "@":
            yield token.text
        elif after is not None and after.kind in ("name", "plain", "double"):
            yield "@" + after.text


def unrepeatable(statement: Statement) -> str | None:
    """What a resume cannot make again of what an applied statement left in its session, in the
    statement's own words; None: nothing of the kind."""
    tokens = words.code(statement)
    keys = [token.key for token in tokens]
    temporary = keys[0] == "CREATE" and "TEMPORARY" in keys[:4]
    computed = keys[0] == "SET" and ("(" in keys or "SELECT" in keys)
    assigns = keys[0] != "SET" and (":=" in keys or _into_variable(tokens))
    if keys[0] in _UNREPEATABLE or temporary or computed or assigns:
        return " ".join(token.text for token in tokens[:4])
    return None


def _into_variable(tokens: Sequence[Token]) -> bool:
    return any(
        before.key == "INTO" and after.kind == "variable"
        for before, after in itertools.pairwise(tokens)
    )


def sets_session(statement: Statement) -> bool:
    """A setting that a resume makes again."""
    return words.words(statement, 1)[0] == "SET"
