"""One database, one state directory and one declaration, on a server that tests may crash.

What is the same on every engine. ``pg`` and ``my`` say how a server is asked what took effect, how
a statement is held up in it, and what it has of sessions and of scratch databases.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from ptahk.backends.local import jobdir
from ptahk.backends.local.objects import LocalObjects
from ptahk.backends.system import SystemClock
from ptahk.engine.model.status import HISTORY_KEPT
from tests.kill.points import Point, kill
from tests.kit.waiting import until

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = Path(__file__).with_name("launch_cli.py")
PATIENCE_S = 60.0
"""Far longer than anything here takes; a test that waits this long has failed."""
RUNS_MAX = 4
"""A person who runs the command again this often and sees no end of it has found a fault."""
STAYS_S = 2 * 86400
"""A scratch database whose deadline is farther away than this stays for ever."""


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


class Account(Protocol):
    """Who ptahk is at the server."""

    @property
    def name(self) -> str: ...

    @property
    def password(self) -> str: ...


class Database(Protocol):
    """A test's database, as its superuser has it."""

    @property
    def name(self) -> str: ...

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]: ...


class Ground(ABC):
    """A server of one test process, with an account and a place for each change."""

    engine: str
    """As ``Point.engine``."""
    changes: Mapping[str, Change]
    folder: Path
    role: Account
    admin: str
    """Where ``backend`` victims are ended; has no password."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    def place(self, change: str) -> Place:
        """The place of a change, made at its first use."""
        if change not in self._places:
            self._places[change] = self.make_place(self.changes[change])
            self._places[change].plan()
        return self._places[change]

    @property
    def server_pid(self) -> int:
        """Of the process to kill where a session has none of its own; else 0."""
        return 0

    @abstractmethod
    def make_place(self, change: Change) -> Place:
        """A database of the change's own."""

    @abstractmethod
    def url(self, database: Any, port: int) -> str:
        """A database's URL for ptahk.

        :param port: of a proxy; 0: the server's own.
        """

    @abstractmethod
    def ready(self) -> None:
        """Wait until the server takes sessions again after a crash."""

    @abstractmethod
    def sessions(self) -> list[tuple[int, str]]:
        """(number, application) of the account's sessions."""

    @abstractmethod
    def scratches(self) -> Mapping[str, float]:
        """Scratch databases of the account; when each may be dropped, seconds since the epoch."""

    @abstractmethod
    def age(self, name: str) -> None:
        """Let a scratch database be as it will be after its deadline."""


class Place(ABC):
    """A change's own database, and a state directory in which the change has been planned."""

    database: Any

    def __init__(self, ground: Ground, change: Change) -> None:
        self.ground = ground
        self.change = change
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

    def plan(self) -> None:
        """Plan the change once; the cache of desired facts is warm from then on."""
        self.reset()
        self.saved.unlink(missing_ok=True)
        bed = self.make_bed(self.folder, self.state)
        run = bed.run("plan", "--out", str(self.saved))
        assert run.code == 0, run
        self.fingerprint = run.result["fingerprint"]
        assert len(run.result["statements"]) == self.change.statements, run.result["statements"]

    @abstractmethod
    def make_bed(self, folder: Path, state: Path, **options: bool) -> Bed:
        """A bed here; options as of ``Bed``."""

    @abstractmethod
    def reset(self) -> None:
        """Make the database what it was before the change, whatever a test left in it."""


