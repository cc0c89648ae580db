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
