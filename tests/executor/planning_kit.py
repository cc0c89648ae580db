"""What the planner's tests share: two databases, and the road from one schema to the other.

The declared schema is loaded into one database, the live one into another; both are emptied between
cases, which is far cheaper than a new database for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ptahk.executor.dialects.postgres import planner
from ptahk.executor.dialects.postgres.catalog import (
    fingerprint,
    read_catalog,
    read_sizes,
    scope_of,
)
from ptahk.executor.dialects.postgres.planner import PlanResult
from ptahk.executor.planning.document import Statement, parse_plan, plan_bytes
from ptahk.executor.planning.model import Catalog, Policy, Scope
from tests.kit import databases
from tests.kit.servers import Server

ROLES = ("ptahk_gen_a", "ptahk_gen_b", "ptahk_a", "ptahk_b", "postgres")
"""Roles that the declarations of these tests name."""

EVERYTHING = Policy(allow_destructive=True, privileges="Managed", partitions="Managed")
"""Compares all there is, and may drop all there is."""


class DataRefused(Exception):
    """A check, run before the first statement, found rows that the plan cannot keep."""


@dataclass
class Side:
    """One of the two databases."""

    conn: psycopg.Connection[Any]

    def query(self, text: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.conn.execute(text.encode(), params or None).fetchall()

    def run(self, text: str) -> None:
        """Run a script as psql would, in ``public``."""
        if text.strip():
            self.conn.execute("SET search_path = public, pg_catalog; SET check_function_bodies = 0")
            self.conn.execute(text.encode())
            self.conn.execute("RESET ALL")

    def empty(self) -> None:
        """Back to what a new database holds."""
        if self.conn.info.transaction_status:
            self.conn.rollback()
        for kind, catalog, name, condition in (
            ("EXTENSION", "pg_extension", "extname", "extname <> 'plpgsql'"),
            ("SCHEMA", "pg_namespace", "nspname", "nspname !~ '^pg_|^information_schema$'"),
            ("EVENT TRIGGER", "pg_event_trigger", "evtname", "true"),
            ("PUBLICATION", "pg_publication", "pubname", "true"),
            ("FOREIGN DATA WRAPPER", "pg_foreign_data_wrapper", "fdwname", "oid >= 16384"),
            ("ACCESS METHOD", "pg_am", "amname", "oid >= 16384"),
        ):
            for (found,) in self.query(f"SELECT {name} FROM {catalog} WHERE {condition}"):
                identifier = sql.Identifier(found)
                self.conn.execute(sql.SQL("DROP {} {} CASCADE").format(sql.SQL(kind), identifier))
        self.conn.execute(
            "DELETE FROM pg_catalog.pg_default_acl;"
            "CREATE SCHEMA public AUTHORIZATION pg_database_owner;"
            "GRANT USAGE ON SCHEMA public TO PUBLIC;"
            "COMMENT ON SCHEMA public IS 'standard public schema'; RESET ALL"
        )

    def catalog(self, schemas: Sequence[str], exclude: Sequence[str] = ()) -> Catalog:
        self.conn.execute("SET search_path = ''")
        scope = Scope(tuple(schemas), tuple(exclude))
        found = read_catalog(self.query, scope)
        return replace(found, sizes_bytes=read_sizes(self.query, scope))

    def schemas(self) -> set[str]:
        return {*scope_of(self.query), "public"}


@dataclass
class Bench:
    """Live and declared, on one server."""

    version: int
    live: Side
    declared: Side

    def empty(self) -> None:
        self.live.empty()
        self.declared.empty()

    def plan(
        self,
        policy: Policy = EVERYTHING,
        schemas: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> PlanResult:
        """Plan over ``schemas`` (default: all that either side has)."""
        scope = sorted(schemas or self.live.schemas() | self.declared.schemas())
        live = self.live.catalog(scope, exclude)
        return planner.plan(live, self.declared.catalog(scope, exclude), policy)

    def apply(self, statements: Sequence[Statement]) -> None:
        """Run checks, then statements in their groups, as the executor does."""
        assert parse_plan(plan_bytes(statements)) == tuple(statements)
        conn = self.live.conn
        conn.execute("SET search_path = ''; SET check_function_bodies = 0")
        found = []
        for check in (s for s in statements if s.is_check):
            try:
                found += [row[0] for row in self.live.query(check.sql)]
            except psycopg.DataError as error:
                found.append(str(error))
        if found:
            raise DataRefused("; ".join(found))
        group = 0
        for statement in statements:
            if statement.is_check:
                continue
            if statement.group != group and conn.info.transaction_status:
                conn.execute("COMMIT")
            if statement.transaction and not conn.info.transaction_status:
                conn.execute("BEGIN")
            group = statement.group
            try:
                conn.execute(statement.sql.encode())
            except psycopg.Error as error:
                error.add_note(f"statement {statement.index}: {statement.sql}")
                raise
        if conn.info.transaction_status:
            conn.execute("COMMIT")
        conn.execute("RESET ALL")

    def converge(self, policy: Policy = EVERYTHING) -> PlanResult:
        """Plan, apply, and see that nothing is left and that the plan foresaw what would be."""
        made = self.plan(policy)
        if not made.statements:
            return made
        assert not made.refusals, made.refusals
        self.apply(made.statements)
        again = self.plan(policy)
        assert [s.sql for s in again.statements] == []
        assert again.refusals == ()
        scope = sorted(self.live.schemas() | self.declared.schemas())
        assert fingerprint(self.live.catalog(scope)) == made.desired_fingerprint
        return made


def make(server: Server) -> Iterator[Bench]:
    """A bench with databases of its own, removed afterwards."""
    with ExitStack() as stack:
        sides = []
        for _ in range(2):
            database = databases.create(server)
            stack.callback(database.drop)
            sides.append(Side(stack.enter_context(database.connect())))
        for role in ROLES:
            with_role = sql.SQL("CREATE ROLE {}").format(sql.Identifier(role))
            # Shared by the workers of this run.
            with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
                sides[0].conn.execute(with_role)
        yield Bench(server.version, *sides)


@pytest.fixture(scope="session")
def shared_bench(postgres: Server) -> Iterator[Bench]:
    """One bench a worker and server version."""
    yield from make(postgres)


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    """The shared bench, emptied."""
    shared_bench.empty()
    return shared_bench
