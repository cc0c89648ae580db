"""What kind of statement it is, by its first words and its tokens. Pure.

Dynamic SQL and the inside of quoted bodies cannot be seen here; so the executor also proves its
lock before each statement.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ptahk.migrations.lexing.named import listed
from ptahk.migrations.lexing.tokens import MARKS, Statement, Token
from ptahk.wire import ledgersql, revisionsql

BEGINS: Final = frozenset({"BEGIN", "START"})
ENDS: Final = frozenset({"COMMIT", "END"})
_NOISE: Final = frozenset({"WORK", "TRANSACTION"})
_DML: Final = frozenset(
    {"INSERT", "UPDATE", "DELETE", "REPLACE", "SELECT", "WITH", "SET", "VALUES"}
)
_CHANGES: Final = frozenset(
    {"DROP", "ALTER", "TRUNCATE", "INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "RENAME",
     "COPY", "LOCK", "GRANT", "REVOKE", "COMMENT", "MERGE", "LOAD"}
)  # fmt: skip
_WRITES: Final = frozenset(
    {"INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "INTO", "DROP", "ALTER", "TRUNCATE",
     "RENAME"}
)  # fmt: skip
"""They change rows or tables from within WITH, EXPLAIN, ANALYZE, PREPARE, SELECT or a block too."""
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "default"})
_ASSIGN: Final = frozenset({"=", ":", ":="})
_SCOPES: Final = frozenset({"SESSION", "LOCAL", "GLOBAL", "PERSIST", "PERSIST_ONLY", "STATEMENT"})
_UNCONVERTED: Final = frozenset({"null"})
"""As the results of a query may come; as bytes we could not read our own."""
_BESIDE: Final = frozenset({"LOCK", "UNLOCK", "SAVEPOINT", "RELEASE", "PREPARE", "EXECUTE", "SET"})
"""Heads that count for more than their own statement."""


_LOCKING: Final = {
    True: ("PG_ADVISORY_UNLOCK", "PG_TERMINATE_BACKEND"),
    False: ("RELEASE_LOCK", "RELEASE_ALL_LOCKS", "GET_LOCK"),
}
"""What may give up the lock, by whether it is PostgreSQL; the first there is the beginning of
several names."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a statement may not run, and what lifts it."""

    number: str
    message: str
    allow: str | None = None
    """``-- ptahk:allow NAME`` lifts it."""
    at: int = 0
    """Offset in the file's text."""


def words(statement: Statement, count: int = 6) -> tuple[str, ...]:
    """The first keys, ``HEAD`` at most, punctuation included; ``""`` for literals and quoted
    names."""
    return statement.head[:count]


def code(statement: Statement) -> list[Token]:
    """The tokens without the marks of executable comments."""
    return [token for token in statement.tokens if token.kind not in MARKS]


def opens_transaction(statement: Statement) -> bool:
    """``BEGIN`` or ``START TRANSACTION``."""
    first = words(statement, 3)
    if first[0] == "START":
        return first[1:2] == ("TRANSACTION",)
    return first[0] == "BEGIN" and first[1:2] != ("NOT",)


def closes_transaction(statement: Statement) -> bool:
    """``COMMIT`` or ``END``, without AND CHAIN."""
    first = words(statement, 4)
    rest = [word for word in first[1:] if word not in _NOISE]
    return first[0] in ENDS and not rest


def plain_begin(statement: Statement) -> bool:
    """It opens a transaction and says nothing else about it."""
    rest = [word for word in words(statement, 4)[1:] if word not in _NOISE]
    return opens_transaction(statement) and not rest


def controls_transaction(statement: Statement) -> bool:
    """It begins or ends one; savepoints are another matter."""
    first = words(statement, 4)
    if first[0] in ("COMMIT", "END", "ABORT", "XA"):
        return True
    if first[0] == "ROLLBACK":
        rest = [word for word in first[1:] if word not in _NOISE]
        return rest[:1] != ["TO"]
    if first[:2] == ("PREPARE", "TRANSACTION") or _sets(statement, "AUTOCOMMIT"):
        return True
    return opens_transaction(statement)


def two_phase(statement: Statement) -> bool:
    """PREPARE TRANSACTION, COMMIT PREPARED, XA: outlives every session."""
    first = words(statement, 2)
    return first[0] == "XA" or first in (
        ("PREPARE", "TRANSACTION"), ("COMMIT", "PREPARED"), ("ROLLBACK", "PREPARED"),
    )  # fmt: skip


def locks_tables(statement: Statement) -> bool:
    """MySQL's ``LOCK TABLES``."""
    return words(statement, 2) in (("LOCK", "TABLES"), ("LOCK", "TABLE"))


