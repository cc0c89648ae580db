"""Both sides of a comparison: the live facts, and the declared ones from a scratch database.

All of it on one session, which goes into a scratch database and comes back; with a development
server scratch is there, on a session of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ptahk.executor.dialects.mysql import scratch as scratches
from ptahk.executor.dialects.mysql.catalog import read_catalog, read_sizes, server_of
from ptahk.executor.dialects.mysql.load import Loaded, load, state
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.dialects.mysql.scratch import ScratchUnavailable
from ptahk.executor.dialects.mysql.session import Session, connect
from ptahk.executor.planning.model import Catalog, ObjectId
from ptahk.wire import ledgersql, revisionsql
from ptahk.wire.jobspec import JobSpec

Files = Sequence[tuple[str, str]]


def excluded(spec: JobSpec) -> tuple[str, ...]:
    """What is never read: the ledger, the revision rows, and ``policy.exclude``."""
    return (*ledgersql.MYSQL_TABLES, *revisionsql.MYSQL_TABLES, *spec.policy.exclude)


def read_live(session: Session, spec: JobSpec) -> Catalog:
    """The live facts. The session goes into the target database."""
    session.run(f"USE {ident(session.database)}")
    return read_catalog(session.query, session.database, exclude=excluded(spec))


@dataclass(slots=True)
class Bench:
    """What one operation works with: the target session, and the one where scratch is."""

    session: Session
    dev_url: str | None
    spec: JobSpec
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step, for the summary."""

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``timings``."""
        began = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - began
            self.timings[name] = round(self.timings.get(name, 0.0) + spent, 4)

    def live(self) -> Catalog:
        """The live facts."""
        with self.timed("readLive"):
            return read_live(self.session, self.spec)

    def sizes(self) -> dict[ObjectId, int]:
        """Bytes of each table, where something differs."""
        with self.timed("readSizes"):
            return read_sizes(self.session.query, self.session.database)

    @contextlib.contextmanager
    def workshop(self) -> Iterator[Session]:
        """The session on which scratch databases are made.

        :raises ScratchUnavailable: the development server is of another make or version.
        """
        if self.dev_url is None:
            yield self.session
            return
        here = self.session.identity
        other = connect(
            self.dev_url,
            application_name=self.spec.application_name,
            connect_timeout_s=self.spec.policy.connect_timeout_seconds,
            budget=self.session.budget,
        )
        try:
            there = other.identity
            if (here.mariadb, here.version // 100) != (there.mariadb, there.version // 100):
                raise ScratchUnavailable(
                    f"the development server is {there.make} {there.version}, the target "
                    f"{here.make} {here.version}: another version reads schemas differently",
                    hint=scratches.HINT,
                )
            yield other
        finally:
            other.close()

    @contextlib.contextmanager
    def scratch(self, shop: Session) -> Iterator[str]:
        """An empty scratch database with the target's defaults, which ``shop`` is in."""
        charset, collation = self.session.query(
            "SELECT default_character_set_name, default_collation_name"
            " FROM information_schema.schemata WHERE schema_name = %s",
            (self.session.database,),
        )[0]
        with scratches.database(
            shop.run,
            shop.query,
            target=shop.database,
            charset=str(charset),
            collation=str(collation),
            seconds=shop.budget.remaining(),
        ) as name:
            yield name


@dataclass(slots=True)
class Desired:
    """The declared facts, and the scratch database that they were read from."""

    bench: Bench
    shop: Session
    name: str
    loaded: Loaded

    def read(self) -> Catalog:
        """The declared facts, read from scratch now."""
        with self.bench.timed("readScratch"):
            self.shop.run(f"USE {ident(self.name)}")
            found = read_catalog(
                self.shop.query,
                self.name,
                called=self.bench.session.database,
                exclude=excluded(self.bench.spec),
            )
            return state(found, self.loaded)


@contextlib.contextmanager
def desired(bench: Bench, files: Files) -> Iterator[Desired]:
    """The declaration, loaded; its scratch database lives as long as the block.

    :raises UsageError: the declaration does not load; with file and line.
    :raises ScratchUnavailable: no scratch database is to be had.
    """
    with contextlib.ExitStack() as stack:
        shop = stack.enter_context(bench.workshop())
        with bench.timed("createScratch"):
            scratches.sweep(shop.run, shop.query)
            name = stack.enter_context(bench.scratch(shop))
        with bench.timed("load"):
            loaded = load(
                shop.run,
                shop.query,
                files,
                scratch=name,
                target=bench.session.database,
                server=server_of(str(shop.query("SELECT VERSION()")[0][0])),
                check=shop.budget.check,
            )
        yield Desired(bench, shop, name, loaded)
