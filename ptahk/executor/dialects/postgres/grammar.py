"""PostgreSQL's kinds as the planner wants to be told of them."""

from __future__ import annotations

from ptahk.executor.dialects.postgres import shape
from ptahk.executor.dialects.postgres.kinds import KINDS, common, retype
from ptahk.executor.planning.grammar import Grammar
from ptahk.executor.planning.model import Facts, ObjectId, Step


def _aside(oid: ObjectId, facts: Facts, reason: str) -> tuple[Step, Step] | None:
    return retype.aside(oid, facts, reason) if oid.kind in retype.TYPE_KINDS else None


GRAMMAR = Grammar(
    kinds={kind.name: kind for kind in KINDS},
    rank={kind.name: place for place, kind in enumerate(KINDS)},
    parent=shape.parent,
    names=shape.names,
    frees=shape.frees,
    inliner=shape.inliner,
    label=shape.label,
    first=shape.FIRST,
    last=shape.LAST,
    never_rebuilt=shape.NEVER_REBUILT,
    aside=_aside,
    types=retype.TYPE_KINDS,
    # A foreign key takes the first key over its columns, as a call takes the best routine.
    overloaded=frozenset({"function", "procedure", "aggregate", "operator", "constraint", "index"}),
    attributes=common.attributes,
)