def unlocks_tables(statement: Statement) -> bool:
    return words(statement, 2) in (("UNLOCK", "TABLES"), ("UNLOCK", "TABLE"))


def inner(statement: Statement) -> Statement | None:
    """What MariaDB's ``SET STATEMENT … FOR`` runs; None: it is no such statement."""
    if words(statement, 2) != ("SET", "STATEMENT"):
        return None
    depth = 0
    tokens = code(statement)
    for place, token in enumerate(tokens[:-1]):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.kind == "word" and token.key == "FOR" and depth == 0:
            return dataclasses.replace(statement, tokens=tuple(tokens[place + 1 :]))
    return None


def data_only(statement: Statement) -> bool:
    """MySQL family: it commits nothing by itself."""
    within = inner(statement)
    if within is not None:
        return data_only(within)
    first = words(statement, 2)
    return first[0] in _DML and not _sets(
        statement, "PASSWORD", "GLOBAL", "PERSIST", "PERSIST_ONLY", "ROLE"
    )


def alone_on_postgresql(statement: Statement) -> str | None:
    """What cannot run in a transaction block on PostgreSQL, in its words; else None."""
    first = words(statement, 8)
    rest = first[1:]
    match first[0]:
        case "CREATE" | "DROP":
            if rest[:1] in (("DATABASE",), ("TABLESPACE",), ("SUBSCRIPTION",)):
                return f"{first[0]} {rest[0]}"
            index = rest[:1] == ("INDEX",) or rest[:2] == ("UNIQUE", "INDEX")
            return f"{first[0]} INDEX CONCURRENTLY" if index and "CONCURRENTLY" in rest else None
        case "REINDEX":
            return _reindex(statement)
        case "VACUUM":
            return "VACUUM"
        case "CLUSTER":
            return _cluster(statement)
        case "ALTER":
            if rest[:1] == ("SYSTEM",):
                return "ALTER SYSTEM"
            keys = {token.key for token in statement.tokens if token.kind == "word"}
            if rest[:1] == ("DATABASE",) and "TABLESPACE" in keys:
                return "ALTER DATABASE SET TABLESPACE"
            detach = "DETACH" in keys and "CONCURRENTLY" in keys
            return "DETACH PARTITION CONCURRENTLY" if detach else None
        case "DISCARD":
            return "DISCARD ALL" if rest[:1] == ("ALL",) else None
        case "COMMIT" | "ROLLBACK":
            return f"{first[0]} PREPARED" if rest[:1] == ("PREPARED",) else None
    return None


def _reindex(statement: Statement) -> str | None:
    for token in _outside(statement)[1:]:
        if token.key in ("SCHEMA", "DATABASE", "SYSTEM", "CONCURRENTLY"):
            return f"REINDEX {token.key}"
        if token.key not in ("INDEX", "TABLE"):
            return None
    return None


def _cluster(statement: Statement) -> str | None:
    named = [token for token in _outside(statement)[1:] if token.key != "VERBOSE"]
    return None if named else "CLUSTER of all tables"


def _outside(statement: Statement) -> list[Token]:
    """The tokens outside parentheses."""
    out, depth = [], 0
    for token in code(statement):
        if token.kind == "other" and token.text in "()":
            depth += 1 if token.text == "(" else -1
        elif depth == 0:
            out.append(token)
    return out


def may_commit_inside(statement: Statement) -> bool:
    """PostgreSQL: CALL and DO may commit, which fails within a block."""
    return words(statement, 1)[0] in ("CALL", "DO")


def objections(statement: Statement, postgresql: bool) -> Iterator[Objection]:
    """Everything of section 5.3 but transaction control.

    A name is looked for among the tokens only where its letters are in the text at all.
    """
    yield from _locks(statement, postgresql)
    yield from _targets(statement, postgresql)
    yield from _blinds(statement, postgresql)
    yield from _own_tables(statement, postgresql)
    within = None if postgresql else inner(statement)
    if within is not None:
        head = words(within, 1)[0]
        if controls_transaction(within) or two_phase(within) or head in _BESIDE:
            yield Objection("MG402", f"{head} within SET STATEMENT", at=within.tokens[0].at)
        yield from objections(within, postgresql)


def _locks(statement: Statement, postgresql: bool) -> Iterator[Objection]:
    first = words(statement, 2)
    if first == ("DISCARD", "ALL") or first == ("RESET", "CONNECTION"):
        yield Objection("MG403", f"{' '.join(first)} gives up the lock", at=statement.start)
    if first[0] in ("KILL", "SHUTDOWN", "RESTART") and not postgresql:
        yield Objection("MG403", f"{first[0]} ends sessions", at=statement.start)
    text = statement.text.upper()
    if not any(name in text for name in _LOCKING[postgresql]):
        return
    for token in statement.tokens:
        key = token.key if token.kind in ("word", "name") else ""
        name = key.upper()
        if postgresql:
            bad = name.startswith(_LOCKING[True][0]) or name == _LOCKING[True][1]
        else:
            bad = name in _LOCKING[False]
        if bad:
            yield Objection("MG403", f"{token.text} may give up the lock", at=token.at)


