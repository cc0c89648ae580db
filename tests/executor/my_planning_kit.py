"""What the planner's tests for MySQL and MariaDB share: a live database and a scratch one.

Both are made anew between cases. The road from one schema to the other is the product's own: load,
read, plan, ask how each ALTER can be done, plan again, run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymysql.connections
import pymysql.cursors
import pytest

from ptahk.executor.dialects.mysql import online, pipeline, planner
from ptahk.executor.dialects.mysql.catalog import fingerprint, read_catalog, server_of
from ptahk.executor.dialects.mysql.lexer import Server
from ptahk.executor.dialects.mysql.load import Loaded, load, state
from ptahk.executor.planning.document import parse_plan, plan_bytes
from ptahk.executor.planning.model import Catalog, Policy, Step
from ptahk.executor.planning.result import PlanResult
from tests.kit.databases import unique
from tests.kit.myservers import MyServer

EVERYTHING = Policy(allow_destructive=True, partitions="Managed")
"""May drop all there is."""


class DataRefused(Exception):
    """A check, run before the first statement, found rows that the plan cannot keep."""


@dataclass
class MyBench:
    """Live and scratch, on one connection."""

    conn: pymysql.connections.Connection[pymysql.cursors.Cursor]
    make: str
    name: str = field(default_factory=lambda: unique("live"))

    @property
    def scratch(self) -> str:
        return f"{self.name}_scratch"

    @property
    def mariadb(self) -> bool:
        return self.make == "mariadb"

    @property
    def server(self) -> Server:
        return server_of(self.query("SELECT VERSION()")[0][0])

    def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
        with self.conn.cursor() as cursor:
            cursor.execute(sql, params or None)
            return cursor.fetchall()

    def run(self, sql: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)

    @contextmanager
    def begun(self, sql: str) -> Iterator[None]:
        pipeline.begin(self.conn, sql)
        try:
            yield
        finally:
            pipeline.finish(self.conn)

    def empty(self) -> None:
        """An empty live database."""
        self.run(f"DROP DATABASE IF EXISTS `{self.name}`")
        self.run(f"CREATE DATABASE `{self.name}`")
        self.run(f"USE `{self.name}`")

    def fresh_scratch(self) -> None:
        """An empty scratch database, which the session is in."""
        self.run(f"DROP DATABASE IF EXISTS `{self.scratch}`")
        self.run(f"CREATE DATABASE `{self.scratch}`")
        self.run(f"USE `{self.scratch}`")

    def drop(self) -> None:
        for name in (self.name, self.scratch):
            self.run(f"DROP DATABASE IF EXISTS `{name}`")

    def live(self) -> Catalog:
        self.run(f"USE `{self.name}`")
        return read_catalog(self.query, self.name)

    def load(self, text: str, database: str) -> Loaded:
        """Load a declaration into a database, which the session must be in."""
        return load(
            self.run,
            self.begun,
            self.query,
            [("schema.sql", text)],
            scratch=database,
            target=self.name,
            server=self.server,
        )

    def declared(self, text: str) -> Catalog:
        """The declared facts."""
        self.fresh_scratch()
        loaded = self.load(text, self.scratch)
        return state(read_catalog(self.query, self.scratch, called=self.name), loaded)

    def plan(self, text: str | Catalog, policy: Policy = EVERYTHING) -> PlanResult:
        """Plan from the live database to a declaration, with the ways that the server has."""
        desired = self.declared(text) if isinstance(text, str) else text
        live = self.live()
        first = planner.plan(live, desired, policy)
        if not first.statements:
            return first
        self.fresh_scratch()
        ways = online.probe(self.run, self.query, live, first.steps, scratch=self.scratch)
        self.run(f"USE `{self.name}`")
        made = planner.plan(live, desired, policy, ways=ways)
        assert len(made.statements) == len(first.statements)
        return made

    def apply(self, made: PlanResult) -> None:
        """Run checks, then statements, as the executor does."""
        assert parse_plan(plan_bytes(made.statements)) == made.statements
        self.run(f"USE `{self.name}`")
        found: list[str] = []
        for statement in made.statements:
            if statement.is_check:
                found += [row[0] for row in self.query(statement.sql)]
        if found:
            raise DataRefused("; ".join(found))
        for statement in made.statements:
            if statement.is_check:
                continue
            try:
                self.run(statement.sql)
            except pymysql.MySQLError as error:
                error.add_note(f"statement {statement.index}: {statement.sql}")
                raise

    def build(self, text: str) -> None:
        """Make the live database what a declaration says; events stay disabled."""
        self.run(f"USE `{self.name}`")
        self.load(text, self.name)

    def converge(self, text: str | Catalog, policy: Policy = EVERYTHING) -> PlanResult:
        """Plan, apply, and see that nothing is left and that the plan foresaw what would be."""
        desired = self.declared(text) if isinstance(text, str) else text
        made = self.plan(desired, policy)
        if not made.statements or made.refusals:
            return made
        for statement in made.statements:
            assert statement.severity == "safe" or statement.reason, statement
        self.apply(made)
        live = self.live()
        again = planner.plan(live, desired, policy)
        assert [s.sql for s in again.statements] == []
        assert again.refusals == ()
        assert fingerprint(live) == made.desired_fingerprint
        return made


def alters(made: PlanResult) -> list[Step]:
    """The ALTER TABLE statements of a plan."""
    return [step for step in made.steps if " TABLE " in step.sql and step.kind != "CreateTable"]


@pytest.fixture(scope="session")
def shared_my_bench(myserver: MyServer) -> Iterator[MyBench]:
    """One bench a worker and make."""
    with closing(myserver.connect()) as conn:
        made = MyBench(conn, myserver.make)
        made.run("SET SESSION time_zone = '+00:00'")
        yield made
        made.drop()


@pytest.fixture
def my_bench(shared_my_bench: MyBench) -> MyBench:
    """The shared bench, with an empty live database."""
    shared_my_bench.empty()
    return shared_my_bench
