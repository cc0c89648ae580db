"""Where a process is struck: a step by its name, before or after it, and who dies there.

A point travels as JSON in a launcher's arguments. Every launcher of a run gets the same one; the
process that it names obeys it, once, and first leaves a mark, so that a test knows that the step
was reached.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

EVERYBODY = ("cli", "runner", "executor")
"""What a reboot of the machine kills; the database's server is another machine."""
KILLER = "killer"
"""The account without a password that ends sessions of a MySQL server."""
GONE_S = 20.0
"""A killed process is gone in moments; this is how long to wait before saying that it is not."""
SCRATCH = "scratch."
"""How the names of the steps in a scratch database begin; they go on beside those in the target."""


@dataclass(frozen=True)
class Point:
    """One strike. Without a process: none, the steps are only written down."""

    process: str = ""
    """``cli``, ``runner`` or ``executor``: whose step it is."""
    operation: str = ""
    """``Plan``, ``Apply`` or ``Prove``."""
    step: str = ""
    number: int = 1
    """Which of the steps of that name, from 1."""
    when: str = "before"
    """``before`` or ``after``; of a write of bytes also ``during``."""
    victims: tuple[str, ...] = ()
    """Of ``cli``, ``runner``, ``executor``, ``backend`` (the session, as a DBA ends one) and
    ``server`` (SIGKILL to the session's process, or to the server's). Default: the process."""
    mark: str = ""
    """A file that is made right before the strike."""
    steps: str = ""
    """A file that gets a line per step, of every process."""
    admin: str = ""
    """Where ``backend`` victims are ended: a PostgreSQL URL or a MySQL server's socket, of an
    account without a password."""
    engine: str = "postgresql"
    """Whose driver sends the executor's requests, as in a JobSpec."""
    server: int = 0
    """The pid of a server whose sessions have no processes of their own."""
    cli: int = 0
    """The pid of the command, which tells it on to its runner."""

    @property
    def name(self) -> str:
        """As in a test's id."""
        number = f"-{self.number}" if self.number > 1 else ""
        return f"{self.operation.lower()}-{self.when}-{self.step}{number}"

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def decode(text: str) -> Point:
        value = json.loads(text)
        return Point(**{**value, "victims": tuple(value["victims"])})

    def of(self, cli: int) -> Point:
        """The same, from the command with this pid."""
        return dataclasses.replace(self, cli=cli)


class Steps:
    """The steps of one process, which counts them, writes them down and is struck at one."""

    def __init__(self, point: Point, process: str, operation: str = "") -> None:
        self._point = point
        self._process = process
        self.operation = operation
        self._seen: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def step(self, name: str, backend: int = 0) -> Iterator[None]:
        """Around one step.

        :param backend: the pid of the server's process that serves it.
        """
        number = self.reached(name)
        self.strike(name, number, "before", backend)
        yield
        self.strike(name, number, "after", backend)

    def reached(self, name: str) -> int:
        """Count a step and write it down."""
        with self._lock:
            number = self._seen.get((self.operation, name), 0) + 1
            self._seen[self.operation, name] = number
        if self._point.steps:
            line = f"{self._process} {self.operation or '-'} {name} {number}\n"
            fd = os.open(self._point.steps, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(fd, line.encode())
            os.close(fd)
        return number

    def strike(self, name: str, number: int, when: str, backend: int = 0) -> None:
        """Strike here, where this is the point."""
        point = self._point
        here = (self._process, self.operation, name, number, when)
        if here == (point.process, point.operation, point.step, point.number, point.when):
            strike(point, backend)


def strike(point: Point, backend: int = 0) -> None:
    """Kill the victims, the own process last. Only the first that comes here does anything."""
    try:
        os.close(os.open(point.mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    victims = point.victims or (point.process,)
    own = False
    for victim in victims:
        if victim == point.process:
            own = True
        elif victim == "cli":
            kill(point.cli)
        elif victim == "runner":
            kill(os.getppid())
        elif victim == "backend":
            terminate(point.admin, backend, point.engine)
        elif victim == "server":
            kill(point.server or backend)
        else:
            raise ValueError(f"{point.process} cannot reach {victim}")
    if own:
        os.kill(os.getpid(), signal.SIGKILL)


def kill(pid: int) -> None:
    """SIGKILL, and wait until the process runs no more."""
    if pid <= 1:
        raise ValueError(f"no process of ours: {pid}")
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + GONE_S
    while running(pid):
        if time.monotonic() > until:
            raise TimeoutError(f"process {pid} survives SIGKILL")
        time.sleep(0.002)


def running(pid: int) -> bool:
    """False for a process that is gone, or dead and not yet reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def terminate(admin: str, backend: int, engine: str = "postgresql") -> None:
    """End one server session as a DBA would, and wait until it is gone."""
    if engine == "mysql":
        _kill_thread(admin, backend)
        return
    import psycopg

    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(%s, %s)", (backend, int(GONE_S * 1000)))


def _kill_thread(socket: str, thread: int) -> None:
    import pymysql

    until = time.monotonic() + GONE_S
    with pymysql.connect(unix_socket=socket, user=KILLER, autocommit=True) as conn:
        cursor = conn.cursor()
        with contextlib.suppress(pymysql.err.OperationalError):  # it has just ended by itself
            cursor.execute(f"KILL {thread:d}")
        while cursor.execute(
            "SELECT 1 FROM information_schema.processlist WHERE id = %s", (thread,)
        ):
            if time.monotonic() > until:
                raise TimeoutError(f"session {thread} survives KILL")
            time.sleep(0.005)


def replace(owner: Any, **attributes: Any) -> None:
    """Put our own in the place of a module's or a class's functions, in this process alone."""
    for name, value in attributes.items():
        assert hasattr(owner, name), f"{owner} has no {name} any more"
        setattr(owner, name, value)
