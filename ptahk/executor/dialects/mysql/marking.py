"""The ledger's rows of a sequence's statements, written with the revision rows (C-6.11, C-11.11).

A statement that commits by itself has a row with a digest of the object that it is about, as one of
a plan has. Every function here works within the transaction that is open, so that both records say
the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ptahk.executor.dialects.mysql import custody, ledger, settling
from ptahk.executor.dialects.mysql.custody import name
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.filerun import Run
from ptahk.migrations import effects, rules
from ptahk.migrations.model import Migration
from ptahk.migrations.reading import statement_digest
from ptahk.wire.jobspec import JobSpec


def with_marks(run: Run, session: Session, spec: JobSpec, migrations: Sequence[Migration]) -> Run:
    """The run, recorded in the ledger too.

    :param spec: of the operation whose ``started`` row is there.
    :param migrations: what is run, in order; the ledger numbers their statements through.
    """
    statements = [each for migration in migrations for each in migration.statements]
    together = frozenset(_in_units(migrations))
    objects: dict[int, str] = {}

    def intend(number: int) -> None:
        statement = statements[number - 1]
        named = "" if number in together else effects.object_of(statement, session.database)
        objects[number] = named[:512]
        before = _digest(session, objects[number])
        ledger.update(session, spec, "statement_running = %s", (number,))
        session.change(
            f"INSERT INTO {name(session, 'ptahk_statement')} (operation_id, number, state, object,"
            " sql_digest, before_digest, started_at)"
            " VALUES (%s, %s, 'started', %s, %s, %s, UTC_TIMESTAMP(6))",
            (spec.operation_id, number, objects[number], statement_digest(statement), before),
        )

    def done(number: int) -> None:
        ledger.update(session, spec, "statements_done = %s, statement_running = NULL", (number,))
        for each in [each for each in objects if each <= number]:
            after = _digest(session, objects.pop(each)) or None
            ledger.end(session, spec.operation_id, each, "done", after, "")

    def undone(number: int, error: str) -> None:
        objects.pop(number, None)
        ledger.update(session, spec, "statement_running = NULL", ())
        ledger.end(session, spec.operation_id, number, "none", None, error)

    return dataclasses.replace(run, intend=intend, done=done, undone=undone)


def _in_units(migrations: Sequence[Migration]) -> Iterator[int]:
    """Numbers of the statements whose mark stands for others too: what became of the object of one
    does not tell what became of them."""
    before = 0
    for migration in migrations:
        for unit in rules.units(migration.statements, "none", "mysql"):
            if unit.kind in ("locked", "transaction"):
                yield from range(before + unit.first, before + unit.last + 1)
        before += len(migration.statements)


def _digest(session: Session, named: str) -> str:
    return settling.digest_of(session, named) if named else ""


def effect_of_last(session: Session, operation_id: str) -> bool | None:
    """Whether the last statement that an operation marked took effect; the lock is held.

    :returns: None: nothing tells.
    """
    if not custody.presence(session).readable:
        return None
    found = session.query(
        f"SELECT state, object, before_digest FROM {name(session, 'ptahk_statement')}"
        " WHERE operation_id = %s ORDER BY number DESC LIMIT 1",
        (operation_id,),
    )
    if not found:
        return None
    state, named, before = (str(value) for value in found[0])
    if state != "started":
        return state == "done"
    return settling.digest_of(session, named) != before if named else None
