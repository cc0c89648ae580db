"""The PostgreSQL server of a benchmark run, and programs run against it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kit import databases, servers

PROGRAM = str(Path(sys.executable).with_name("ptahk"))
"""The installed program, as users start it; beside its interpreter."""


@dataclass(frozen=True)
class Place:
    """One server and one folder for the run's files."""

    server: servers.Server
    folder: Path

    def psql(self, file: Path) -> databases.Database:
        """Load a file into a fresh database with psql, as one would from a shell."""
        database = databases.create(self.server)
        subprocess.run(
            [self.server.tool("psql"), "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d", database.url(),
             "-f", file],
            check=True, env=self.server.process_env(),
        )  # fmt: skip
        return database

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


def _environment() -> Mapping[str, str]:
    """Ours without libpq's variables, which would change where a URL leads."""
    return {name: text for name, text in os.environ.items() if not name.startswith("PG")}


AS_INSTALLED: Mapping[str, str] = {
    "fsync": "on", "full_page_writes": "on", "wal_level": "replica", "max_wal_senders": "10",
    "shared_buffers": "128MB", "autovacuum": "on",
}  # fmt: skip
"""What PostgreSQL itself sets, where servers of tests set something else."""


@contextlib.contextmanager
def place(version: int, *, as_installed: bool = False) -> Iterator[Place]:
    """Start a server; it and every file are gone afterwards.

    :param as_installed: with PostgreSQL's own settings and its files on the disk of ``TMPDIR``, as
        databases are that somebody works with. Default: a server of the tests, which does not
        wait for a disk.
    """
    run, keeper = servers.begin(tempfile.gettempdir() if as_installed else None)
    try:
        with tempfile.TemporaryDirectory(prefix="ptahk-bench-") as folder:
            settings = dict(AS_INSTALLED) if as_installed else None
            yield Place(run.own_server(version, settings), Path(folder))
    finally:
        servers.finish(keeper)
