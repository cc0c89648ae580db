"""Both sides of a comparison: the live facts, and the declared ones from a scratch database.

All of it on one session, which goes into a scratch database and comes back; with a development
server scratch is there, on a session of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ptahk.executor.dialects.mysql import cache
from ptahk.executor.dialects.mysql import scratch as scratches
from ptahk.executor.dialects.mysql.catalog import read_sizes, server_of
from ptahk.executor.dialects.mysql.load import load, state
from ptahk.executor.dialects.mysql.reading import Inspection, inspect
from ptahk.executor.dialects.mysql.scratch import ScratchUnavailable
from ptahk.executor.dialects.mysql.session import Session, connect
from ptahk.executor.planning.model import Catalog, ObjectId
from ptahk.wire.jobspec import JobSpec

Files = Sequence[tuple[str, str]]


def read_live(session: Session, spec: JobSpec) -> Catalog:
    """The live facts. The session goes into the target database."""
    return inspect(session, spec).catalog


@dataclass(slots=True)
class Bench:
    """What one operation works with: the target session, and the one where scratch is."""

    session: Session
    dev_url: str | None
    spec: JobSpec
    cache_dir: str | None = None
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step, for the summary."""
    kept_as: str = ""
    _shop: Session | None = None
    _swept: bool = False
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``timings``."""
        began = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - began
            self.timings[name] = round(self.timings.get(name, 0.0) + spent, 4)

    def live(self, known: Catalog | None = None) -> Inspection:
        """The live facts.

        :param known: an earlier reading.
        """
        with self.timed("readLive"):
            return inspect(self.session, self.spec, known=known)

    def facts_name(self, files: Files) -> str:
        """The name under which the facts of this declaration are kept; "": nothing is kept."""
        if self.cache_dir is not None and not self.kept_as:
            self.kept_as = cache.key(self.session, self.shop, self.spec, files)
        return self.kept_as

    def sizes(self) -> dict[ObjectId, int]:
        """Bytes of each table, where something differs."""
        with self.timed("readSizes"):
            return read_sizes(self.session.query, self.session.database)

    @property
    def shop(self) -> Session:
        """The session on which scratch databases are made, until the block of this bench ends.

        :raises ScratchUnavailable: the development server is of another make or version.
        """
        if self._shop is None:
            self._shop = self.session if self.dev_url is None else self._dev(self.dev_url)
        return self._shop

    def _dev(self, url: str) -> Session:
        here = self.session.identity
        other = connect(
            url,
            application_name=self.spec.application_name,
            connect_timeout_s=self.spec.policy.connect_timeout_seconds,
            budget=self.session.budget,
        )
        self._open.callback(other.close)
        there = other.identity
        if (here.mariadb, here.version // 100) != (there.mariadb, there.version // 100):
            raise ScratchUnavailable(
                f"the development server is {there.make} {there.version}, the target "
                f"{here.make} {here.version}: another version reads schemas differently",
                hint=scratches.HINT,
            )
        return other

    @contextlib.contextmanager
    def scratch(self) -> Iterator[str]:
        """An empty scratch database with the target's defaults, which ``shop`` is in."""
        shop = self.shop
        if not self._swept:
            self._swept = True
            scratches.sweep(shop.run, shop.query)
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


@dataclass(frozen=True, slots=True)
class Desired:
    """The declared facts and how to read them once more."""

    catalog: Catalog
    notes: tuple[str, ...]
    again: Callable[[], Catalog]
    """A second, independent reading: of the scratch database where one was loaded, else of the
    kept facts (C-10.2)."""


@contextlib.contextmanager
def desired(bench: Bench, files: Files) -> Iterator[Desired]:
    """The declared facts, kept or loaded; a scratch database lives as long as the block.

    :raises UsageError: the declaration does not load; with file and line.
    :raises ScratchUnavailable: it would have to be loaded, and cannot be.
    """
    name = bench.facts_name(files)
    if name:
        with bench.timed("readCache"):
            kept = cache.load(bench.cache_dir, name)
        if kept is not None:
            catalog, notes = kept
            yield Desired(catalog, tuple(notes), lambda: catalog)
            return
    shop = bench.shop
    with contextlib.ExitStack() as stack:
        with bench.timed("createScratch"):
            scratch = stack.enter_context(_timed_drop(bench))
        with bench.timed("load"):
            loaded = load(
                shop.run,
                shop.begun,
                shop.query,
                files,
                scratch=scratch,
                target=bench.session.database,
                server=server_of(str(shop.query("SELECT VERSION()")[0][0])),
                check=shop.budget.check,
            )
        with bench.timed("readScratch"):
            first = inspect(shop, bench.spec, scratch, called=bench.session.database).catalog
            declared = state(first, loaded)
        if name:
            with bench.timed("writeCache"):
                cache.store(bench.cache_dir, name, declared, loaded.notes)

        def again() -> Catalog:
            with bench.timed("readScratch"):
                found = inspect(
                    shop, bench.spec, scratch, called=bench.session.database, known=first
                )
                return state(found.catalog, loaded)

        yield Desired(declared, tuple(loaded.notes), again)


@contextlib.contextmanager
def _timed_drop(bench: Bench) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(bench.scratch())
        with bench.timed("dropScratch"):
            stack.close()
