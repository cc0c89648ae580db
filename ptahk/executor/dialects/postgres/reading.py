"""One reading of a database: its facts, the rows they were made of, and looking once more."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from ptahk.errors import PtahkError
from ptahk.executor.dialects.postgres.catalog import read_catalog
from ptahk.executor.dialects.postgres.marks import Mark, mark, unchanged
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.planning.model import Catalog, Scope

Asked = Sequence[tuple[str, tuple[Any, ...]]]
"""(SQL, parameters) of the queries of one reading, in order."""
Rows = tuple[tuple[str, tuple[Any, ...], Sequence[tuple[Any, ...]]], ...]
"""(SQL, parameters, answer) of every query of one reading, in order."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One reading of a database, with the rows that it was made of."""

    catalog: Catalog
    scope: Scope
    rows: Rows
    mark: Mark

    def again(self, session: Session) -> Catalog:
        """A second, independent inspection in a snapshot of its own.

        Where the server shows that none of what was read has changed, it is what was read;
        otherwise everything is read again.
        """
        with session.snapshot():
            if unchanged(session.query, self.mark):
                return self.catalog
            return read_catalog(session.query, self.scope)

    @property
    def asked(self) -> Asked:
        """What it asked."""
        return [(sql, params) for sql, params, _ in self.rows]


def inspect(
    session: Session, scope: Scope, asked: Asked = (), *, versions: bool = False
) -> Inspection:
    """Read a database in one snapshot.

    :param asked: what an earlier reading asked, to be sent ahead; need not be right.
    :param versions: the second inspection will be long after, beside other work on the server.
    """
    found: list[tuple[str, tuple[Any, ...], Sequence[tuple[Any, ...]]]] = []
    with session.snapshot():
        with session.ahead(asked) as ask:

            def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
                rows = ask(sql, params)
                found.append((sql, tuple(params), rows))
                return rows

            catalog = read_catalog(query, scope)
        seen = mark(session.query, versions=versions)
    return Inspection(catalog, scope, tuple(found), seen)


def ask_all(session: Session, asked: Asked) -> Rows:
    """The answers alone, in the session's snapshot; nothing is made of them yet."""
    with session.ahead(asked) as ask:
        return tuple((sql, tuple(params), ask(sql, params)) for sql, params in asked)


class Early(Protocol):
    """A live reading that was begun before its scope was known for certain."""

    def end(self) -> None:
        """Give the session back."""

    def asked(self, scope: Scope) -> Asked:
        """What the reading asked, for another of this scope to send ahead."""

    def take(self, scope: Scope) -> Inspection | None:
        """The reading, once, if it was of this scope."""


class WhileLoading:
    """In a thread: the target session is idle while scratch is loaded."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session = session
        self._scope = scope
        self._found: Inspection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # What goes wrong here goes wrong again where it can be said: nothing was found.
        with contextlib.suppress(psycopg.Error, PtahkError):
            self._found = inspect(self._session, self._scope, versions=True)

    def end(self) -> None:
        self._thread.join()

    def asked(self, scope: Scope) -> Asked:
        self.end()
        return self._found.asked if self._found is not None and self._found.scope == scope else ()

    def take(self, scope: Scope) -> Inspection | None:
        self.end()
        found, self._found = self._found, None
        return found if found is not None and found.scope == scope else None


class _Others(Exception):
    """Another query than the one that was answered."""


@dataclass(slots=True)
class Answered:
    """A reading of which so far only the answers were taken."""

    scope: Scope
    rows: Rows
    mark: Mark

    def end(self) -> None:
        """Nothing is running."""

    def asked(self, scope: Scope) -> Asked:
        return [(sql, params) for sql, params, _ in self.rows] if scope == self.scope else ()

    def take(self, scope: Scope) -> Inspection | None:
        """The reading, unless it would have asked anything else."""
        if scope != self.scope:
            return None
        left = deque(self.rows)

        def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
            if not left or left[0][:2] != (sql, tuple(params)):
                raise _Others
            return left.popleft()[2]

        with contextlib.suppress(_Others):
            catalog = read_catalog(query, scope)
            if not left:
                return Inspection(catalog, scope, self.rows, self.mark)
        return None
