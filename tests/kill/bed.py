"""One database, one state directory and one declaration, on a server that tests may crash.

Every DDL command that commits in a test's database leaves a row in ``audit.effect``, written by
an event trigger in the same transaction: the database's own account of what took effect, outside
the plan's scope. ``audit.gate`` holds a statement up between its work and its commit.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg
from psycopg import sql

from ptahk.backends.local import jobdir
from ptahk.backends.local.objects import LocalObjects
from ptahk.backends.system import SystemClock
from tests.kill.points import Point
from tests.kit import databases
from tests.kit.databases import Role
from tests.kit.servers import Server

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(__file__).with_name("launch_cli.py")
PATIENCE_S = 60.0
"""Far longer than anything here takes; a test that waits this long has failed."""
RUNS_MAX = 4
"""A person who runs the command again this often and sees no end of it has found a fault."""
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


@dataclass(frozen=True)
class Change:
    """A declaration above ``BASE`` and how many statements its plan has."""

    name: str
    declared: str
    statements: int
    done: str
    """A query that answers true exactly when the whole change is there."""
    files: Mapping[str, str] = field(default_factory=dict)
    """A migration directory instead of a declaration; then the database begins empty."""

    @property
    def kind(self) -> str:
        """Of its resource."""
        return "PtahMigration" if self.files else "PtahSchema"


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


def until(look: Callable[[], T | None], what: str) -> T:
    """The first true answer; a bounded wait for what another process does."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(0.01)


@dataclass(frozen=True)
class Run:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one error line; empty where there is none."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) <= 1, self
        return lines[0] if lines else ""

    @property
    def result(self) -> dict[str, Any]:
        """The document on standard output."""
        value: dict[str, Any] = json.loads(self.out)
        return value


class Ground:
    """A server of one test process, with a role and a place for each change."""

    def __init__(self, server: Server, folder: Path) -> None:
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
        self._places: dict[str, Place] = {}

    def place(self, change: str) -> Place:
        """The place of a change, made at its first use."""
        if change not in self._places:
            self._places[change] = Place(self, {**CHANGES, "sequence": SEQUENCE}[change])
            self._places[change].plan()
        return self._places[change]

    def ready(self) -> None:
        """Wait until the server takes sessions again after a crash."""

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
        """(pid, application) of the role's sessions."""
        return self.rows(
            "SELECT pid, application_name FROM pg_stat_activity WHERE usename = %s", self.role.name
        )

    def scratches(self) -> list[tuple[str, str | None]]:
        """Scratch databases of the role, with their comments."""
        return self.rows(
            "SELECT datname, shobj_description(d.oid, 'pg_database') FROM pg_database d"
            " WHERE datname LIKE 'ptahk_scratch_%%' AND datdba = %s::regrole",
            f'"{self.role.name}"',
        )

    def age(self, name: str, seconds: float) -> None:
        """Let a scratch database be as it will be that much later."""
        past = int(time.time() - 1)
        assert seconds < 2 * 86400, f"{name} stays for ever"
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


class Place:
    """A change's own database, and a state directory in which the change has been planned."""

    def __init__(self, ground: Ground, change: Change) -> None:
        self.ground = ground
        self.change = change
        self.database = databases.create(ground.server)
        self.folder = ground.folder / change.name
        self.folder.mkdir()
        self.schema = self.folder / "schema.sql"
        self.schema.write_text(change.declared)
        self.migrations = self.folder / "migrations"
        self.migrations.mkdir()
        for name, text in change.files.items():
            (self.migrations / name).write_text(text)
        self.saved = self.folder / "plan.json"
        self.state = self.folder / "state"
        self.fingerprint = ""
        self.database.run(AUDIT)
        if change.files:
            self.database.run(UNSEEN)
        self.database.run(f"GRANT CREATE ON DATABASE {self.database.name} TO {ground.role.name}")

    def plan(self) -> None:
        """Plan the change once; the cache of desired facts is warm from then on."""
        self.reset()
        self.saved.unlink(missing_ok=True)
        bed = Bed(self, self.folder, self.state)
        run = bed.run("plan", "--out", str(self.saved))
        assert run.code == 0, run
        self.fingerprint = run.result["fingerprint"]
        assert len(run.result["statements"]) == self.change.statements, run.result["statements"]

    def reset(self) -> None:
        """Make the database what it was before the change, whatever a test left in it."""
        with self.database.connect() as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s",
                [self.ground.role.name],
            )
            text = EMPTY if self.change.files else RESET.format(role=self.ground.role.name)
            conn.execute(text.encode())