def _targets(statement: Statement, postgresql: bool) -> Iterator[Objection]:
    first = words(statement, 2)
    if first[0] == "USE" and not postgresql:
        yield Objection("MG404", "USE changes the database", at=statement.start)
    nouns = ("DATABASE",) if postgresql else ("DATABASE", "SCHEMA")
    if first[0] in ("CREATE", "DROP") and first[1:2] and first[1] in nouns:
        yield Objection("MG404", f"{' '.join(first)} is not about this database", "database",
                        statement.start)  # fmt: skip


def _sets(statement: Statement, *names: str) -> bool:
    """``SET [SESSION|LOCAL|@@…] name``, anywhere in a list of settings."""
    if words(statement, 1)[0] != "SET":
        return False
    return any(name in names for token in statement.tokens for name in _setting_words(token))


def _setting_words(token: Token) -> tuple[str, ...]:
    """Scope and name as far as a token says them: ``name``, ```name```, ``@@SESSION.name``."""
    if token.is_name:
        return (token.key.upper(),)
    if token.kind == "variable" and token.text.startswith("@@"):
        return tuple(token.text[2:].upper().split("."))
    return ()


def _blinds(statement: Statement, postgresql: bool) -> Iterator[Objection]:
    first = words(statement, 4)
    at = statement.start
    if postgresql:
        yield from _blinds_postgresql(statement, first, at)
    else:
        yield from _blinds_mysql(statement, first, at)


def _blinds_postgresql(
    statement: Statement, first: tuple[str, ...], at: int
) -> Iterator[Objection]:
    if first[:2] == ("ALTER", "SYSTEM"):
        yield Objection("MG405", "ALTER SYSTEM is about the whole server", "global", at)
    if _mentions(statement, "session_replication_role"):
        yield Objection(
            "MG406", "session_replication_role switches triggers and foreign keys off",
            "replication-role", at,
        )  # fmt: skip
    if (
        _mentions(statement, "default_transaction_read_only")
        or _mentions(statement, "transaction_read_only")
        or _reads_only(statement)
    ):
        yield Objection("MG406", "a read-only session cannot record what it did", at=at)
    if _mentions(statement, "standard_conforming_strings"):
        yield Objection("MG409", "standard_conforming_strings changes how strings end", at=at)
    if first[0] == "COPY":
        kinds = {(token.kind, token.key) for token in statement.tokens}
        outside = _outside(statement)
        target = next(
            (after for before, after in itertools.pairwise(outside)
             if before.key in ("FROM", "TO") and before.kind == "word"), None,
        )  # fmt: skip
        if ("word", "PROGRAM") in kinds or (target is not None and target.key == ""):
            yield Objection("MG407", "COPY with a file or a program of the server", "program", at)
        elif target is not None and target.key == "STDOUT":
            yield Objection("MG407", "COPY … TO stdout has nobody to read it", at=at)


def _blinds_mysql(statement: Statement, first: tuple[str, ...], at: int) -> Iterator[Objection]:
    if _sets(statement, "SQL_LOG_BIN"):
        yield Objection("MG406", "sql_log_bin hides the change from replicas", at=at)
    if _sets(statement, "GLOBAL", "PERSIST", "PERSIST_ONLY"):
        yield Objection("MG405", "a setting of the whole server", "global", at)
    if first[0] in ("INSTALL", "UNINSTALL"):
        yield Objection("MG405", f"{first[0]} is about the whole server", "global", at)
    if first[0] == "FLUSH":
        keys = [token.key for token in code(statement) if token.kind == "word"]
        for pair in itertools.pairwise(keys):
            if pair in (("READ", "LOCK"), ("FOR", "EXPORT")):
                yield Objection("MG406", f"FLUSH … {' '.join(pair)} stops every write", at=at)
    if _reads_only(statement) or _sets(statement, "TRANSACTION_READ_ONLY", "TX_READ_ONLY"):
        yield Objection("MG406", "a read-only session cannot record what it did", at=at)
    if first[:2] == ("LOAD", "DATA") or first[:2] == ("LOAD", "XML"):
        yield Objection("MG407", "LOAD reads a file", "program", at)
    if "FILE" in statement.text.upper():
        tokens = code(statement)
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            file = token.key in ("OUTFILE", "DUMPFILE") and after.kind in ("plain", "double")
            if before.key == "INTO" and file:
                text = f"INTO {token.key} writes a file of the server"
                yield Objection("MG407", text, "program", token.at)
    if _sets(statement, "SQL_MODE"):
        text = statement.text.upper()
        for word in ("ANSI", "NO_BACKSLASH_ESCAPES", "ORACLE", "DB2", "MSSQL", "POSTGRESQL"):
            if word in text:
                yield Objection("MG409", f"sql_mode {word} changes how SQL is read", at=at)
                break
    for name, value in _charsets(statement):
        may_be = {"utf8mb4", "default"} if name.startswith("SET ") else _UTF8
        if name == "character_set_results":
            may_be |= _UNCONVERTED
        if value not in may_be:
            yield Objection("MG409", f"{name} {value}: the session speaks utf8mb4", at=at)


