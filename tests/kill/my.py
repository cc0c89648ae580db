"""Beds on MySQL and MariaDB.

Every statement that took effect is in the server's own binary log, with its session: written with
the statement's commit, and by the server's recovery where it died in between. A statement is held
up by a reader of its table, or by a lock on it; nothing holds one up at its end.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymysql

from ptahk.executor.dialects.mysql import revisions
from ptahk.migrations import history
from ptahk.migrations.history import Row
from tests.kill import bed
from tests.kill.bed import STAYS_S, Change
from tests.kill.points import KILLER, running
from tests.kit import binlog, mydatabases, myservers
from tests.kit.databases import unique
from tests.kit.mydatabases import Account, MyDatabase, ident
from tests.kit.myservers import MyServer
from tests.kit.sessions import my_session
from tests.kit.waiting import until

BASE = (
    "CREATE TABLE customer (id bigint PRIMARY KEY, name varchar(80) NOT NULL)",
    "CREATE TABLE purchase (id bigint PRIMARY KEY, customer bigint NOT NULL, placed date,"
    " note varchar(200))",
    "INSERT INTO customer VALUES " + ", ".join(f"({n}, 'customer {n}')" for n in range(10)),
    "INSERT INTO purchase VALUES "
    + ", ".join(f"({n}, {n % 10}, '2026-01-01', '{'x' * 60}')" for n in range(1, 2001)),
)
CUSTOMER = "CREATE TABLE customer (id bigint PRIMARY KEY, name varchar(80) NOT NULL{});"
PURCHASE = (
    "CREATE TABLE purchase (id bigint PRIMARY KEY, customer bigint NOT NULL,"
    " placed date, note varchar(200){});"
)
INVOICE = "CREATE TABLE invoice (id bigint PRIMARY KEY, paid boolean DEFAULT false NOT NULL);"
SPEND = (
    "CREATE VIEW spend AS SELECT customer, count(*) AS purchases FROM purchase GROUP BY customer;"
)
TIDY = "CREATE PROCEDURE tidy () DELETE FROM purchase WHERE placed IS NULL;"
STAMP = (
    "CREATE TRIGGER stamp BEFORE INSERT ON purchase FOR EACH ROW"
    " SET NEW.placed = coalesce(NEW.placed, '2026-01-01');"
)


def _change(name: str, statements: int, done: str, *declared: str) -> Change:
    return Change(name, "\n".join(declared) + "\n", statements, done)


def _exists(what: str, where: str) -> str:
    column = "trigger_schema" if what == "triggers" else "table_schema"
    return (
        f"EXISTS (SELECT 1 FROM information_schema.{what}"
        f" WHERE {'routine_schema' if what == 'routines' else column} = DATABASE() AND {where})"
    )


_EMAIL = _exists("columns", "column_name = 'email'")
SINGLE = _change(
    "single", 1, f"SELECT {_EMAIL}", CUSTOMER.format(", email varchar(80)"), PURCHASE.format("")
)
GROUPS = _change(
    "groups",
    8,
    "SELECT "
    + " AND ".join(
        (
            _EMAIL,
            _exists("tables", "table_name = 'invoice'"),
            _exists("statistics", "index_name = 'purchase_customer'"),
            _exists("table_constraints", "constraint_name = 'purchase_customer_fk'"),
            _exists("tables", "table_name = 'spend'"),
            _exists("routines", "routine_name = 'tidy'"),
            _exists("triggers", "trigger_name = 'stamp'"),
        )
    ),
    CUSTOMER.format(", email varchar(80)"),
    PURCHASE.format(
        ", KEY purchase_customer (customer, placed), CONSTRAINT purchase_customer_fk"
        " FOREIGN KEY (customer) REFERENCES customer (id)"
    ),
    INVOICE,
    SPEND,
    TIDY,
    STAMP,
)
CHANGES = {change.name: change for change in (SINGLE, GROUPS)}
FILES: dict[str, tuple[str, ...]] = {
    "1_tables.sql": (
        "CREATE TABLE customer (id bigint PRIMARY KEY, name varchar(80))",
        "CREATE TABLE entry (n int NOT NULL)",
    ),
    "2_rows.sql": ("INSERT INTO entry VALUES (1)", "INSERT INTO entry VALUES (2)"),
    "3_parts.sql": (
        "ALTER TABLE customer ADD email varchar(80)",
        "INSERT INTO entry VALUES (3)",
        "LOCK TABLES entry WRITE",
        "INSERT INTO entry VALUES (4)",
        "ALTER TABLE entry ADD at date",
        "INSERT INTO entry (n) VALUES (5)",
        "UNLOCK TABLES",
        "BEGIN",
        "INSERT INTO entry (n) VALUES (6)",
        "INSERT INTO entry (n) VALUES (7)",
        "COMMIT",
        "CREATE VIEW names AS SELECT name FROM customer",
        "INSERT INTO entry (n) VALUES (8)",
    ),
    "4_invoice.sql": ("CREATE TABLE invoice (id bigint PRIMARY KEY)",),
}
"""Files of every kind, and of statements every kind of unit (migrations.md 5.1)."""
SEQUENCE = Change(
    "sequence",
    "",
    sum(map(len, FILES.values())),
    "SELECT " + _exists("tables", "table_name = 'invoice'"),
    {name: "".join(f"{text};\n" for text in texts) for name, texts in FILES.items()},
)
LOCKED = (3, 7)
"""In the third file, the statements from LOCK to UNLOCK."""
UNDO = "ALTER TABLE entry DROP at"
"""What a person says where only a half of it happened."""
_VIEW = re.compile(r"CREATE .*\bVIEW `?names`? ")
"""Logged in the server's own words."""
_ROW = re.compile(r"INSERT INTO entry .*\((\d+)\)")