class Bed(ABC):
    """One test's state directory, at a place.

    :param planned: start from the place's own plan, and apply that; else from the declaration.
    :param cached: start with the desired facts that the place has.
    """

    runs_max = RUNS_MAX

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

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PTAHK_STATE": str(self.state),
            "DATABASE_URL": self.ground.url(self.database, self.port),
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
            told = {
                **point.__dict__, "mark": str(self.mark), "admin": self.ground.admin,
                "engine": self.ground.engine, "server": self.ground.server_pid,
            }  # fmt: skip
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
            if self.heed():
                return made
            assert len(made) < self.runs_max, made
            made.append(self.run())

    def heed(self) -> bool:
        """Whether the last command did all there is to do; else the next one does as it said."""
        last = self.runs[-1]
        if 0 < last.code < 128:
            assert_tells_what_to_do(last)
            if "plan again" in last.result["hint"].lower():
                self.planned = False
        return last.code == 0

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.database.rows(text, *values)
        return found

    def changed(self) -> bool:
        """Whether the whole change is in the database."""
        return bool(self.rows(self.change.done)[0][0])

    @abstractmethod
    def attempts(self) -> list[dict[str, Any]]:
        """The ledger, oldest first; empty where there is none yet."""

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

    def kill(self, victim: str, command: subprocess.Popen[str]) -> None:
        """SIGKILL to a process of a running command, or to ``everybody``; else nothing."""
        runner, executor = self.job()
        for name, pid in (("cli", command.pid), ("runner", runner), ("executor", executor)):
            if victim in (name, "everybody"):
                kill(pid)

    def running_jobs(self) -> list[str]:
        jobs = self.state / "jobs"
        return [
            path.name
            for path in (jobs.iterdir() if jobs.exists() else ())
            if not path.name.startswith(".") and not jobdir.ended(path)
        ]

    @abstractmethod
    def waiting(self) -> int | None:
        """The number of the Apply's session where that waits for a lock."""

    def blocked(self) -> int:
        """Wait until the Apply waits for a lock; its session's number."""
        return until(self.waiting, "an Apply that waits for a lock")

    def verify(self) -> None:
        """All that has to hold once the command has ended with exit code 0."""
        assert self.changed(), self.runs
        self.verify_once()
        self.verify_at_rest()
        self.verify_account()
        self.verify_no_secret()

    @abstractmethod
    def verify_verdict(self) -> None:
        """The exit code of a struck Apply that the command lived through is what happened."""

    @abstractmethod
    def verify_once(self) -> None:
        """No statement took effect twice, and none without the ledger's row (invariants 4, 5)."""

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
        for name, deadline in self.ground.scratches().items():
            assert deadline < time.time() + STAYS_S, f"{name} stays for ever"

    def verify_swept(self) -> None:
        """A scratch database that a killed process left goes with a later plan."""
        for name in self.ground.scratches():
            self.ground.age(name)
        shutil.rmtree(
            self.state / "cache", ignore_errors=True
        )  # so that the plan needs a scratch database itself
        run = self.run("plan")
        assert run.code == 0, run
        assert not self.ground.scratches()

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
        for dropped in [*rows] if len(history) == HISTORY_KEPT else ():
            if dropped in applies:
                break  # of the account the oldest go, of the ledger none
            del rows[dropped]
        assert set(rows) <= set(applies), (rows, history)
        for identity, row in rows.items():
            assert row["state"] in ("finished", "fenced"), row
            settled = applies[identity]["settled"]
            if settled["reason"] != "AlreadyConverged":
                assert settled["type"] in self.outcomes(row), (row, applies[identity])
            else:
                assert row["started_at"] is None, (row, applies[identity])

    def outcomes(self, row: dict[str, Any]) -> set[str]:
        """What the account may say of an Apply with this row in the ledger."""
        return {expected_outcome(row)}

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


class SequenceBed(Bed):
    """A migration directory: a file is resumed alone, and a person settles what nobody saw end."""

    runs_max = 2 * RUNS_MAX

    def heed(self) -> bool:
        if self.runs[-1].code in (3, 4):
            self._settle_unknown()
        # A resume is one file's; what follows it is applied by the same command again.
        return super().heed() and self.changed()

    def outcomes(self, row: dict[str, Any]) -> set[str]:
        """A resume that did nothing leaves its file as partial as it was."""
        found = super().outcomes(row)
        earlier = (each for each in self.attempts() if each["number"] < row["number"])
        resumed = any(each["statements_done"] for each in earlier)
        return found | {"Partial"} if found == {"Failed"} and resumed else found

    def _settle_unknown(self) -> None:
        """Look at the one statement that nobody saw end, and say what it did (C-11.14)."""
        operation = self.unknown()
        if operation is None:
            return
        run = self.run(
            "acknowledge", "migration/default", "--operation", operation, "--statement",
            "applied" if self.look() else "not-applied", "--reason", "I looked at the database",
        )  # fmt: skip
        assert run.code == 0, run
        self.planned = False

    @abstractmethod
    def unknown(self) -> str | None:
        """The operation whose statement nobody saw end; None: there is none."""

    @abstractmethod
    def look(self) -> bool:
        """Whether that statement took effect; a half of it is first undone by hand."""


def expected_outcome(row: dict[str, Any]) -> str:
    """What the account must say of an Apply with this row in the ledger."""
    all_done = row["state"] == "fenced" and row["statements_done"] == row["statements_total"]
    if row["outcome"] == "applied" or (row["started_at"] is not None and all_done):
        return "Succeeded"
    if row["started_at"] is None:
        return "NotStarted"
    if row["statement_running"] is not None:
        return "Unknown"
    if row["statements_done"] == row["statements_total"] > 0:
        return "Succeeded"  # only the last mark of a sequence is missing
    return "Partial" if row["statements_done"] else "Failed"


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
