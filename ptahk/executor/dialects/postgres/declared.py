"""What a declaration's statement is: to run, to leave out, or to refuse by its line. Pure.

The scratch database shares its cluster with real ones, so whatever reaches beyond one database is
refused here, before it is sent (planner.md, "Where the scratch database comes from").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ptahk.errors import UsageError
from ptahk.executor.dialects.postgres.lexer import Statement, Token, syntax_error
from ptahk.migrations.words import objections

Verdict = Literal["run", "skip", "data"]

_DATA: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "WITH"})
_SKIPPED: Final = frozenset(
    {"BEGIN", "COMMIT", "END", "START", "ANALYZE", "VACUUM", "REFRESH", "REINDEX", "CLUSTER"}
)
"""Transaction control says nothing about the schema, nor does maintenance."""
_REFUSED: Final[dict[str, str]] = {
    "COPY": "it reads or writes data or files",
    "LOAD": "it loads a library into the server",
    "CALL": "it runs a procedure",
    "IMPORT": "it reaches another server",
    "REASSIGN": "it changes objects that the declaration does not name",
    "CHECKPOINT": "it acts on the whole cluster",
    **dict.fromkeys(("LISTEN", "NOTIFY", "UNLISTEN"), "it sends messages"),
    **dict.fromkeys(("ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"), "it undoes statements"),
    **dict.fromkeys(
        ("PREPARE", "EXECUTE", "DEALLOCATE", "DECLARE", "FETCH", "MOVE", "CLOSE", "LOCK",
         "DISCARD", "EXPLAIN", "SHOW", "VALUES", "TABLE"),
        "it declares nothing",
    ),
}  # fmt: skip
_CLUSTER_WIDE: Final = frozenset(
    {"ROLE", "USER", "GROUP", "DATABASE", "TABLESPACE", "SUBSCRIPTION", "SERVER", "SYSTEM"}
)
_REACHING: Final = (
    "dblink", "alter system", "create role", "create user", "drop role", "drop user",
    "alter role", "alter user", "create database", "drop database", "alter database",
    "create tablespace", "create subscription", "create server", "drop owned", "set role",
    "set session authorization",
)  # fmt: skip
_MODIFIERS: Final = frozenset({"OR", "REPLACE", "TRUSTED", "PROCEDURAL", "IF", "NOT", "EXISTS"})
_SETTINGS_RUN: Final = frozenset(
    {
        "SEARCH_PATH", "DEFAULT_TABLESPACE", "DEFAULT_TABLE_ACCESS_METHOD",
        "DEFAULT_TOAST_COMPRESSION", "DATESTYLE", "INTERVALSTYLE", "TIMEZONE", "TIME", "XMLOPTION",
    }
)  # fmt: skip
"""Session settings that change what later statements declare. All others are left out."""


_PATH_CALL: Final = frozenset({"SELECT", "PG_CATALOG", "SET_CONFIG", "TRUE", "FALSE"})
_POWERS: Final = (
    "lo_import", "lo_export", "pg_read_file", "pg_read_binary_file", "pg_ls_dir",
    "pg_stat_file", "pg_terminate_backend", "pg_cancel_backend", "pg_reload_conf",
    "pg_rotate_logfile", "pg_promote", "pg_switch_wal", "pg_create_restore_point",
    "pg_wal_replay", "pg_replication_", "pg_logical_", "pg_create_physical_replication_slot",
    "pg_create_logical_replication_slot", "pg_drop_replication_slot", "pg_file_",
)  # fmt: skip
"""Beginnings of functions that act on the server, its files or other sessions."""


@dataclass(slots=True)
class Reader:
    """Reads one declaration statement by statement; remembers the settings that matter here."""

    conforming: bool = True
    """``standard_conforming_strings``."""

    def verdict(self, statement: Statement) -> Verdict:
        """What to do with a statement.

        :raises UsageError: ``InvalidSource`` with file and line, where it must not be sent.
        """
        words = statement.words(8)
        head = words[0]
        if statement.tokens[0].kind != "word":
            return "run"  # the server says what is wrong with it
        if head in _DATA:
            return "data"
        if head in _SKIPPED:
            return "skip"
        if head in _REFUSED:
            raise refused(statement, f"{head} cannot stand in a declaration: {_REFUSED[head]}")
        self._check_strings(statement)
        _refuse_powers(statement)
        if head == "SELECT":
            return _select(statement)
        if head in ("SET", "RESET"):
            return self._set(statement, words)
        if head in ("CREATE", "ALTER", "DROP", "COMMENT"):
            return _define(statement, words)
        if head in ("GRANT", "REVOKE"):
            _refuse_membership(statement)
        if head == "DO":
            _refuse_foreign_code(statement)
        if head == "SECURITY" and _CLUSTER_WIDE & set(words):
            raise refused(statement, "this SECURITY LABEL reaches beyond one database")
        return "run"

    def _check_strings(self, statement: Statement) -> None:
        if self.conforming:
            return
        for token in statement.tokens:
            if token.kind == "plain" and "\\" in token.text:
                raise refused(
                    statement,
                    "a backslash in a plain string means something else under "
                    "standard_conforming_strings = off; write it as E'…'",
                )

    def _set(self, statement: Statement, words: Sequence[str]) -> Verdict:
        name = words[1] if len(words) > 1 else ""
        if name in ("SESSION", "LOCAL") and len(words) > 2:
            name = words[2]
        if name in ("ROLE", "AUTHORIZATION"):
            raise refused(statement, "a declaration cannot change the session's role")
        if name == "STANDARD_CONFORMING_STRINGS":
            self.conforming = not ({"OFF", "FALSE", "NO"} & set(words))
        if name in ("TRANSACTION", "CONSTRAINTS", "CHARACTERISTICS"):
            return "skip"
        return "run" if name in _SETTINGS_RUN else "skip"


_NOT_REPLAYED: Final = frozenset({"LOAD", "IMPORT", "REASSIGN", "CHECKPOINT"})


def replayed(statement: Statement) -> bool:
    """Whether a migration's statement is sent when its file is run again in scratch: one that
    would change rows is, and so is a query.

    :raises UsageError: it reaches beyond one database.
    """
    head = statement.words(1)[0]
    for objection in objections(statement, True):
        if objection.number != "MG406":  # those are about the session alone
            raise refused(statement, objection.message)
    if head in _NOT_REPLAYED:
        raise refused(statement, f"{head}: {_REFUSED[head]}")
    _refuse_reach(statement)
    if head in ("CREATE", "ALTER", "DROP", "COMMENT", "GRANT", "REVOKE", "DO", "SECURITY"):
        return Reader().verdict(statement) == "run"
    return True


def _refuse_reach(statement: Statement) -> None:
    """A call that acts on the server, or another role's rights, at whatever place."""
    _refuse_powers(statement)
    keys = statement.words(3)
    if keys[0] == "SET" and {"ROLE", "AUTHORIZATION"} & set(keys[1:]):
        raise refused(statement, "it changes the session's role")
    _refuse_calls(statement, _names(statement), "replayed")