_EFFECTS = ("ALTER", "CREATE", "DROP", "RENAME")
_WAY = re.compile(r"ALGORITHM ?= ?\w+, (LOCK ?= ?\w+, )?")
_SCRATCH = re.compile(r"ptahk_scratch_([0-9a-f]{8})[0-9a-f]{24}")


class Ground(bed.Ground):
    """A MySQL or MariaDB server of one test process, which writes down what takes effect."""

    engine = "mysql"
    changes = {**CHANGES, SEQUENCE.name: SEQUENCE}  # noqa: RUF012

    def __init__(self, server: MyServer, folder: Path) -> None:
        super().__init__()
        self.server = server
        self.folder = folder
        self.admin = server.socket
        # Every kind of character that a URL, a JSON text or a log would escape in its own way.
        password = f"{secrets.token_hex(8)}/@ä\"'%+&{secrets.token_hex(4)}"
        self.role = Account(unique("u")[-32:], password)
        connection_admin = "CONNECTION ADMIN" if server.make == "mariadb" else "CONNECTION_ADMIN"
        with contextlib.closing(server.connect()) as conn, conn.cursor() as cursor:
            cursor.execute(
                f"CREATE USER '{self.role.name}'@'%%' IDENTIFIED BY %s", (self.role.password,)
            )
            cursor.execute(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{self.role.name}'@'%'")
            cursor.execute(f"CREATE USER '{KILLER}'@'localhost'")
            cursor.execute(f"GRANT PROCESS, {connection_admin} ON *.* TO '{KILLER}'@'localhost'")

    @property
    def server_pid(self) -> int:
        return self.server.pid

    def make_place(self, change: Change) -> Place:
        return Place(self, change)

    def url(self, database: Any, port: int) -> str:
        return self.server.url(
            database.name, self.role.name, self.role.password, port=port or self.server.port
        )

    def ready(self) -> None:
        """Start the server again where it was killed; a server's restart is its supervisor's."""
        if running(self.server.pid):
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.server.pid, 0)
        self.server = myservers.restart(self.server, binlog.SETTINGS, same_port=True)
        for place in self._places.values():
            place.database.server = self.server

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """What the superuser is answered."""
        with contextlib.closing(self.server.connect()) as conn, conn.cursor() as cursor:
            cursor.execute(text, values or None)
            return list(cursor.fetchall())

    def sessions(self) -> list[tuple[int, str]]:
        return self.rows(
            "SELECT p.id, coalesce(a.attr_value, '') FROM information_schema.processlist p"
            " LEFT JOIN performance_schema.session_connect_attrs a"
            " ON a.processlist_id = p.id AND a.attr_name = 'program_name' WHERE p.user = %s",
            self.role.name,
        )

    def scratches(self) -> dict[str, float]:
        found = {}
        for (name,) in self.rows("SELECT schema_name FROM information_schema.schemata"):
            match = _SCRATCH.fullmatch(name)
            if match is not None:
                found[name] = float(int(match.group(1), 16))
        return found

    def age(self, name: str) -> None:
        assert self.scratches()[name] < time.time() + STAYS_S, f"{name} stays for ever"
        # A database has no other name to get: an empty one of an older name stands for it.
        with contextlib.closing(self.server.connect()) as conn, conn.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {ident(name)}")
            older = f"ptahk_scratch_{int(time.time() - 1):08x}{secrets.token_hex(12)}"
            cursor.execute(f"CREATE DATABASE {ident(older)}")


