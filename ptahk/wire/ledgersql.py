"""The attempt ledger's fixed DDL (C-6.16). Pure text.

The executor runs it, and ``ptahk ledger-sql`` prints it for a DBA: both from here, so that a
ledger made by hand is the one that the executor knows.
"""

from __future__ import annotations

from typing import Final

from ptahk.wire import revisionsql

VERSION: Final = "ptahk ledger, version 1"
"""Comment of the ledger's schema; another one is another ledger."""

POSTGRESQL: Final[tuple[str, ...]] = (
    "CREATE SCHEMA IF NOT EXISTS ptahk",
    """CREATE TABLE IF NOT EXISTS ptahk.attempt (
  operation_id text PRIMARY KEY CHECK (operation_id ~ '^[0-9a-f]{32}$'),
  store_uid text NOT NULL,
  store_kind text NOT NULL CHECK (store_kind IN ('local', 'cluster')),
  server_identity text NOT NULL,
  coordination_digest text NOT NULL,
  shared_realm boolean NOT NULL,
  number bigint NOT NULL CHECK (number > 0),
  epoch text NOT NULL,
  start_nonce text,
  plan_digest text NOT NULL,
  not_after timestamptz NOT NULL,
  state text NOT NULL CHECK (state IN ('started', 'finished', 'fenced')),
  statements_total integer NOT NULL DEFAULT 0,
  statements_done integer NOT NULL DEFAULT 0,
  statement_running integer,
  outcome text CHECK (outcome IN ('applied', 'failed')),
  result_digest text,
  timeline bigint NOT NULL,
  role_name text NOT NULL DEFAULT current_user,
  started_at timestamptz,
  finished_at timestamptz,
  fenced_at timestamptz,
  note text
)""",
    """CREATE TABLE IF NOT EXISTS ptahk.binding (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  server_identity text NOT NULL,
  coordination_digest text NOT NULL,
  operation_id text NOT NULL,
  bound_at timestamptz NOT NULL DEFAULT clock_timestamp()
)""",
    f"COMMENT ON SCHEMA ptahk IS '{VERSION}'",
)
"""The whole ledger. Idempotent."""


MYSQL_TABLES: Final = ("ptahk_attempt", "ptahk_binding", "ptahk_statement")
"""In the target database itself; excluded from every diff."""
_ASCII: Final = "CHARACTER SET ascii COLLATE ascii_bin"
_TEXT: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_END: Final = f") ENGINE=InnoDB COMMENT='{VERSION}'"

MYSQL: Final[tuple[str, ...]] = (
    f"""CREATE TABLE IF NOT EXISTS ptahk_attempt (
  operation_id char(32) {_ASCII} NOT NULL PRIMARY KEY,
  store_uid varchar(128) {_TEXT} NOT NULL,
  store_kind varchar(8) {_ASCII} NOT NULL,
  server_identity varchar(255) {_TEXT} NOT NULL,
  coordination_digest varchar(71) {_ASCII} NOT NULL,
  shared_realm boolean NOT NULL,
  number bigint NOT NULL,
  epoch varchar(40) {_ASCII} NOT NULL,
  start_nonce varchar(64) {_ASCII},
  plan_digest varchar(71) {_ASCII} NOT NULL,
  not_after datetime(6) NOT NULL,
  state varchar(8) {_ASCII} NOT NULL,
  statements_total int NOT NULL DEFAULT 0,
  statements_done int NOT NULL DEFAULT 0,
  statement_running int,
  outcome varchar(8) {_ASCII},
  result_digest varchar(71) {_ASCII},
  account varchar(300) {_TEXT} NOT NULL,
  thread bigint unsigned,
  started_at datetime(6),
  finished_at datetime(6),
  fenced_at datetime(6),
  note text {_TEXT},
  CHECK (store_kind IN ('local', 'cluster')),
  CHECK (number > 0),
  CHECK (state IN ('started', 'finished', 'fenced')),
  CHECK (outcome IN ('applied', 'failed'))
{_END}""",
    f"""CREATE TABLE IF NOT EXISTS ptahk_binding (
  one boolean NOT NULL DEFAULT true PRIMARY KEY,
  server_identity varchar(255) {_TEXT} NOT NULL,
  coordination_digest varchar(71) {_ASCII} NOT NULL,
  operation_id char(32) {_ASCII} NOT NULL,
  bound_at datetime(6) NOT NULL,
  CHECK (one = 1)
{_END}""",
    f"""CREATE TABLE IF NOT EXISTS ptahk_statement (
  operation_id char(32) {_ASCII} NOT NULL,
  number int NOT NULL,
  state varchar(8) {_ASCII} NOT NULL,
  object varchar(512) {_TEXT} NOT NULL,
  sql_digest varchar(71) {_ASCII} NOT NULL,
  before_digest varchar(71) {_ASCII} NOT NULL,
  after_digest varchar(71) {_ASCII},
  started_at datetime(6) NOT NULL,
  ended_at datetime(6),
  error text {_TEXT},
  PRIMARY KEY (operation_id, number),
  CHECK (state IN ('started', 'done', 'none'))
{_END}""",
)
"""The whole ledger of MySQL and MariaDB, for the database that the session is in. Idempotent."""


def mysql(grant_to: str | None = None) -> tuple[str, ...]:
    """The statements for MySQL and MariaDB, with migrations' rows, run in the target database.

    :param grant_to: an account, ``user`` or ``user@host``, that is to write the ledger.
    """
    whole = (*MYSQL, *revisionsql.MYSQL, revisionsql.MYSQL_FOREIGN)
    if grant_to is None:
        return whole
    user, mark, host = grant_to.rpartition("@")
    account = "@".join(_quoted(part) for part in ((user, host) if mark else (host, "%")))
    tables = (*MYSQL_TABLES, *revisionsql.MYSQL_TABLES)
    return (*whole, *(f"GRANT SELECT, INSERT, UPDATE ON {table} TO {account}" for table in tables))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def postgresql(grant_to: str | None = None) -> tuple[str, ...]:
    """The statements for PostgreSQL, with the rows of migrations.

    :param grant_to: a role that is to write the ledger without owning it.
    """
    whole = (*POSTGRESQL, *revisionsql.POSTGRESQL, revisionsql.POSTGRESQL_FOREIGN)
    if grant_to is None:
        return whole
    role = '"' + grant_to.replace('"', '""') + '"'
    tables = "ptahk.attempt, ptahk.binding, ptahk.revisions, ptahk.foreign_history"
    return (
        *whole,
        f"GRANT USAGE ON SCHEMA ptahk TO {role}",
        f"GRANT SELECT, INSERT, UPDATE ON {tables} TO {role}",
    )


def script(statements: tuple[str, ...]) -> str:
    """Statements as a script for the server's own client."""
    return "".join(f"{text};\n" for text in statements)
