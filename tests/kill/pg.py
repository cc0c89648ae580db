"""Beds on PostgreSQL.

Every DDL command that commits in a test's database leaves a row in ``audit.effect``, written by
an event trigger in the same transaction: the database's own account of what took effect, outside
the plan's scope. ``audit.gate`` holds a statement up between its work and its commit.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.kill import bed
from tests.kill.bed import STAYS_S, Change
from tests.kit import databases
from tests.kit.databases import Role
from tests.kit.servers import Server
from tests.kit.waiting import until

GATE_KEY = 4711

AUDIT = """
CREATE SCHEMA audit;
CREATE TABLE audit.effect (
  id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT clock_timestamp(),
  event text, tag text, statement text, operation text, backend int);
CREATE TABLE audit.gate (event text, part text);
CREATE FUNCTION audit.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = '' AS $$
BEGIN
  IF current_setting('application_name') NOT LIKE 'ptahk/%' THEN RETURN; END IF;
  INSERT INTO audit.effect (event, tag, statement, operation, backend)
    VALUES (tg_event, tg_tag, current_query(), current_setting('application_name'),
            pg_backend_pid());
  IF EXISTS (SELECT FROM audit.gate g
             WHERE g.event = tg_event AND strpos(current_query(), g.part) > 0) THEN
    PERFORM pg_advisory_xact_lock(4711);
  END IF;
END $$;
-- DROP INDEX CONCURRENTLY has to be the first thing in its transaction, so not of every command.
CREATE EVENT TRIGGER note_start ON ddl_command_start WHEN TAG IN ('CREATE INDEX')
  EXECUTE FUNCTION audit.note();
CREATE EVENT TRIGGER note_end ON ddl_command_end EXECUTE FUNCTION audit.note();
"""

BASE = """
CREATE SCHEMA shop;
CREATE TABLE shop.customer (id bigint PRIMARY KEY, name text NOT NULL);
CREATE TABLE shop.purchase (
  id bigint PRIMARY KEY, customer bigint NOT NULL, placed date, note text);
INSERT INTO shop.customer SELECT n, 'customer ' || n FROM generate_series(0, 9) n;
INSERT INTO shop.purchase SELECT n, n % 10, '2026-01-01', repeat('x', 60)
  FROM generate_series(1, 2000) n;
"""

CUSTOMER = "CREATE TABLE shop.customer (id bigint PRIMARY KEY, name text NOT NULL{});"
PURCHASE = (
    "CREATE TABLE shop.purchase (id bigint PRIMARY KEY, customer bigint NOT NULL{},"
    " placed date, note text{});"
)
RESET = (
    """
