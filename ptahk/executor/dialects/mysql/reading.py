"""One reading of a database: its facts, what was asked for them, and asking the same once more."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql

from ptahk.executor.dialects.mysql import pipeline
from ptahk.executor.dialects.mysql.catalog import KNOWN, read_catalog
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.planning.model import Catalog
from ptahk.wire import ledgersql, revisionsql
from ptahk.wire.jobspec import JobSpec

Asked = Sequence[tuple[str, tuple[Any, ...]]]
"""(SQL, parameters) of the queries of one reading, in order."""
Rows = Sequence[tuple[tuple[Any, ...], ...]]
"""Their answers."""


def excluded(spec: JobSpec) -> tuple[str, ...]:
    """What is never read: the ledger, the revision rows, and ``policy.exclude``."""
    return (*ledgersql.MYSQL_TABLES, *revisionsql.MYSQL_TABLES, *spec.policy.exclude)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts of a database, and what was asked for them."""

    catalog: Catalog
    asked: Asked
    answers: Rows

    def lasting(self) -> tuple[Asked, str]:
        """What to ask to see that nothing has changed since, and the digest of its answers.

        Everything again; but of a table that has a mark, the mark.
        """
        known = self.catalog.context[KNOWN]
        spared = {f"SHOW CREATE TABLE {ident(name)}" for name in known if known[name]["mark"]}
        kept = [
            (question, answer)
            for question, answer in zip(self.asked, self.answers, strict=True)
            if question[0] not in spared
        ]
        asked = [question for question, _ in kept]
        return asked, digest_of(asked, [answer for _, answer in kept])


def inspect(
    session: Session,
    spec: JobSpec,
    database: str = "",
    *,
    called: str = "",
    known: Catalog | None = None,
) -> Inspection:
    """Read a database, which the session goes into.

    :param database: a scratch database; "": the session's own.
    :param called: the name that stands in the facts instead.
    :param known: an earlier reading of it. It saves asking and parsing, not looking.
    """
    asked: list[tuple[str, tuple[Any, ...]]] = []
    answers: list[tuple[tuple[Any, ...], ...]] = []

    def query(sql: str, params: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        return query_all([(sql, params)])[0]

    def query_all(questions: Sequence[pipeline.Question]) -> Rows:
        found = [tuple(rows) for rows in session.answers(questions)]
        asked.extend((sql, tuple(params)) for sql, params in questions)
        answers.extend(found)
        return found

    name = database or session.database
    session.run(f"USE {ident(name)}")
    catalog = read_catalog(
        query, name, called=called, exclude=excluded(spec),
        many=lambda sqls: query_all([(sql, ()) for sql in sqls]),
        known=None if known is None else known.context[KNOWN],
    )  # fmt: skip
    return Inspection(catalog, asked, answers)


def ask_all(session: Session, asked: Asked) -> Rows | None:
    """The answers of the target; None where the server refuses one: what it is about is gone."""
    session.run(f"USE {ident(session.database)}")
    try:
        return [tuple(rows) for rows in session.answers(asked)]
    except pymysql.MySQLError:
        if session.lost:
            raise
        return None


def digest_of(asked: Asked, answers: Rows) -> str:
    """Over questions and answers, in order."""
    plain = [(sql, tuple(params), rows) for (sql, params), rows in zip(asked, answers, strict=True)]
    return hashlib.sha256(repr(plain).encode("utf-8", "surrogatepass")).hexdigest()