class Bed:
    """One test's state directory, at a place.

    :param planned: start from the place's own plan, and apply that; else from the declaration.
    :param cached: start with the desired facts that the place has.
    """

    def __init__(
        self, place: Place, folder: Path, state: Path, *, planned: bool = False,
        cached: bool = True,
    ) -> None:  # fmt: skip
        self.place = place
        self.ground = place.ground
        self.change = place.change
        self.database = place.database
        self.folder = folder
        self.state = state
        self.planned = planned
        self.port = 0
        """Of a proxy in front of the server; 0: none."""
        self.runs: list[Run] = []
        self.mark = folder / "mark"
        self.steps = folder / "steps"
        if planned:
            shutil.copytree(place.state, state)
        elif state != place.state:
            state.mkdir(mode=0o700)
            if cached and (place.state / "cache").exists():
                shutil.copytree(place.state / "cache", state / "cache")

    @property
    def struck(self) -> bool:
        """Whether the point was reached."""
        return self.mark.exists()

    def url(self) -> str:
        role, server = self.ground.role, self.ground.server
        port = self.port or server.port
        return server.url(
            self.database.name, role.name, role.password, port=port, sslmode="disable"
        )

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PTAHK_STATE": str(self.state),
            "DATABASE_URL": self.url(),
        }

    @property
    def again(self) -> tuple[str, ...]:
        """The command of this bed."""
        if self.planned:
            saved, fingerprint = str(self.place.saved), self.place.fingerprint
            return ("apply", "--plan", saved, "--approve", fingerprint)
        return ("apply", "--auto-approve")

    def start(
        self, command: Sequence[str] = (), point: Point | None = None, *, group: bool = False
    ) -> subprocess.Popen[str]:
        """Start a command, or this bed's own, with or without a point to be struck at.

        :param group: in a process group of its own, as a shell does.
        """
        command = command or self.again
        program = [sys.executable, "-m", "ptahk"]
        if point is not None:
            told = {**point.__dict__, "mark": str(self.mark), "admin": self.ground.admin}
            program = [sys.executable, str(LAUNCHER), Point(**told).encode()]
        declared = ["--url-env", "DATABASE_URL"]
        if "--plan" not in command and self.change.files:
            declared += ["--migrations", str(self.place.migrations)]
        elif "--plan" not in command:
            declared += ["--schema", str(self.place.schema)]
        return subprocess.Popen(
            [*program, *command, *declared, "-o", "json"], env=self.environment(), cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            process_group=0 if group else None,
        )  # fmt: skip

    def end(self, process: subprocess.Popen[str]) -> Run:
        """Wait for a started command."""
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"the command does not end\n{out}\n{err}") from None
        run = Run(process.returncode, out, err)
        self.runs.append(run)
        return run

    def run(self, *command: str, point: Point | None = None) -> Run:
        """One command to its end; this bed's own where none is given."""
        return self.end(self.start(command, point))

    def strike(self, point: Point) -> Run:
        """Run the command and have it struck there."""
        run = self.run(point=point)
        assert self.struck, f"{point.name} was never reached"
        if "cli" in (point.victims or (point.process,)):
            assert run.code == -signal.SIGKILL, run
        return run

    def converge(self) -> list[Run]:
        """Do what a person does, until it is done: the next step that the last command names.

        :returns: the runs it took, the last one with exit code 0.
        """
        made: list[Run] = []
        while True:
            last = self.runs[-1]
            # A resume is one file's; what follows it is applied by the same command again.
            if last.code == 0 and (not self.change.files or self.changed()):
                return made
            if self.change.files and last.code in (3, 4):
                self._settle_unknown()
            if 0 < last.code < 128:
                assert_tells_what_to_do(last)
                if "plan again" in last.result["hint"].lower():
                    self.planned = False
            assert len(made) < RUNS_MAX * (2 if self.change.files else 1), made
            made.append(self.run())

    def _settle_unknown(self) -> None:
        """Look at the one statement that nobody saw end, and say what it did (C-11.14)."""
        if not self.rows("SELECT to_regclass('ptahk.revisions') IS NOT NULL")[0][0]:
            return
        found = self.rows("SELECT claim FROM ptahk.revisions WHERE running IS NOT NULL")
        if not found:
            return
        done = self.rows(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('shop.customer_email')"
        )
        if done == [(False,)]:
            self.database.run("DROP INDEX shop.customer_email")
        word = "applied" if done == [(True,)] else "not-applied"
        run = self.run(
            "acknowledge", "migration/default", "--operation", found[0][0], "--statement", word,
            "--reason", "I looked at the index",
        )  # fmt: skip
        assert run.code == 0, run
        self.planned = False

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        return self.database.rows(text, *values)

    def changed(self) -> bool:
        """Whether the whole change is in the database."""
        return bool(self.rows(self.change.done)[0][0])

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

    def document(self) -> dict[str, Any] | None:
        """The stored resource."""
        objects = LocalObjects.open(self.state, SystemClock())
        try:
            found = objects.list(self.change.kind)
            return dict(found[0]) if found else None
        finally:
            objects.close()

    def store_uid(self) -> str:
        """Of this state directory."""
        objects = LocalObjects.open(self.state, SystemClock())
        try:
            return objects.uid
        finally:
            objects.close()

    def leases(self) -> list[dict[str, Any]]:
        objects = LocalObjects.open(self.state, SystemClock())
        try:
            return [dict(item) for item in objects.list("Lease")]
        finally:
            objects.close()

    def job_processes(self) -> list[int]:
        """Pids of runners of this state directory and of their executors."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                    parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[1]
                except (FileNotFoundError, ProcessLookupError):
                    continue
                found[int(entry.name)] = (line, int(parent))
        runners = {
            pid for pid, (line, _) in found.items() if str(self.state / "jobs").encode() in line
        }
        return sorted(runners | {pid for pid, (_, parent) in found.items() if parent in runners})

    def job(self) -> tuple[int, int]:
        """(runner, executor) of the one Job that runs."""
        runner, executor = self.job_processes()
        return runner, executor

    def running_jobs(self) -> list[str]:
        jobs = self.state / "jobs"
        return [
            path.name
            for path in (jobs.iterdir() if jobs.exists() else ())
            if not path.name.startswith(".") and not jobdir.ended(path)
        ]

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

    def _waiting(self) -> int | None:
        rows = self.ground.rows(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
            " AND application_name LIKE 'ptahk/apply/%%'",
            self.database.name,
        )
        return rows[0][0] if rows else None

    def blocked(self) -> int:
        """Wait until the Apply waits for a lock; its backend's pid."""
        return until(self._waiting, "an Apply that waits for a lock")

    def verify(self) -> None:
        """All that has to hold once the command has ended with exit code 0."""
        assert self.changed(), self.runs
        self.verify_once()
        self.verify_at_rest()
        self.verify_account()
        self.verify_no_secret()

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

    def verify_at_rest(self) -> None:
        """Nothing runs, nothing is held, nothing is owed, nothing is left for ever."""
        assert self.running_jobs() == []
        assert self.job_processes() == []
        until(lambda: not self.ground.sessions(), "the sessions' end")
        document = self.document()
        assert document is not None
        status = document["status"]
        for claim in ("activeOperation", "pendingObservation", "pendingLockRelease"):
            assert status.get(claim) is None, status
        for lease in self.leases():
            assert not lease["spec"].get("holderIdentity"), lease
        for name, comment in self.ground.scratches():
            assert scratch_deadline(name, comment) < time.time() + 2 * 86400, (name, comment)

    def verify_swept(self) -> None:
        """A scratch database that a killed process left goes with a later plan."""
        for name, comment in self.ground.scratches():
            self.ground.age(name, scratch_deadline(name, comment) - time.time())
        shutil.rmtree(self.state / "cache")  # so that the plan needs a scratch database itself
        run = self.run("plan")
        assert run.code == 0, run
        assert self.ground.scratches() == []

    def verify_account(self) -> None:
        """One entry per operation, and of each Apply the outcome that the ledger has."""
        document = self.document()
        assert document is not None
        history = document["status"]["history"]
        ids = [entry["operationId"] for entry in history]
        assert len(ids) == len(set(ids)), history
        applies = {e["operationId"]: e for e in history if e["type"] == "Apply"}
        store = self.store_uid()
        rows = {r["operation_id"]: r for r in self.attempts() if r["store_uid"] == store}
        assert set(rows) <= set(applies), (rows, history)
        for identity, row in rows.items():
            assert row["state"] in ("finished", "fenced"), row
            settled = applies[identity]["settled"]
            if settled["reason"] != "AlreadyConverged":
                assert settled["type"] == expected_outcome(row), (row, applies[identity])
            else:
                assert row["started_at"] is None, (row, applies[identity])

    def verify_no_secret(self) -> None:
        """The password is in no file of the state directory, in no log and in no output."""
        password = self.ground.role.password
        forms = {password, quote(password, safe=""), json.dumps(password)[1:-1]}
        for path in self.state.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                for form in forms:
                    assert form.encode() not in data, path
        for run in self.runs:
            for form in forms:
                assert form not in run.out + run.err


def expected_outcome(row: dict[str, Any]) -> str:
    """What the account must say of an Apply with this row in the ledger."""
    if row["outcome"] == "applied":
        return "Succeeded"
    if row["started_at"] is None:
        return "NotStarted"
    if row["statement_running"] is not None:
        return "Unknown"
    if row["statements_done"] == row["statements_total"] > 0:
        return "Succeeded"  # only the last mark of a sequence is missing
    return "Partial" if row["statements_done"] else "Failed"


def scratch_deadline(name: str, comment: str | None) -> float:
    """When the sweeper may drop a scratch database, in seconds since the epoch."""
    if comment is None:  # killed between CREATE DATABASE and COMMENT
        return float(int(name.removeprefix("ptahk_scratch_")[:8], 16))
    return float(json.loads(comment)["deadline"])


def assert_tells_what_to_do(run: Run) -> None:
    """A command that ends without having converged names why, and the next step."""
    assert run.code in (3, 4, 5, 6), run
    assert run.error, run
    assert "Traceback" not in run.err, run
    document = run.result
    assert document["kind"] == "Error" and document["code"] == run.code, run
    assert document.get("hint"), run
    if run.code == 4:
        assert re.search(r"\b[0-9a-f]{32}\b", document["message"]), run