class Place(bed.Place):
    """A database of its own, and where its account in the binary log begins."""

    ground: Ground
    database: MyDatabase

    def __init__(self, ground: Ground, change: Change) -> None:
        super().__init__(ground, change)
        self.database = mydatabases.create(ground.server)
        self.since = binlog.Place("", 0)
        pattern = ident(self.database.name.replace("_", "\\_"))
        self.database.run(f"GRANT ALL ON {pattern}.* TO '{ground.role.name}'@'%'")

    def make_bed(self, folder: Path, state: Path, **options: bool) -> Bed:
        kind = SequenceBed if self.change.files else Bed
        return kind(self, folder, state, **options)

    def reset(self) -> None:
        with contextlib.closing(self.ground.server.connect()) as conn, conn.cursor() as cursor:
            for thread, _ in self.ground.sessions():
                with contextlib.suppress(pymysql.err.OperationalError):  # it has just ended
                    cursor.execute(f"KILL {thread:d}")
            until(lambda: not self.ground.sessions(), "the end of old sessions")
            for name in (self.database.name, *self.ground.scratches()):
                cursor.execute(f"DROP DATABASE {ident(name)}")
            cursor.execute(f"CREATE DATABASE {ident(self.database.name)}")
        if not self.change.files:
            self.database.run(*BASE)
        self.since = binlog.end(self.data)

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return Path(self.ground.server.folder) / "data"


