"""Cuts steps into transaction groups and numbers them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ptahk.executor.planning.document import Statement
from ptahk.executor.planning.model import Step
from ptahk.executor.planning.plan import CHECK

LOCK_TABLE_SHARE = 4
"""A group may fill one part in this many of the server's lock table."""

# Measured; what works on something that the group already holds costs nothing more.
_LOCKS = {
    "CreateTable": 12,
    "DropTable": 20,
    "CreateMaterializedView": 16,
    "DropMaterializedView": 16,
    "AddForeignKey": 10,
    "AlterColumnType": 12,
    "Comment": 0,
    "Grant": 0,
    "Revoke": 0,
}
_LOCKS_OTHER = 2


def number(
    steps: Sequence[Step], lock_capacity: int, *, alone: bool = False
) -> tuple[tuple[Statement, ...], bool]:
    """Numbered statements, and whether the lock table forced a cut that nothing else asked for.

    :param lock_capacity: slots of the server's lock table.
    :param alone: each statement commits by itself (``transactionMode: none``).
    """
    statements: list[Statement] = []
    group = 0
    locks = 0
    forced = False
    previous: Step | None = None
    for index, step in enumerate(steps, start=1):
        cost = _LOCKS.get(step.kind, _LOCKS_OTHER)
        cut = previous is None or _cuts(previous, step) or (alone and step.kind != CHECK)
        if not cut and (locks + cost) * LOCK_TABLE_SHARE > lock_capacity:
            cut = forced = True
        if cut:
            group += 1
            locks = 0
        locks += cost
        previous = step
        statements.append(
            Statement(
                index=index,
                sql=step.sql,
                kind=step.kind,
                object=str(step.object),
                severity=step.severity,
                lock=step.lock,
                reason=step.reason,
                group=group,
                transaction=step.transaction,
                lock_timeout_s=None if step.lock_timeout_s is None else int(step.lock_timeout_s),
            )
        )
    return tuple(statements), forced


def _cuts(one: Step, two: Step) -> bool:
    return (
        not one.transaction
        or not two.transaction
        or two.commit_before
        or (one.kind == CHECK) != (two.kind == CHECK)
    )
