"""Both sides of a comparison: the live facts, and the declared ones from a scratch database."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg

from ptahk.errors import PtahkError
from ptahk.executor.dialects.postgres import cache, stated
from ptahk.executor.dialects.postgres.catalog import read_catalog, scope_of
from ptahk.executor.dialects.postgres.load import Loaded, load
from ptahk.executor.dialects.postgres.scratch import Workshop, workshop
from ptahk.executor.dialects.postgres.session import SETTINGS, Session
from ptahk.executor.planning.model import Catalog, ObjectId, Policy, Rename, Scope
from ptahk.wire.jobspec import JobPolicy, JobSpec

Files = Sequence[tuple[str, str]]
Asked = Sequence[tuple[str, tuple[Any, ...]]]
"""(SQL, parameters) of the queries of one reading, in order."""
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
    early: _Early | None = None
    """A live reading that runs while the declaration is loaded."""

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

    def live_again(self, first: Inspection) -> Catalog:
        """The live facts as they are now, read once more (C-10.2)."""
        with self.timed("readLive"):
            return first.again(self.session)


@dataclass(frozen=True, slots=True)
class Inspection:
    """One reading of a database, with the rows that it was made of."""

    catalog: Catalog
    scope: Scope
    rows: tuple[tuple[str, tuple[Any, ...], Sequence[tuple[Any, ...]]], ...]
    """(SQL, parameters, answer) of every query."""

    def again(self, session: Session) -> Catalog:
        """A second, independent reading in a snapshot of its own.

        It asks everything again. Where every answer is the same, so is the catalog that they make.
        """
        with session.snapshot():
            with session.ahead(self.asked) as query:
                same = all(query(sql, params) == rows for sql, params, rows in self.rows)
            return self.catalog if same else read_catalog(session.query, self.scope)

    @property
    def asked(self) -> Asked:
        """What it asked."""
        return [(sql, params) for sql, params, _ in self.rows]


def inspect(session: Session, scope: Scope, asked: Asked = ()) -> Inspection:
    """Read a database in one snapshot.

    :param asked: what an earlier reading asked, to be sent ahead; need not be right.
    """
    found: list[tuple[str, tuple[Any, ...], Sequence[tuple[Any, ...]]]] = []
    with session.snapshot(), session.ahead(asked) as ask:

        def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
            rows = ask(sql, params)
            found.append((sql, tuple(params), rows))
            return rows

        catalog = read_catalog(query, scope)
    return Inspection(catalog, scope, tuple(found))


class _Early:
    """The first live reading, in a thread: the target session is idle while scratch is loaded."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session = session
        self._scope = scope
        self._found: Inspection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # What goes wrong here goes wrong again where it can be said: nothing was found.
        with contextlib.suppress(psycopg.Error, PtahkError):
            self._found = inspect(self._session, self._scope)

    def end(self) -> None:
        """Give the session back."""
        self._thread.join()

    def asked(self, scope: Scope) -> Asked:
        """What the reading asked, for another of this scope to send ahead."""
        self.end()
        return self._found.asked if self._found is not None and self._found.scope == scope else ()

    def take(self, scope: Scope) -> Inspection | None:
        """The reading, once, if it was of this scope."""
        self.end()
        found, self._found = self._found, None
        return found if found is not None and found.scope == scope else None


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
    name = ""
    if bench.cache_dir is not None:
        name = cache.key(bench.session, bench.spec, files)
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
        bench.early = _Early(bench.session, _guess(bench, files))
        stack.callback(bench.early.end)
        with bench.timed("load"):
            loaded = load(
                scratch,
                files,
                search_path=bench.session.search_path,
                create_roles=shop.is_dev,
            )
        _restore_settings(scratch)
        schemas = scope_of(scratch.query)
        scope = bench.scope(schemas)
        with bench.timed("readScratch"):
            inspection = inspect(scratch, scope, bench.early.asked(scope))
            first = _stated(scratch, inspection.catalog, loaded)
        if bench.cache_dir is not None:
            with bench.timed("writeCache"):
                kept_notes = {
                    "schemas": list(schemas),
                    "notes": loaded.notes,
                    "asked": inspection.asked,
                }
                cache.store(bench.cache_dir, name, first, kept_notes)

        def again() -> Catalog:
            with bench.timed("readScratch"):
                catalog = inspection.again(scratch)
                if catalog is inspection.catalog:
                    return first
                return _stated(scratch, catalog, loaded)

        yield Desired(first, scope, tuple(loaded.notes), again, inspection.asked, scratch)


@contextlib.contextmanager
def _timed_drop(bench: Bench, shop: Workshop) -> Iterator[Session]:
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(shop.database())
        yield scratch
        with bench.timed("dropScratch"):
            stack.close()


def _restore_settings(scratch: Session) -> None:
    """Read with our own settings whatever the declaration had set."""
    calls = ", ".join("set_config(%s, %s, false)" for _ in SETTINGS)
    scratch.query(f"SELECT {calls}", [text for pair in SETTINGS for text in pair])


def _stated(scratch: Session, catalog: Catalog, loaded: Loaded) -> Catalog:
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


def planning_policy(policy: JobPolicy, deadline_s: int) -> Policy:
    """The planner's view of the Job's policy."""
    return Policy(
        allow_destructive=policy.allow_destructive,
        protected_tables=tuple(policy.protected_tables),
        privileges=policy.privileges,
        partitions=policy.partitions,
        renames=tuple(
            Rename(tuple(old.split(".")), tuple(new.split("."))) for old, new in policy.renames
        ),
        lock_timeout_s=policy.lock_timeout_seconds,
        deadline_s=deadline_s,
        deadline_explicit=policy.deadline_explicit,
    )