def refused(statement: Statement, message: str) -> UsageError:
    """A refusal with the statement's place."""
    return syntax_error(statement.file, statement.line, message)


def _define(statement: Statement, words: Sequence[str]) -> Verdict:
    """CREATE, ALTER, DROP or COMMENT ON."""
    rest = [word for word in words[1:] if word not in _MODIFIERS]
    if words[0] == "COMMENT":
        rest = rest[1:]
    what = rest[0] if rest else ""
    if what in _CLUSTER_WIDE and rest[1:2] != ["MAPPING"]:
        raise refused(statement, f"{words[0]} {what} reaches beyond one database")
    if words[0] == "DROP" and what == "OWNED":
        raise refused(statement, "DROP OWNED reaches beyond one database")
    if what == "FOREIGN" and rest[1:2] == ["DATA"]:
        raise refused(statement, f"{words[0]} FOREIGN DATA WRAPPER reaches other servers")
    if what == "USER":
        raise refused(statement, f"{words[0]} USER MAPPING reaches other servers")
    if what == "LANGUAGE" and rest[1:2] in (["PLPGSQL"], ["plpgsql"]):
        return "skip"  # always there; only a superuser may say so again
    if what == "EXTENSION" and rest[1:2] in (["PLPGSQL"], ["plpgsql"]):
        return "skip"
    if words[0] == "CREATE" and what == "SCHEMA" and _is_bare_public(statement):
        return "skip"  # a new database has it
    return "run"