class Bed(bed.Bed):
    """On MySQL or MariaDB, a statement can be held up before it begins."""

    ground: Ground
    place: Place

    def effects(self) -> list[binlog.Event]:
        """Every statement that took effect in the database, but for the ledger's own, in order."""
        return [
            event
            for event in binlog.events(self.place.data, self.place.since)
            if event.database == self.database.name
            and event.text.startswith(_EFFECTS)
            and "ptahk_" not in event.text
        ]

    def attempts(self) -> list[dict[str, Any]]:
        with self.database.connect() as conn:
            cursor = conn.cursor(pymysql.cursors.DictCursor)
            if not cursor.execute("SHOW TABLES LIKE 'ptahk\\_attempt'"):
                return []
            cursor.execute("SELECT * FROM ptahk_attempt ORDER BY number")
            return [dict(row) for row in cursor.fetchall()]

    def done_of(self, row: dict[str, Any]) -> list[str]:
        """The statements of one attempt that took effect."""
        return [event.text for event in self.effects() if _is_of(event, row)]

    def waiting(self) -> int | None:
        rows = self.ground.rows(
            "SELECT id FROM information_schema.processlist WHERE user = %s AND db = %s"
            " AND state LIKE 'Waiting for table%%'",
            self.ground.role.name, self.database.name,
        )  # fmt: skip
        return rows[0][0] if rows else None

    @contextmanager
    def in_use(self, table: str, *, locked: bool = False) -> Iterator[None]:
        """Somebody else reads the table in a transaction, or has it locked for reading."""
        with self.database.connect() as conn, conn.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {table} READ" if locked else "BEGIN")
            cursor.execute(f"SELECT * FROM {table} LIMIT 1")
            yield
            with contextlib.suppress(pymysql.MySQLError):  # it may have died with its server
                cursor.execute("UNLOCK TABLES" if locked else "ROLLBACK")

    def owes_a_proof(self) -> bool:
        """Whether the next command begins with what became of an Apply, not with a new one."""
        document = self.document()
        status = {} if document is None else document["status"]
        claim = status.get("activeOperation") or {}
        dispatched = claim.get("type") == "Apply" and claim.get("dispatchStarted")
        return bool(status.get("pendingObservation") or dispatched or claim.get("type") == "Prove")

    def verify_verdict(self) -> None:
        """Of 0, all of it took effect; of 3, none, and the ledger has no start; of 5, what the
        ledger says, no more and no less; of 4 and 6, the proof is still owed."""
        run = self.runs[-1]
        started = [row for row in self.attempts() if row["started_at"] is not None]
        if run.code == 0:
            assert self.changed(), run
        elif run.code == 3:
            assert not self.effects() and not started, (run, started)
        elif run.code == 5:
            assert started and not self.changed(), (run, started)
            self.verify_half_done()
            done, total = started[-1]["statements_done"], started[-1]["statements_total"]
            told = f"{done} of {total} statements" if done else "nothing was changed"
            assert told in run.error, (run, started[-1])
        else:
            assert run.code in (4, 6), run

    def verify_half_done(self) -> None:
        """Of every attempt that is over, exactly the statements took effect that are called done,
        in the plan's order."""
        for row in self.attempts():
            if row["state"] == "started" or row["started_at"] is None:
                continue
            assert row["statement_running"] is None, row
            ended = self.rows(
                "SELECT number, state FROM ptahk_statement WHERE operation_id = %s ORDER BY number",
                row["operation_id"],
            )
            done = [number for number, state in ended if state == "done"]
            assert len(done) == len(self.done_of(row)), (row, ended, self.done_of(row))
            assert row["statements_done"] == (done[-1] if done else 0), (row, ended)
            # A check of the data is a statement of the plan too: it has no row and no effect.
            assert done == list(range(done[0], done[-1] + 1) if done else ()), (row, ended)
            assert all(state in ("done", "none") for _, state in ended), (row, ended)

    def verify_once(self) -> None:
        events = self.effects()
        texts = [_WAY.sub("", event.text) for event in events]
        assert len(texts) == len(set(texts)), texts
        assert len(texts) <= self.change.statements, texts
        assert all(event.error == 0 for event in events), events
        rows = self.attempts()
        for event in events:
            assert len([row for row in rows if _is_of(event, row)]) == 1, (event, rows)
        self.verify_half_done()