DROP SCHEMA IF EXISTS shop CASCADE;
DROP SCHEMA IF EXISTS ptahk CASCADE;
TRUNCATE audit.effect, audit.gate;
SET ROLE {role};
"""
    + BASE
)

INDEX = "CREATE INDEX purchase_customer ON shop.purchase (customer);"


def _change(name: str, statements: int, done: str, *declared: str) -> Change:
    return Change(name, "\n".join(("CREATE SCHEMA shop;", *declared)) + "\n", statements, done)


_EMAIL = (
    "EXISTS (SELECT FROM information_schema.columns"
    " WHERE table_schema = 'shop' AND column_name = 'email')"
)
_INDEX = (
    "EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('shop.purchase_customer')"
    " AND indisvalid AND indisready)"
)
SINGLE = _change(
    "single", 1, f"SELECT {_EMAIL}", CUSTOMER.format(", email text"), PURCHASE.format("", "")
)
MULTI = _change(
    "multi",
    4,
    f"SELECT {_EMAIL} AND to_regclass('shop.invoice') IS NOT NULL"
    " AND to_regclass('shop.spend') IS NOT NULL",
    CUSTOMER.format(", email text"),
    PURCHASE.format("", ", total numeric"),
    "CREATE TABLE shop.invoice (id bigint PRIMARY KEY, paid boolean DEFAULT false NOT NULL);",
    "CREATE VIEW shop.spend AS SELECT customer, sum(total) AS total FROM shop.purchase"
    " GROUP BY customer;",
)
CONCURRENT = _change(
    "concurrent", 1, f"SELECT {_INDEX}", CUSTOMER.format(""), PURCHASE.format("", ""), INDEX
)
GROUPS = _change(
    "groups",
    6,
    f"SELECT {_EMAIL} AND {_INDEX} AND to_regclass('shop.spend') IS NOT NULL AND EXISTS (SELECT"
    " FROM pg_constraint WHERE conname = 'purchase_customer_fkey' AND convalidated)",
    CUSTOMER.format(", email text"),
    PURCHASE.format(" REFERENCES shop.customer", ""),
    INDEX,
    "CREATE VIEW shop.spend AS SELECT customer, count(*) AS purchases FROM shop.purchase"
    " GROUP BY customer;",
)
CHANGES = {change.name: change for change in (SINGLE, MULTI, CONCURRENT, GROUPS)}
SEQUENCE = Change(
    "sequence",
    "",
    6,
    "SELECT to_regclass('shop.invoice') IS NOT NULL AND to_regclass('shop.names') IS NOT NULL"
    f" AND {_EMAIL} AND {_INDEX.replace('purchase_customer', 'customer_email')}",
    {
        "1_shop.sql": "CREATE SCHEMA shop;\n"
        "CREATE TABLE shop.customer (id bigint PRIMARY KEY, name text);\n",
        "2_email.sql": "-- ptahk:txmode none\n"
        "ALTER TABLE shop.customer ADD email text;\n"
        "CREATE INDEX CONCURRENTLY customer_email ON shop.customer (email);\n"
        "CREATE VIEW shop.names AS SELECT name FROM shop.customer;\n",
        "3_invoice.sql": "CREATE TABLE shop.invoice (id bigint PRIMARY KEY);\n",
    },
)
EMPTY = """
DROP SCHEMA IF EXISTS shop CASCADE;
DROP SCHEMA IF EXISTS ptahk CASCADE;
TRUNCATE audit.effect, audit.gate;
"""
UNSEEN = """
ALTER EXTENSION plpgsql ADD TABLE audit.effect;
ALTER EXTENSION plpgsql ADD SEQUENCE audit.effect_id_seq;
ALTER EXTENSION plpgsql ADD TABLE audit.gate;
ALTER EXTENSION plpgsql ADD FUNCTION audit.note();
"""
"""An extension's members are nobody's objects: the database counts as empty."""


class Ground(bed.Ground):
    """A PostgreSQL server of one test process."""

    engine = "postgresql"
    changes = {**CHANGES, SEQUENCE.name: SEQUENCE}  # noqa: RUF012

    def __init__(self, server: Server, folder: Path) -> None:
        super().__init__()
        self.server = server
        self.folder = folder
        self.admin = server.socket_url()
        self._first = databases.create(server)
        plain = self._first.role(create_database=True)
        # Every kind of character that a URL, a JSON text or a log would escape in its own way.
        self.role = Role(plain.name, f"{secrets.token_hex(8)}/@ä\"'%+&{secrets.token_hex(4)}")
        with self._first.connect() as conn:
            conn.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                    sql.Identifier(self.role.name), sql.Literal(self.role.password)
                )
            )

    def make_place(self, change: Change) -> Place:
        return Place(self, change)

    def url(self, database: Any, port: int) -> str:
        role, server = self.role, self.server
        return server.url(
            database.name, role.name, role.password, port=port or server.port, sslmode="disable"
        )

    def ready(self) -> None:

        def look() -> bool:
            try:
                with psycopg.connect(self.admin, connect_timeout=5):
                    return True
            except psycopg.OperationalError:
                return False

        until(look, "the server")

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.admin, autocommit=True) as conn:
            return conn.execute(text.encode(), values or None).fetchall()

    def sessions(self) -> list[tuple[int, str]]:
        return self.rows(
            "SELECT pid, application_name FROM pg_stat_activity WHERE usename = %s", self.role.name
        )

    def scratches(self) -> dict[str, float]:
        found = self.rows(
            "SELECT datname, shobj_description(d.oid, 'pg_database') FROM pg_database d"
            " WHERE datname LIKE 'ptahk_scratch_%%' AND datdba = %s::regrole",
            f'"{self.role.name}"',
        )
        return {name: _scratch_deadline(name, comment) for name, comment in found}

    def age(self, name: str) -> None:
        past = int(time.time() - 1)
        assert self.scratches()[name] < time.time() + STAYS_S, f"{name} stays for ever"
        note = json.dumps({"ptahk": "scratch/1", "deadline": past})
        older = f"ptahk_scratch_{past:08x}{secrets.token_hex(12)}"
        with psycopg.connect(self.admin, autocommit=True) as conn:
            if conn.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
                [name],
            ).fetchone() == (None,):
                text = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                conn.execute(text.format(sql.Identifier(name), sql.Identifier(older)))
            else:
                text = sql.SQL("COMMENT ON DATABASE {} IS {}")
                conn.execute(text.format(sql.Identifier(name), sql.Literal(note)))


class Place(bed.Place):
    """A database of its own, with its own account of what took effect."""

    ground: Ground

    def __init__(self, ground: Ground, change: Change) -> None:
        super().__init__(ground, change)
        self.database = databases.create(ground.server)
        self.database.run(AUDIT)
        if change.files:
            self.database.run(UNSEEN)
        self.database.run(f"GRANT CREATE ON DATABASE {self.database.name} TO {ground.role.name}")

    def make_bed(self, folder: Path, state: Path, **options: bool) -> Bed:
        kind = SequenceBed if self.change.files else Bed
        return kind(self, folder, state, **options)

    def reset(self) -> None:
        with self.database.connect() as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s",
                [self.ground.role.name],
            )
            text = EMPTY if self.change.files else RESET.format(role=self.ground.role.name)
            conn.execute(text.encode())


class Bed(bed.Bed):
    """On PostgreSQL, a statement can be held up at its end."""

    ground: Ground

    def effects(self) -> list[tuple[str, str, str]]:
        """(operation, statement, event) of every DDL command that committed, in order."""
        return [
            (operation, statement, event)
            for operation, statement, event in self.rows(
                "SELECT operation, statement, event FROM audit.effect ORDER BY id"
            )
            if "ptahk" not in statement
        ]

    def attempts(self) -> list[dict[str, Any]]:
        """The ledger, oldest first; empty where there is none yet."""
        if not self.rows("SELECT to_regclass('ptahk.attempt') IS NOT NULL")[0][0]:
            return []
        rows = self.rows("SELECT to_jsonb(a) FROM ptahk.attempt a ORDER BY number")
        return [row[0] for row in rows]

    @contextmanager
    def holding(self) -> Iterator[psycopg.Connection[Any]]:
        """A session of somebody else's, for locks; it may die with its server."""
        conn = psycopg.connect(self.ground.server.socket_url(self.database.name), autocommit=True)
        try:
            yield conn
        finally:
            conn.close()

    @contextmanager
    def gate(self, part: str, event: str = "ddl_command_end") -> Iterator[Callable[[], int]]:
        """Hold every statement up that has this in its text, until the block ends.

        :yields: waits until a statement is held up, and answers its backend's pid.
        """
        with self.holding() as conn:
            conn.execute("SELECT pg_advisory_lock(%s)", [GATE_KEY])
            conn.execute("INSERT INTO audit.gate VALUES (%s, %s)", [event, part])
            try:
                yield self.blocked
            finally:
                self.ground.ready()
                self.database.run("DELETE FROM audit.gate")

    def waiting(self) -> int | None:
        rows = self.ground.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
            " AND application_name LIKE 'ptahk/apply/%%'",
            self.database.name,
        )
        return rows[0][0] if rows else None

    def verify_verdict(self) -> None:
        """The exit code of a struck Apply that the command lived through is what really happened.

        0: all of it took effect; 3: none, and the ledger has no start; 5: none or a part of it;
        4: nobody can know, which is only so of a statement outside a transaction.
        """
        run = self.runs[-1]
        done = {text for _, text, event in self.effects() if event == "ddl_command_end"}
        started = [row for row in self.attempts() if row["started_at"] is not None]
        if run.code == 0:
            assert self.changed(), run
        elif run.code == 3:
            assert not done and not started, (run, done, started)
        elif run.code == 5:
            assert started and not self.changed(), (run, started)
        else:
            assert run.code == 4, run
            assert [row["statement_running"] for row in started] != [None], (run, started)

    def verify_once(self) -> None:
        """No statement took effect twice, and none without the ledger's row (invariants 4, 5)."""
        ended = [(op, text) for op, text, event in self.effects() if event == "ddl_command_end"]
        assert len(ended) == len(set(ended)), ended
        rebuilt = [text for _, text in ended if "CONCURRENTLY" not in text]
        assert len(rebuilt) == len(set(rebuilt)), ended
        if not any("CONCURRENTLY" in text for _, text in ended):
            assert len(ended) <= self.change.statements, ended
        known = {f"ptahk/apply/{row['operation_id'][:12]}" for row in self.attempts()}
        assert {operation for operation, _, _ in self.effects()} <= known
        late = self.rows(
            "SELECT e.statement FROM audit.effect e JOIN ptahk.attempt a"
            " ON e.operation = 'ptahk/apply/' || left(a.operation_id, 12)"
            " WHERE e.statement NOT LIKE '%%ptahk%%'"
            " AND (e.at < a.started_at OR a.fenced_at < e.at)"
        )
        assert not late


class SequenceBed(bed.SequenceBed, Bed):
    """A migration directory."""

    def unknown(self) -> str | None:
        if not self.rows("SELECT to_regclass('ptahk.revisions') IS NOT NULL")[0][0]:
            return None
        found = self.rows("SELECT claim FROM ptahk.revisions WHERE running IS NOT NULL")
        return str(found[0][0]) if found else None

    def look(self) -> bool:
        done = self.rows(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('shop.customer_email')"
        )
        if done == [(False,)]:
            self.database.run("DROP INDEX shop.customer_email")
        return done == [(True,)]


def _scratch_deadline(name: str, comment: str | None) -> float:
    """When the sweeper may drop a scratch database, in seconds since the epoch."""
    if comment is None:  # killed between CREATE DATABASE and COMMENT
        return float(int(name.removeprefix("ptahk_scratch_")[:8], 16))
    return float(json.loads(comment)["deadline"])
