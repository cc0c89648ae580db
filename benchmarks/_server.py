"""The server of a benchmark run, and programs run against it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.kit import databases, mydatabases, myservers, servers

PROGRAM = str(Path(sys.executable).with_name("ptahk"))
"""The installed program, as users start it; beside its interpreter."""


@dataclass(frozen=True)
class Place(ABC):
    """One server and one folder for the run's files."""

    server: Any
    folder: Path
    engine: ClassVar[str]
    client: ClassVar[str]
    """The server's own terminal client."""
    make: ClassVar[str]
    """What ``--engine`` calls it."""

    @abstractmethod
    def load(self, file: Path) -> Any:
        """Load a file into a fresh database with the client, as one would from a shell."""

    def ptahk(self, url: str, state: Path, *arguments: str) -> str:
        """Run the program; its standard output.

        :raises RuntimeError: it ends with another exit code than 0; with its messages.
        """
        environment = {**_environment(), "DATABASE_URL": url, "PTAHK_STATE": str(state)}
        done = subprocess.run(
            [PROGRAM, *arguments], env=environment, cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"ptahk {arguments[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout


@dataclass(frozen=True)
class PgPlace(Place):
    """PostgreSQL."""

    server: servers.Server
    engine = "postgresql"
    client = "psql"
    make = "postgresql"

    def load(self, file: Path) -> databases.Database:
        database = databases.create(self.server)
        subprocess.run(
            [self.server.tool("psql"), "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", database.url(),
             "-f", file],
            check=True, env=self.server.process_env(),
        )  # fmt: skip
        return database


@dataclass(frozen=True)
class MyPlace(Place):
    """MySQL or MariaDB."""

    server: myservers.MyServer
    engine = "mysql"

    @property
    def client(self) -> str:  # type: ignore[override]
        return self.server.make

    make = client

    def load(self, file: Path) -> mydatabases.MyDatabase:
        database, server = mydatabases.create(self.server), self.server
        with file.open("rb") as text:
            subprocess.run(
                [*server.install.client(), "--no-defaults", "--protocol=tcp",
                 f"--host={server.host}", f"--port={server.port}",
                 f"--user={myservers.SUPERUSER}", database.name],
                check=True, stdin=text, env={**os.environ, "MYSQL_PWD": server.password},
            )  # fmt: skip
        return database


def _environment() -> Mapping[str, str]:
    """Ours without libpq's variables, which would change where a URL leads."""
    return {name: text for name, text in os.environ.items() if not name.startswith("PG")}


AS_INSTALLED: Mapping[str, str] = {
    "fsync": "on", "full_page_writes": "on", "wal_level": "replica", "max_wal_senders": "10",
    "shared_buffers": "128MB", "autovacuum": "on",
}  # fmt: skip
"""What PostgreSQL itself sets, where servers of tests set something else."""


_MY_AS_INSTALLED: Mapping[str, str] = {
    "innodb-flush-method": "fsync", "innodb-flush-log-at-trx-commit": "1",
    "innodb-doublewrite": "ON", "innodb-buffer-pool-size": "128M",
}  # fmt: skip


@contextlib.contextmanager
def my_place(make: str, *, as_installed: bool = False) -> Iterator[MyPlace]:
    """The same of MySQL or MariaDB."""
    run, keeper = servers.begin(tempfile.gettempdir() if as_installed else None)
    try:
        with tempfile.TemporaryDirectory(prefix="ptahk-bench-") as folder:
            settings = _MY_AS_INSTALLED if as_installed else None
            yield MyPlace(myservers.start(run, make, settings), Path(folder))
    finally:
        servers.finish(keeper)


@contextlib.contextmanager
def place(version: int, *, as_installed: bool = False) -> Iterator[PgPlace]:
    """Start a server; it and every file are gone afterwards.

    :param as_installed: with PostgreSQL's own settings and its files on the disk of ``TMPDIR``, as
        databases are that somebody works with. Default: a server of the tests, which does not
        wait for a disk.
    """
    run, keeper = servers.begin(tempfile.gettempdir() if as_installed else None)
    try:
        with tempfile.TemporaryDirectory(prefix="ptahk-bench-") as folder:
            settings = dict(AS_INSTALLED) if as_installed else None
            yield PgPlace(run.own_server(version, settings), Path(folder))
    finally:
        servers.finish(keeper)