class SequenceBed(bed.SequenceBed, Bed):
    """A migration directory: of each statement of a file it is known how often it took effect."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.undone: list[str] = []
        """Statements that took effect, and that a person undid."""

    def counted(self) -> dict[str, dict[int, int]]:
        """Of each file, how often each of its statements took effect: of a definition by the binary
        log, of a row by how often it is there."""
        view = next(text for text in FILES["3_parts.sql"] if _VIEW.match(text))
        texts = [view if _VIEW.match(event.text) else event.text for event in self.effects()]
        there = bool(self.rows("SHOW TABLES LIKE 'entry'"))
        entries = [row[0] for row in self.rows("SELECT n FROM entry")] if there else []
        found: dict[str, dict[int, int]] = {}
        for file, statements in FILES.items():
            found[file] = {}
            for number, text in enumerate(statements, 1):
                row = _ROW.fullmatch(text)
                if row is not None:
                    found[file][number] = entries.count(int(row[1]))
                elif text.startswith(_EFFECTS):
                    found[file][number] = texts.count(text) - self.undone.count(text)
        return found

    def judged(self) -> dict[str, Row]:
        """The rows by file, as the product reads them for its verdict."""
        with my_session(self.database.url()) as mine:
            rows = revisions.rows(mine, "default")
        return {row.file: history.settled(row, postgresql=False) for row in rows}

    def at_rest(self) -> None:
        """Wait until nobody's session is left: a killed client does not stop its statement."""
        until(lambda: not self.ground.sessions(), "the sessions' end")

    def verify_once(self) -> None:
        self.at_rest()
        counted = self.counted()
        assert all(count in (0, 1) for of in counted.values() for count in of.values()), counted
        rows = self.attempts()
        for event in self.effects():
            assert event.error == 0, event
            if event.text != UNDO:
                assert len([row for row in rows if _is_of(event, row)]) == 1, (event, rows)
        self.verify_rows()

    def verify_rows(self) -> None:
        """What the rows count as applied took effect, and nothing else, save what is between the
        locks where nobody saw them end (C-11.13)."""
        judged = self.judged()
        for file, counted in self.counted().items():
            row = judged.get(file)
            done = {number for number, count in counted.items() if count}
            if row is None or row.state == "failed":
                assert not done and (row is None or row.applied == 0), (file, row, done)
                continue
            sure = {number for number in counted if number <= row.applied}
            if row.state == "unknown":
                assert file == "3_parts.sql" and row.running is not None, row
                assert LOCKED[0] <= row.running <= LOCKED[1], row
                between = {number for number in counted if LOCKED[0] < number < LOCKED[1]}
                assert sure <= done <= sure | between, (row, done)
            else:
                assert row.state in ("partial", "applied"), row
                assert done == sure, (row, done)
                assert (row.applied == row.total) == (row.state == "applied"), row

    def verify_verdict(self) -> None:
        """Of 0, what the plan had is applied; of 5, a file failed or is partial, as it says; of 4,
        one is unknown; of 3, this command ran nothing."""
        run = self.runs[-1]
        judged = self.judged()
        states = {row.state for row in judged.values()}
        started = [row for row in self.attempts() if row["started_at"] is not None]
        last = [
            row for row in judged.values() if started and row.claim == started[-1]["operation_id"]
        ]
        if run.code == 0:
            assert states == {"applied"}, (run, judged)
        elif run.code == 3:
            assert not started or started[-1]["finished_at"] or started[-1]["fenced_at"], run
        elif run.code == 5:
            assert "unknown" not in states, (run, judged)
            done, total = started[-1]["statements_done"], started[-1]["statements_total"]
            assert f"{done} of {total} statements" in run.error or not done, (run, started[-1])
        elif run.code == 4:
            assert "unknown" in states or self.owes_a_proof(), (run, judged)
        else:
            assert run.code == 6, run
        if run.code in (0, 5) and last and started[-1]["statements_done"]:
            assert started[-1]["statements_done"] == sum(row.applied for row in last), (run, last)

    def unknown(self) -> str | None:
        self.at_rest()
        found = [row for row in self.judged().values() if row.state == "unknown"]
        return found[0].claim if found else None

    def look(self) -> bool:
        """All between the locks happened, or what did of it is undone."""
        texts, counted = FILES["3_parts.sql"], self.counted()["3_parts.sql"]
        between = range(LOCKED[0] + 1, LOCKED[1])
        if all(counted[number] for number in between):
            return True
        if counted[LOCKED[0] + 2]:
            self.undone.append(texts[LOCKED[0] + 1])
            self.database.run(UNDO)
        self.database.run("DELETE FROM entry WHERE n IN (4, 5)")
        return False


def _is_of(event: binlog.Event, row: dict[str, Any]) -> bool:
    """Whether an attempt's session ran it, in the attempt's time; the log has whole seconds."""
    if row["started_at"] is None or row["thread"] != event.thread:
        return False
    over = row["fenced_at"] or row["finished_at"]
    return _seconds(row["started_at"]) - 1 < event.at and (
        over is None or event.at <= _seconds(over)
    )


def _seconds(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()
