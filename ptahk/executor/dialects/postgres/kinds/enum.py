"""Enumerations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....planning.model import Context, Facts, ObjectId, Query, Rebuild, Scope, Step
from ..quote import literal, qualified
from . import address, common, retype

_ADD = "AddEnumValue"
_CONVERTS = frozenset({"AlterColumnType", "CreateMaterializedView"})
_LITERAL = re.compile(r"E?'((?:[^']|'')*)'")


class EnumKind:
    """An enum: its labels in order. Labels can be added in place, nothing else can."""

    name = "enum"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        rows = query(
            "SELECT t.oid::int8, t.typarray::int8, n.nspname, t.typname,"
            " ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid"
            "  ORDER BY e.enumsortorder)"
            " FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
            " WHERE t.typtype = 'e' AND n.nspname = ANY(%s)",
            (list(scope.schemas),),
        )
        for oid, array, schema, name, labels in rows:
            addresses = [(address.PG_TYPE, oid, 0), (address.PG_TYPE, array, 0)]
            yield ObjectId(self.name, (schema, name)), {"@": addresses, "labels": list(labels)}

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]:
        labels = ", ".join(literal(label) for label in new["labels"])
        return [Step(f"CREATE TYPE {qualified(oid.name)} AS ENUM ({labels})", "CreateEnum", oid)]

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        return common.drop(ctx, oid, old, "a type is dropped")

    def alter(self, ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
        before, after = old["labels"], new["labels"]
        kept = [label for label in after if label in set(before)]
        if kept == before:
            return _add(oid, before, after)
        gone = [label for label in before if label not in set(after)]
        what = f"loses {', '.join(map(repr, gone))}" if gone else "has its labels in another order"
        reason = f"{oid} {what}: its columns are rewritten with a new type"
        return Rebuild(reason, "warning", retype.aside(oid, old, reason))


def _add(oid: ObjectId, before: Sequence[str], after: Sequence[str]) -> list[Step]:
    """ADD VALUE for every new label. What uses one of them must wait for a commit (55P04)."""
    steps, known = [], set(before)
    for position, label in enumerate(after):
        if label in known:
            continue
        where = ""
        if position > 0:
            where = f" AFTER {literal(after[position - 1])}"
        elif before:
            where = f" BEFORE {literal(before[0])}"
        sql = f"ALTER TYPE {qualified(oid.name)} ADD VALUE {literal(label)}{where}"
        steps.append(Step(sql, _ADD, oid))
        known.add(label)
    return steps


def wait_for_values(steps: Sequence[Step]) -> list[Step]:
    """Sets ``commit_before`` where a statement may use a label that the plan adds (55P04).

    A label counts as used wherever its text stands as a word: literals, array literals and
    function bodies alike; and where stored text may become a label. One commit too many costs
    only that the plan is not atomic.
    """
    result: list[Step] = []
    pending: list[re.Pattern[str]] = []
    for step in steps:
        if step.kind == _ADD:
            label = step.sql.split(" ADD VALUE ", 1)[1]
            pending.append(_as_word(label))
        elif pending and (
            step.kind in _CONVERTS or any(pattern.search(step.sql) for pattern in pending)
        ):
            step = replace(step, commit_before=True)
            pending.clear()
        result.append(step)
    return result


def _as_word(clause: str) -> re.Pattern[str]:
    """The label at the start of an ADD VALUE clause, as it may stand in another statement."""
    match = _LITERAL.match(clause)
    assert match is not None, clause
    label = re.escape(match[1])
    before = r"(?<!\w)" if re.match(r"\w", match[1]) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", match[1]) else ""
    return re.compile(f"{before}{label}{after}")
