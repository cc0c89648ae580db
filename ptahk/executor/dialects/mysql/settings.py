"""What a declaration may SET while it is loaded, and what of it is run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ptahk.executor.dialects.mysql.lexer import Statement, Token, syntax_error
from ptahk.migrations.lexing.named import listed

RUN: Final = frozenset(
    {
        "sql_mode", "innodb_strict_mode", "default_storage_engine", "storage_engine",
        "collation_connection", "character_set_client", "character_set_connection",
        "character_set_results", "default_collation_for_utf8mb4", "time_zone",
        "explicit_defaults_for_timestamp", "sql_generate_invisible_primary_key",
        "default_table_encryption", "system_versioning_alter_history", "check_constraint_checks",
        "character_set_collations", "group_concat_max_len",
    }
)  # fmt: skip
"""Session variables that decide what a declaration means; put back after the load."""

_IGNORED: Final = frozenset(
    {
        "foreign_key_checks", "unique_checks", "sql_notes", "sql_log_bin", "autocommit",
        "sql_quote_show_create", "gtid_purged", "note_verbosity", "sql_warnings", "max_error_count",
        "lock_wait_timeout", "innodb_lock_wait_timeout", "wait_timeout", "net_read_timeout",
        "net_write_timeout", "interactive_timeout", "max_allowed_packet", "sql_safe_updates",
        "statement_id", "timestamp", "insert_id", "low_priority_updates", "lc_time_names",
    }
)  # fmt: skip
"""Say nothing about the schema, or are ours to choose."""

MEANING: Final = (
    "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "IGNORE_SPACE", "REAL_AS_FLOAT",
    "HIGH_NOT_PRECEDENCE", "ANSI", "ORACLE", "MSSQL", "DB2", "POSTGRESQL", "MAXDB",
    "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT", "TIME_ROUND_FRACTIONAL",
)  # fmt: skip
"""Modes under which the same text means something else, or is printed otherwise."""

_CHARSETS: Final = frozenset({"character_set_client", "character_set_connection", "names"})
_SCOPES: Final = frozenset({"SESSION", "LOCAL", "GLOBAL", "PERSIST", "PERSIST_ONLY"})
Verdict = Literal["run", "skip"]


@dataclass(frozen=True, slots=True)
class _Assignment:
    name: str
    scope: str
    tokens: tuple[Token, ...]
    value: tuple[Token, ...]


def kept(statement: Statement) -> str:
    """The SET statement with what counts; empty where nothing does.

    :raises UsageError: it reaches beyond this session, or sets what no declaration should.
    """
    keep: list[str] = []
    for each in _assignments(statement.tokens[1:]):
        if _judge(statement, each) == "run":
            keep.append(" ".join(token.text for token in each.tokens))
    return "SET " + ", ".join(keep) if keep else ""


def _assignments(tokens: Sequence[Token]) -> Iterator[_Assignment]:
    return (_assignment(part) for part in listed(tokens) if part)


def _assignment(part: Sequence[Token]) -> _Assignment:
    head, at, scope = part[0], 0, ""
    if head.key in _SCOPES and len(part) > 1:
        scope, at, head = head.key, 1, part[1]
    if head.key == "NAMES":
        return _Assignment("names", scope, tuple(part), tuple(part[at + 1 :]))
    if head.key in ("CHARACTER", "CHARSET"):
        skip = 2 if head.key == "CHARACTER" else 1
        return _Assignment("names", scope, tuple(part), tuple(part[at + skip :]))
    name = head.called if head.is_name else head.text
    if name.startswith("@@"):
        where, dot, rest = name[2:].partition(".")
        scope, name = (where.upper(), rest) if dot else (scope, where)
        if not name and at + 1 < len(part):  # @@`name`
            name = part[at + 1].called
    value = [t for t in part[at + 1 :] if t.key not in ("=", ":=")]
    return _Assignment(name.lower(), scope, tuple(part), tuple(value))


def _judge(statement: Statement, each: _Assignment) -> Verdict:
    name = each.name
    if name.startswith("@"):
        return "run"
    if name in _IGNORED:
        return "skip"
    place = (statement.file, statement.line_of_token(each.tokens[0]))
    if each.scope in ("GLOBAL", "PERSIST", "PERSIST_ONLY"):
        raise syntax_error(*place, f"SET {each.scope} {name} reaches beyond this database")
    if name not in RUN and name != "names":
        raise syntax_error(
            *place, f"SET {name} is not part of a declaration: leave it out, or do it by hand"
        )
    text = " ".join(token.text for token in each.value)
    if name == "sql_mode":
        for mode in MEANING:
            if mode in text.upper().replace("'", ",").replace('"', ",").split(","):
                raise syntax_error(*place, f"sql_mode {mode} changes what SQL text means: refused")
    if name in _CHARSETS and not text.startswith("@"):
        # The files are UTF-8 text, whatever the client that wrote them spoke.
        return "run" if text.strip("'\"").lower().startswith("utf8") else "skip"
    return "run"
