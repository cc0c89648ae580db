"""Both sides of a comparison: the live facts, and the declared ones from a scratch database."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ptahk.executor.dialects.postgres import cache, stated
from ptahk.executor.dialects.postgres.catalog import read_sizes, scope_of
from ptahk.executor.dialects.postgres.load import Loaded, load
from ptahk.executor.dialects.postgres.planner import nothing_to_do
from ptahk.executor.dialects.postgres.reading import (
    Asked,
    Early,
    Inspection,
    WhileLoading,
    inspect,
)
from ptahk.executor.dialects.postgres.scratch import Workshop, workshop
from ptahk.executor.dialects.postgres.session import SETTINGS, Session
from ptahk.executor.planning.model import Catalog, ObjectId, Scope
from ptahk.wire.jobspec import JobSpec

Files = Sequence[tuple[str, str]]
_CREATED: Final = re.compile(
    r"create\s+schema\s+(?:if\s+not\s+exists\s+)?(?!authorization\b)"
    r"(?:\"((?:[^\"]|\"\")+)\"|([a-z_][\w$]*))",
    re.IGNORECASE,
)
"""Guesses the schemas of a declaration; a wrong guess costs one more reading."""


@dataclass(slots=True)
class Bench:
    """What one operation works with: the target session and where scratch databases come from."""

    session: Session
    url: str
    dev_url: str | None
    spec: JobSpec
    cache_dir: str | None
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by step, for the summary."""
    early: Early | None = None
    """A live reading that was begun before its scope was known for certain."""
    kept_as: str = ""

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``timings``."""
        began = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - began
            self.timings[name] = round(self.timings.get(name, 0.0) + spent, 4)

    def workshop(self) -> contextlib.AbstractContextManager[Workshop]:
        """Where scratch databases are made. :raises ScratchUnavailable: nowhere."""
        return workshop(self.session, self.url, self.dev_url, self.spec)

    @property
    def search_path(self) -> str:
        """The target's own, by which bare names resolve."""
        return self.session.search_path

    def scope(self, schemas: Sequence[str]) -> Scope:
        """The schemas given and those of the policy (C-10.6)."""
        names = tuple(sorted({*schemas, *self.spec.policy.schemas}))
        return Scope(names, tuple(self.spec.policy.exclude))

    def live(self, scope: Scope, asked: Asked = ()) -> Inspection:
        """The live facts, in one snapshot.

        :param asked: what an earlier reading asked, to be sent ahead.
        """
        with self.timed("readLive"):
            taken = None if self.early is None else self.early.take(scope)
            return taken or inspect(self.session, scope, asked)

    def facts_name(self, files: Files) -> str:
        """The name under which the facts of this declaration are kept; "": nothing is kept."""
        if self.cache_dir is not None and not self.kept_as:
            self.kept_as = cache.key(self.session, self.spec, files)
        return self.kept_as

    def sized(self, seen: Inspection, desired: Catalog) -> Catalog:
        """The live facts, with the sizes of tables where something differs."""
        if nothing_to_do(seen.catalog, desired):
            return seen.catalog
        with self.timed("readSizes"):
            return replace(seen.catalog, sizes_bytes=read_sizes(self.session.query, seen.scope))

    def live_again(self, first: Inspection) -> Catalog:
        """The live facts as they are now: looked at once more (C-10.2)."""
        with self.timed("readLive"):
            return first.again(self.session)


def _guess(bench: Bench, files: Files) -> Scope:
    """The scope that the declaration will probably have."""
    named = {
        quoted.replace('""', '"') if quoted else plain.lower()
        for _, text in files
        for quoted, plain in _CREATED.findall(text)
    }
    first = bench.session.query(
        "SELECT n FROM unnest(string_to_array(%s, ',')) WITH ORDINALITY AS p(raw, place),"
        " LATERAL (SELECT nspname::text AS n FROM pg_catalog.pg_namespace"
        "  WHERE nspname = CASE btrim(raw, ' \"') WHEN '$user' THEN current_user::text"
        "   ELSE btrim(raw, ' \"') END) AS s ORDER BY place LIMIT 1",
        (bench.session.search_path,),
    )
    return bench.scope([*named, *(row[0] for row in first)])