def _charsets(statement: Statement) -> Iterator[tuple[str, str]]:
    """What a SET makes of the character set that its session's text is in: (setting, value).

    A value that is a variable is left to the session, where it is asked after the statement.
    """
    tokens = code(statement)
    if tokens[0].key != "SET":
        return
    for assigned in _assigned(tokens[1:]):
        name = (_setting_words(assigned[0]) or ("",))[-1].lower()
        after = [token for token in assigned[1:] if token.text not in _ASSIGN]
        if not after:
            continue
        if name in ("names", "charset"):
            yield "SET NAMES", _value(after[0])
        elif name == "character" and after[0].key == "SET" and len(after) > 1:
            yield "SET CHARACTER SET", _value(after[1])
        elif (
            name in ("character_set_client", "character_set_results")
            and after[0].kind != "variable"
        ):
            yield name, _value(after[0])


def _assigned(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Each assignment of a SET, from the token that names what is set."""
    for part in listed(tokens):
        while len(part) > 1 and (part[0].key in _SCOPES or _is_scope(part[0], part[1])):
            part = part[1:]
        if part:
            yield part


def _is_scope(token: Token, following: Token) -> bool:
    """``@@``, ``@@SESSION`` or ``.`` before a name in quotes."""
    before = token.text.upper()
    return following.kind != "other" and (
        before == "." or before == "@@" or before.rstrip(".") in ("@@SESSION", "@@LOCAL")
    )


def _value(token: Token) -> str:
    return token.called.strip("'\"").lower()


def _mentions(statement: Statement, setting: str) -> bool:
    """``SET setting``, or set_config with its name."""
    if words(statement, 1)[0] in ("SET", "RESET"):
        return any(token.key.lower() == setting for token in statement.tokens[:4])
    if "SET_CONFIG" not in statement.text.upper():
        return False
    quoted = f"'{setting}'"
    tokens = statement.tokens
    named = any(token.key == "SET_CONFIG" for token in tokens if token.kind == "word")
    return named and any(token.text.lower() == quoted for token in tokens)


def _reads_only(statement: Statement) -> bool:
    """``SET … READ ONLY``, or a transaction that begins so."""
    keys = [token.key for token in statement.tokens if token.kind == "word"]
    if not keys or keys[0] not in ("SET", *BEGINS):
        return False
    return ("READ", "ONLY") in set(itertools.pairwise(keys))


def _own_tables(statement: Statement, postgresql: bool) -> Iterator[Objection]:
    if "ptahk" not in statement.text.lower() or not _may_change(statement):
        return
    tokens = code(statement)
    schemas = words(statement, 2) in (("DROP", "SCHEMA"), ("ALTER", "SCHEMA"))
    owner = next((at + 2 for at, token in enumerate(tokens) if token.key == "OWNER"), 0)
    for place, (before, token, after) in enumerate(
        zip(tokens, tokens[1:], [*tokens[2:], None], strict=False), start=1
    ):
        name = token.key.lower() if token.kind in ("word", "name") else ""
        if postgresql:
            owned = name == "ptahk" and (
                (schemas and place != owner)
                or (after is not None and after.text == ".")
                or before.key == "SCHEMA"
            )
        else:
            owned = name in (*revisionsql.MYSQL_TABLES, *ledgersql.MYSQL_TABLES)
        if owned:
            yield Objection("MG408", f"{token.text} is ptahk's own record", at=token.at)
            return


def _may_change(statement: Statement) -> bool:
    """By its first word, or by one within it that is no function, no lock and no variable's."""
    if words(statement, 1)[0] in _CHANGES:
        return True
    tokens = code(statement)
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.kind != "word" or token.key not in _WRITES or after.text == "(":
            continue
        if before.key not in ("FOR", "KEY") and after.kind != "variable":
            return True
    return False