def _is_bare_public(statement: Statement) -> bool:
    words = [token.key for token in statement.tokens if token.key not in _MODIFIERS]
    return len(words) == 3 and words[2] in ("PUBLIC", "public")


def _select(statement: Statement) -> Verdict:
    """pg_dump sets its search path by a call; a call of ``setval`` is data."""
    called = [token.key for token in statement.tokens[1:8] if token.kind in ("word", "name")]
    if called[:1] == ["PG_CATALOG"]:
        called = called[1:]
    if called[:1] == ["SETVAL"]:
        return "data"
    if called[:1] == ["SET_CONFIG"]:
        literals = [token.text for token in statement.tokens if token.kind == "plain"]
        if not {token.key for token in statement.tokens if token.kind == "word"} <= _PATH_CALL:
            raise refused(statement, "only a call of set_config alone can stand here")
        return "run" if literals[:1] == ["'search_path'"] else "skip"
    raise refused(statement, "SELECT cannot stand in a declaration: it declares nothing")


def _refuse_powers(statement: Statement) -> None:
    """A query that a declaration runs at load, of a materialized view for one, stays here."""
    names = _names(statement)
    if any(name.startswith("dblink") for name in names):
        raise refused(statement, "dblink reaches other servers")
    runs = "as" in names and (names[1:2] == ["materialized"] or "table" in names[1:4])
    if runs and names[0] == "create" and names[-2:] != ["no", "data"]:
        _refuse_calls(statement, names, "loaded")


def _names(statement: Statement) -> list[str]:
    return [t.key.lower() for t in statement.tokens if t.kind in ("word", "name")]


def _refuse_calls(statement: Statement, names: Sequence[str], when: str) -> None:
    for name in names:
        if name.startswith(_POWERS):
            raise refused(statement, f"{name} would act on the server when this is {when}")


def _refuse_foreign_code(statement: Statement) -> None:
    """A block runs at load. This is a fence for honest mistakes, not a sandbox: what a role may
    do to the cluster is the server's to judge."""
    words = [token.key for token in statement.tokens if token.kind in ("word", "name")]
    if "LANGUAGE" in words and not {"PLPGSQL", "plpgsql"} & set(words):
        raise refused(statement, "a block in another language than plpgsql is not run")
    for token in statement.tokens:
        if token.kind in ("dollar", "plain", "escape"):
            text = " ".join(token.text.lower().split())
            found = [word for word in (*_REACHING, *_POWERS) if word in text]
            if found or ("copy" in text and "program" in text):
                raise refused(statement, "this block reaches beyond one database")


def _refuse_membership(statement: Statement) -> None:
    keys = [token.key if token.kind == "word" else "" for token in statement.tokens]
    if "ON" not in keys:
        raise refused(statement, f"{keys[0]} of a role reaches beyond one database")
    what = keys[keys.index("ON") + 1 :][:1]
    if what in (["DATABASE"], ["TABLESPACE"], ["PARAMETER"]):
        raise refused(statement, f"{keys[0]} ON {what[0]} reaches beyond one schema")


def qualified_name(tokens: Sequence[Token], start: int) -> tuple[tuple[str, ...], int]:
    """The dotted name at ``start`` and the index after it; unquoted words in lower case."""
    parts: list[str] = []
    index = start
    while index < len(tokens) and tokens[index].kind in ("word", "name"):
        token = tokens[index]
        parts.append(token.text.lower() if token.kind == "word" else token.key)
        index += 1
        if index < len(tokens) and tokens[index].key == ".":
            index += 1
            continue
        break
    return tuple(parts), index
