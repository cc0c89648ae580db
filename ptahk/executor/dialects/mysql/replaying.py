"""Runs files again in a scratch database, and compares what they give: see ``executor.replaying``.

Scratch is a database beside the real one, in the same session: so each statement is judged and
rewritten by token before it is sent, and whatever names another database is not sent at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pymysql

from ptahk.errors import Refused, UsageError
from ptahk.executor.dialects.mysql import migrating
from ptahk.executor.dialects.mysql.declared import Reader, replayed
from ptahk.executor.dialects.mysql.driver import text_of
from ptahk.executor.dialects.mysql.inspecting import Bench
from ptahk.executor.dialects.mysql.load import Loaded, note, state
from ptahk.executor.dialects.mysql.planning_operation import planned, sides
from ptahk.executor.dialects.mysql.reading import inspect
from ptahk.executor.dialects.mysql.resetting import Baseline
from ptahk.executor.planning.model import Catalog
from ptahk.executor.publishing import drift_document, planning_policy
from ptahk.executor.replaying import REASON, ReplayImpossible
from ptahk.migrations.lexing.tokens import Statement
from ptahk.migrations.model import Migration


def drift(bench: Bench, migrations: Sequence[Migration]) -> dict[str, Any]:
    """How the live schema differs from what these files give.

    :raises ReplayImpossible: one of them cannot be run there.
    :raises ScratchUnavailable: there is nowhere to run them.
    """
    with bench:
        wanted = _given(bench, migrations)
        return _differences(bench, bench.live().catalog, wanted)


def compare(
    bench: Bench, one: Sequence[Migration], other: Sequence[Migration]
) -> dict[str, Any] | None:
    """How what the others give differs from what the first give; None: there are no others."""
    with bench:
        first = _given(bench, one)
        if not other:
            return None
        # Both are scratch: what was stated and not sent (definers, an event that is on) is in none.
        plain = replace(first, context={**first.context, "stated": {}})
        return _differences(bench, _given(bench, other), plain)


def _differences(bench: Bench, live: Catalog, wanted: Catalog) -> dict[str, Any]:
    policy = planning_policy(bench.spec.policy, bench.spec.active_deadline_seconds)
    return drift_document(planned(bench, live, wanted, sides(bench, live, wanted, policy)))


def _given(bench: Bench, migrations: Sequence[Migration]) -> Catalog:
    """The facts of a scratch database in which these files ran."""
    assert bench.spec.migration is not None, "of a migration"
    shop, called = bench.shop, bench.session.database
    with bench.scratch() as scratch:
        run = _Run(bench, scratch)
        baseline = Baseline(shop, bench.spec.migration.foreign_key_checks, scratch)
        try:
            for migration in migrations:
                baseline.restore()
                baseline.use(migration.statements)
                run.file(migration)
        finally:
            if not shop.lost:
                baseline.leave()
        found = inspect(shop, bench.spec, scratch, called=called).catalog
        try:
            return state(found, run.loaded)
        except UsageError as error:  # a reference to a table that no file makes
            raise Refused(f"the replay cannot be read: {error.message}", reason=REASON) from None


class _Run:
    """One replay."""

    def __init__(self, bench: Bench, scratch: str) -> None:
        query = bench.shop.query
        fold = str(query("SELECT @@lower_case_table_names")[0][0]) != "0"
        self.shop = bench.shop
        self.lock_timeout_s = bench.spec.policy.lock_timeout_seconds
        self.reader = Reader(scratch, bench.session.database, fold)
        self.others = {str(name) for (name,) in query("SHOW DATABASES")} - {scratch}
        self.loaded = Loaded()

    def file(self, migration: Migration) -> None:
        """One file, as a real run does it: data statements alone are one transaction."""
        whole = migration.tx_mode == "file"
        with self.shop.transaction() if whole else contextlib.nullcontext():
            for statement in migration.statements:
                self._send(migration, statement)

    def _send(self, migration: Migration, statement: Statement) -> None:
        try:
            prepared = replayed(self.reader, statement, self.others)
        except UsageError as error:
            raise ReplayImpossible(migration, statement, error.message) from None
        if prepared is None:
            return
        self.shop.check_still_mine(self.lock_timeout_s)
        with _explained(migration, statement):
            self.shop.run(prepared.sql)
        note(self.loaded, prepared)


@contextlib.contextmanager
def _explained(migration: Migration, statement: Statement) -> Iterator[None]:
    try:
        yield
    except pymysql.MySQLError as error:
        text = text_of(error)
        place = migrating.place_of(statement, text)
        raise ReplayImpossible(migration, statement, text, place) from None
