"""The attempt ledger's fixed DDL (C-6.16). Pure text.

The executor runs it, and ``ptahk ledger-sql`` prints it for a DBA: both from here, so that a
ledger made by hand is the one that the executor knows.
"""

from __future__ import annotations

from typing import Final

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


def postgresql(grant_to: str | None = None) -> tuple[str, ...]:
    """The statements for PostgreSQL.

    :param grant_to: a role that is to write the ledger without owning it.
    """
    if grant_to is None:
        return POSTGRESQL
    role = '"' + grant_to.replace('"', '""') + '"'
    return (
        *POSTGRESQL,
        f"GRANT USAGE ON SCHEMA ptahk TO {role}",
        f"GRANT SELECT, INSERT, UPDATE ON ptahk.attempt, ptahk.binding TO {role}",
    )


def script(statements: tuple[str, ...]) -> str:
    """Statements as a script for psql."""
    return "".join(f"{text};\n" for text in statements)