@dataclass(frozen=True, slots=True)
class Desired:
    """The declared facts and how to read them once more."""

    catalog: Catalog
    scope: Scope
    notes: tuple[str, ...]
    again: Callable[[], Catalog]
    """A second, independent reading: of the scratch database where one was loaded, else of the
    kept facts (C-10.2)."""
    asked: Asked
    """What the reading of them asked: the live side is asked the same."""
    scratch: Session | None = None
    """The session in the loaded scratch database; None where the facts were kept."""


@contextlib.contextmanager
def desired(bench: Bench, files: Files) -> Iterator[Desired]:
    """The declared facts, kept or loaded; the scratch database lives as long as the block.

    :raises UsageError: the declaration does not load; with file and line.
    :raises ScratchUnavailable: it would have to be loaded, and cannot be.
    """
    name = bench.facts_name(files)
    if name:
        with bench.timed("readCache"):
            kept = cache.load(bench.cache_dir, name)
        if kept is not None:
            catalog, notes = kept
            scope = bench.scope(notes["schemas"])
            asked = [(sql, tuple(params)) for sql, params in notes["asked"]]
            yield Desired(catalog, scope, tuple(notes["notes"]), lambda: catalog, asked)
            return
    with contextlib.ExitStack() as stack:
        with bench.timed("createScratch"):
            shop = stack.enter_context(bench.workshop())
            scratch = stack.enter_context(_timed_drop(bench, shop))
        bench.early = WhileLoading(bench.session, _guess(bench, files))
        stack.callback(bench.early.end)
        with bench.timed("load"):
            loaded = load(
                scratch,
                files,
                search_path=bench.session.search_path,
                create_roles=shop.is_dev,
            )
        restore_settings(scratch)
        schemas = scope_of(scratch.query)
        scope = bench.scope(schemas)
        with bench.timed("readScratch"):
            inspection = inspect(scratch, scope, bench.early.asked(scope))
            first = as_stated(scratch, inspection.catalog, loaded)
        if name:
            notes = {"schemas": list(schemas), "notes": loaded.notes, "asked": inspection.asked}
            writer = threading.Thread(
                target=cache.store, args=(bench.cache_dir, name, first, notes)
            )
            writer.start()  # beside what the server still has to do
            stack.callback(writer.join)

        def again() -> Catalog:
            with bench.timed("readScratch"):
                catalog = inspection.again(scratch)
                if catalog is inspection.catalog:
                    return first
                return as_stated(scratch, catalog, loaded)

        yield Desired(first, scope, tuple(loaded.notes), again, inspection.asked, scratch)


@contextlib.contextmanager
def _timed_drop(bench: Bench, shop: Workshop) -> Iterator[Session]:
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(shop.database())
        yield scratch
        with bench.timed("dropScratch"):
            stack.close()


def restore_settings(scratch: Session) -> None:
    """Read with our own settings whatever the declaration had set."""
    calls = ", ".join("set_config(%s, %s, false)" for _ in SETTINGS)
    scratch.query(f"SELECT {calls}", [text for pair in SETTINGS for text in pair])


def as_stated(scratch: Session, catalog: Catalog, loaded: Loaded) -> Catalog:
    """The facts with what the declaration states of owners and privileges (C-10.6)."""
    found = stated.resolve(loaded.mentions, catalog.objects, scratch.query)
    foreign = stated.resolve(loaded.foreign_owners, catalog.objects, scratch.query)
    objects: dict[ObjectId, Mapping[str, Any]] = dict(catalog.objects)
    said: dict[str, set[str]] = {}
    for mention, oid in (*found, *foreign):
        said.setdefault(str(oid), set()).add(mention.attribute)
    for mention, oid in foreign:
        objects[oid] = {**objects[oid], "owner": mention.role}
    context = {
        **catalog.context,
        "stated": {name: sorted(attributes) for name, attributes in sorted(said.items())},
    }
    return replace(catalog, objects=objects, context=context)
