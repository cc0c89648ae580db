"""The revision table's fixed DDL (C-11.8). Pure text, run under the lock and idempotent."""

from __future__ import annotations

from typing import Final

POSTGRESQL: Final[tuple[str, ...]] = (
    """CREATE TABLE IF NOT EXISTS ptahk.revisions (
  stream text NOT NULL,
  version text NOT NULL,
  ordinal bigint NOT NULL,
  kind text NOT NULL CHECK (kind IN
    ('executed', 'baseline', 'covered', 'imported', 'repeatable', 'resolved')),
  state text NOT NULL CHECK (state IN ('running', 'applied', 'failed', 'partial', 'unknown')),
  description text NOT NULL,
  file text NOT NULL,
  format text NOT NULL,
  checksum text,
  token_digest text,
  raw_digest text,
  tx_mode text NOT NULL,
  total integer NOT NULL DEFAULT 0,
  applied integer NOT NULL DEFAULT 0,
  running integer,
  statement_digests text[],
  error text,
  error_code text,
  error_statement integer,
  error_line integer,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  finished_at timestamptz,
  duration_ms bigint,
  executor text NOT NULL,
  db_user text NOT NULL DEFAULT session_user,
  server text NOT NULL,
  claim text,
  attempt integer,
  sequence_digest text,
  PRIMARY KEY (stream, version),
  CHECK (applied BETWEEN 0 AND total),
  CHECK (running IS NULL OR running > applied)
)""",
)

POSTGRESQL_FOREIGN: Final = """CREATE TABLE IF NOT EXISTS ptahk.foreign_history (
  stream text NOT NULL PRIMARY KEY,
  tool text NOT NULL,
  table_schema text NOT NULL,
  table_name text NOT NULL,
  digest text NOT NULL,
  claim text,
  imported_at timestamptz NOT NULL DEFAULT clock_timestamp()
)"""
"""Which table of another tool a stream's history was imported from, and what it held (C-11.9);
made by the first import."""

MYSQL_TABLE: Final = "ptahk_revisions"
"""In the target database itself; excluded from every diff."""
_ASCII: Final = "CHARACTER SET ascii COLLATE ascii_bin"
_TEXT: Final = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

MYSQL: Final[tuple[str, ...]] = (
    f"""CREATE TABLE IF NOT EXISTS {MYSQL_TABLE} (
  stream varchar(64) {_TEXT} NOT NULL,
  version varchar(255) {_TEXT} NOT NULL,
  ordinal bigint NOT NULL,
  kind varchar(16) {_ASCII} NOT NULL,
  state varchar(16) {_ASCII} NOT NULL,
  description text {_TEXT} NOT NULL,
  file varchar(1024) {_TEXT} NOT NULL,
  format varchar(32) {_ASCII} NOT NULL,
  checksum varchar(71) {_ASCII},
  token_digest varchar(71) {_ASCII},
  raw_digest varchar(71) {_ASCII},
  tx_mode varchar(8) {_ASCII} NOT NULL,
  total int NOT NULL DEFAULT 0,
  applied int NOT NULL DEFAULT 0,
  running int,
  statement_digests longtext {_ASCII},
  error text {_TEXT},
  error_code varchar(16) {_ASCII},
  error_statement int,
  error_line int,
  started_at datetime(6) NOT NULL,
  finished_at datetime(6),
  duration_ms bigint,
  executor varchar(64) {_TEXT} NOT NULL,
  db_user varchar(300) {_TEXT} NOT NULL,
  server varchar(64) {_TEXT} NOT NULL,
  claim char(32) {_ASCII},
  attempt int,
  sequence_digest varchar(71) {_ASCII},
  PRIMARY KEY (stream, version),
  CHECK (kind IN ('executed', 'baseline', 'covered', 'imported', 'repeatable', 'resolved')),
  CHECK (state IN ('running', 'applied', 'failed', 'partial', 'unknown')),
  CHECK (applied BETWEEN 0 AND total),
  CHECK (running IS NULL OR running > applied)
) ENGINE=InnoDB""",
)
"""For the database that the session is in. A row has the digests of all its file's statements,
one a line, and not those that were applied alone: so they are written once."""

MYSQL_FOREIGN_TABLE: Final = "ptahk_foreign_history"
MYSQL_FOREIGN: Final = f"""CREATE TABLE IF NOT EXISTS {MYSQL_FOREIGN_TABLE} (
  stream varchar(64) {_TEXT} NOT NULL PRIMARY KEY,
  tool varchar(32) {_ASCII} NOT NULL,
  table_schema varchar(64) {_TEXT} NOT NULL,
  table_name varchar(64) {_TEXT} NOT NULL,
  digest varchar(71) {_ASCII} NOT NULL,
  claim char(32) {_ASCII},
  imported_at datetime(6) NOT NULL
) ENGINE=InnoDB"""

MYSQL_TABLES: Final = (MYSQL_TABLE, MYSQL_FOREIGN_TABLE)
