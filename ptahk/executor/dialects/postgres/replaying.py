"""Runs files again in a scratch database, and compares what they give (``executor.replaying``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from ptahk.errors import UsageError
from ptahk.executor.dialects.postgres import declared, migrating, planner
from ptahk.executor.dialects.postgres.catalog import scope_of
from ptahk.executor.dialects.postgres.inspecting import Bench, as_stated, restore_settings
from ptahk.executor.dialects.postgres.load import Loaded
from ptahk.executor.dialects.postgres.reading import inspect
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.planning.model import Catalog, Scope
from ptahk.executor.publishing import drift_document, planning_policy
from ptahk.executor.replaying import ReplayImpossible
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import Migration


def drift(bench: Bench, migrations: Sequence[Migration]) -> dict[str, Any]:
    """How the live schema differs from what these files give.

    :raises ReplayImpossible: one of them cannot be run there.
    :raises ScratchUnavailable: there is nowhere to run them.
    """
    with _replayed(bench, migrations) as scratch:
        scope = bench.scope(scope_of(scratch.query))
        wanted = _facts(scratch, scope)
        seen = bench.live(scope)
        return _differences(bench, bench.sized(seen, wanted), wanted)


def compare(
    bench: Bench, one: Sequence[Migration], other: Sequence[Migration]
) -> dict[str, Any] | None:
    """How what the others give differs from what the first give; None: there are no others."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(_replayed(bench, one))
        if not other:
            return None
        second = stack.enter_context(_replayed(bench, other))
        schemas = {*scope_of(first.query), *scope_of(second.query)}
        scope = bench.scope(sorted(schemas))
        return _differences(bench, _facts(second, scope), _facts(first, scope))


def _differences(bench: Bench, live: Catalog, wanted: Catalog) -> dict[str, Any]:
    policy = planning_policy(bench.spec.policy, bench.spec.active_deadline_seconds)
    return drift_document(planner.plan(live, wanted, policy))


def _facts(scratch: Session, scope: Scope) -> Catalog:
    return as_stated(scratch, inspect(scratch, scope).catalog, Loaded())


@contextlib.contextmanager
def _replayed(bench: Bench, migrations: Sequence[Migration]) -> Iterator[Session]:
    """A scratch database in which they ran, ready to be read."""
    with bench.workshop() as shop, shop.database() as scratch:
        for migration in migrations:
            migrating.reset(scratch)
            scratch.query("SELECT set_config('search_path', %s, false)", (bench.search_path,))
            _run(scratch, migration, bench.spec.policy.lock_timeout_seconds)
        migrating.reset(scratch)
        restore_settings(scratch)
        yield scratch


def _run(scratch: Session, migration: Migration, lock_timeout_s: float) -> None:
    whole = migration.tx_mode == "file"
    with scratch.transaction() if whole else contextlib.nullcontext():
        for statement in migration.statements:
            _send(scratch, migration, statement, lock_timeout_s)
        if whole and migration.statements:
            last = migration.statements[-1]
            with _explained(migration, last):  # a deferred constraint fails here
                scratch.run("SET CONSTRAINTS ALL IMMEDIATE")


def _send(
    scratch: Session, migration: Migration, statement: Statement, lock_timeout_s: float
) -> None:
    try:
        runs = declared.replayed(statement)
    except UsageError as error:
        raise ReplayImpossible(migration, statement, error.message) from None
    if not runs:
        return
    scratch.check_still_mine(lock_timeout_s)
    with _explained(migration, statement):
        if statement.data is None:
            scratch.run(statement.text)
        else:
            migrating.copy(scratch, statement)


@contextlib.contextmanager
def _explained(migration: Migration, statement: Statement) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        said = migrating.explained(statement, error)
        raise ReplayImpossible(
            migration, statement, said.message, (said.line, said.column)
        ) from None
