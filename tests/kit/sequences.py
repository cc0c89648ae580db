"""Running files on a fresh database of any engine, in a session of the executor's own kind."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptahk.executor.budget import Budget
from ptahk.executor.dialects.mysql import catalog as my_catalog
from ptahk.executor.dialects.mysql import migrating as my_migrating
from ptahk.executor.dialects.mysql import revisions as my_revisions
from ptahk.executor.dialects.mysql import session as my_session
from ptahk.executor.dialects.postgres import catalog as pg_catalog
from ptahk.executor.dialects.postgres import migrating as pg_migrating
from ptahk.executor.dialects.postgres import revisions as pg_revisions
from ptahk.executor.filerun import Attempt, Run
from ptahk.executor.planning.model import Catalog, Scope
from ptahk.migrations import files, reading
from ptahk.migrations.files import SourceFile
from ptahk.migrations.history import Row
from ptahk.migrations.model import Engine
from ptahk.wire import ledgersql, revisionsql
from tests.kit import sessions
from tests.kit.mydatabases import ident
from tests.kit.targets import TRANSACTIONAL_DDL, Target

NONE = "-- ptahk:txmode none\n"


@dataclass(frozen=True)
class Sequences:
    """What these tests ask of a target."""

    target: Target

    @property
    def postgresql(self) -> bool:
        return self.target.engine == "postgresql"

    @property
    def engine(self) -> Engine:
        """As a directory is read for."""
        if self.postgresql:
            return "postgresql"
        return "mariadb" if self.target.name == "mariadb" else "mysql"

    @property
    def revisions(self) -> Any:
        """The dialect's module."""
        return pg_revisions if self.postgresql else my_revisions

    @property
    def migrating(self) -> Any:
        """The dialect's module."""
        return pg_migrating if self.postgresql else my_migrating

    @property
    def table(self) -> str:
        """Of the revision rows."""
        return "ptahk.revisions" if self.postgresql else revisionsql.MYSQL_TABLE

    def text(self, sql: str) -> str:
        """A file that is not one transaction, also where that must be said."""
        return (NONE if self.target.can(TRANSACTIONAL_DDL) else "") + sql

    def directory(self, **texts: str) -> Any:
        """Files by version: ``v1_a="…"``."""
        given = [SourceFile(f"{name.removeprefix('v')}.sql", text) for name, text in texts.items()]
        return reading.read(given, engine=self.engine, layout="ptahk").required()

    def corpus(self, folder: Path) -> Any:
        """A real directory."""
        given = [
            found
            for path in sorted(folder.rglob("*.sql"))
            if isinstance(
                found := files.read(path.relative_to(folder).as_posix(), path.read_bytes()),
                SourceFile,
            )
        ]
        return reading.read(given, engine=self.engine).required()

    @contextlib.contextmanager
    def session(self, budget_s: float = 60) -> Iterator[Any]:
        """A session with the lock, and the table of revision rows."""
        url = self.target.url()
        if self.postgresql:
            with sessions.session(url, locked=True, budget_s=budget_s) as mine:
                mine.run(ledgersql.POSTGRESQL[0])
                pg_revisions.create(mine)
                yield mine
            return
        made = my_session.connect(
            url, application_name=f"ptahk/test/{secrets.token_hex(6)}", connect_timeout_s=10,
            budget=Budget(budget_s),
        )  # fmt: skip
        try:
            made.lock(5)
            my_revisions.create(made)
            yield made
        finally:
            made.close()

    def attempt(self, directory: Any) -> Attempt:
        """A new operation for a directory."""
        return Attempt(
            "default", secrets.token_hex(16), 1, reading.sequence_digest(directory),
            directory.format,
        )  # fmt: skip

    def run(
        self, mine: Any, directory: Any, migrations: Sequence[Any] | None = None, **more: Any
    ) -> int:
        """Run files. :returns: statements run."""
        chosen = directory.migrations if migrations is None else migrations
        run_ = Run(self.attempt(directory), more.pop("lock_timeout_s", 3.0), **more)
        return int(self.migrating.run(mine, chosen, run_))

    def resume(self, mine: Any, directory: Any, done: int) -> int:
        """Run the rest of the directory's one file."""
        run_ = Run(self.attempt(directory), 3.0)
        return int(self.migrating.resume(mine, directory.migrations[0], run_, done))

    def fails(self, mine: Any, directory: Any, **more: Any) -> Any:
        """The error that a run ends with."""
        with pytest.raises(self.migrating.MigrationFailed) as failed:
            self.run(mine, directory, **more)
        return failed.value

    def rows(self, mine: Any) -> list[Row]:
        """The revision rows."""
        return list(self.revisions.rows(mine, "default"))

    def states(self, mine: Any) -> list[tuple[Any, ...]]:
        """Of each row version, state, applied and running."""
        return [(row.version, row.state, row.applied, row.running) for row in self.rows(mine)]

    def catalog(self, mine: Any) -> Catalog:
        """What is there, but for ptahk's own."""
        if self.postgresql:
            with mine.snapshot():
                return pg_catalog.read_catalog(mine.query, Scope(("public",), ()))
        own = (*ledgersql.MYSQL_TABLES, revisionsql.MYSQL_TABLE)
        return my_catalog.read_catalog(mine.query, mine.database, exclude=own)

    def schema(self, mine: Any) -> str:
        """Fingerprint of what is there, but for ptahk's own."""
        found = self.catalog(mine)
        if self.postgresql:
            return pg_catalog.fingerprint(found)
        return my_catalog.fingerprint(found)

    def empty(self, mine: Any) -> None:
        """Take everything away, the revision rows too."""
        if self.postgresql:
            mine.run("DROP SCHEMA public CASCADE")
            mine.run("CREATE SCHEMA public")
            mine.run("TRUNCATE ptahk.revisions")
            return
        mine.run(f"DROP DATABASE {ident(mine.database)}")
        mine.run(f"CREATE DATABASE {ident(mine.database)}")
        mine.run(f"USE {ident(mine.database)}")
        my_revisions.create(mine)

    @contextlib.contextmanager
    def killed_while_waiting(self, table: str) -> Iterator[None]:
        """Somebody holds a table; the session that comes to wait for it is ended by the server."""
        target = self.target
        done = threading.Event()

        def kill() -> None:
            while not done.is_set():
                waiting = target.waiting_lock_owner()
                if waiting:
                    target.kill(waiting)
                    return

        with target.in_use(table), target.in_use(table):
            killer = threading.Thread(target=kill)
            killer.start()
            try:
                yield
            finally:
                done.set()
                killer.join(60)
