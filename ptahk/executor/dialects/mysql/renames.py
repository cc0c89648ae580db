"""Renames that a person declared (C-10.7): the live side as it is once they are done. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ptahk.executor.dialects.mysql.kinds.table import names_in
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import Facts, ObjectId, PlanRefusal, Policy, Step


@dataclass(slots=True)
class Renamed:
    """The live objects under their new names, and the statements that get there."""

    objects: dict[ObjectId, Facts]
    steps: list[Step] = field(default_factory=list)
    refusals: list[PlanRefusal] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def apply(
    live: Mapping[ObjectId, Facts],
    declared: Mapping[ObjectId, Facts],
    policy: Policy,
    database: str,
) -> Renamed:
    """Carry out the declared renames of which exactly ``from`` is live and ``to`` declared."""
    made = Renamed(dict(live))
    for rename in policy.renames:
        old, new = (_local(name, database) for name in (rename.old, rename.new))
        if len(old) == len(new) == 1:
            _table(made, declared, old[0], new[0])
        elif len(old) == len(new) == 2:
            _column(made, declared, new[0], old[1], new[1])
        else:
            message = f"rename {'.'.join(rename.old)} to {'.'.join(rename.new)}: not of one kind"
            made.refusals.append(PlanRefusal("UnsupportedChange", message))
    return made


def _local(name: tuple[str, ...], database: str) -> tuple[str, ...]:
    return name[1:] if len(name) > 1 and name[0] == database else name


def _table(made: Renamed, declared: Mapping[ObjectId, Facts], old: str, new: str) -> None:
    one, two = ObjectId("table", (old,)), ObjectId("table", (new,))
    there, free = one in made.objects, two not in made.objects
    if not there or not free or two not in declared or one in declared:
        return
    sql = f"RENAME TABLE {ident(old)} TO {ident(new)}"
    reason = "whoever uses the old name fails"
    made.steps.append(Step(sql, "RenameTable", one, "warning", reason=reason, transaction=False))
    made.names |= {old, new}
    objects: dict[ObjectId, Facts] = {}
    for oid, facts in made.objects.items():
        key, value = oid, dict(facts)
        if oid.kind in ("table", "foreign key") and oid.name[0] == old:
            key = ObjectId(oid.kind, (new, *oid.name[1:]))
        if value.get("references") == old:
            value["references"] = new
        if value.get("table") == old:
            value["table"] = new
        objects[key] = value
    made.objects = objects


def _column(
    made: Renamed, declared: Mapping[ObjectId, Facts], table: str, old: str, new: str
) -> None:
    oid = ObjectId("table", (table,))
    live, wanted = made.objects.get(oid), declared.get(oid)
    if live is None or wanted is None:
        return
    before = {column["name"] for column in live["columns"]}
    after = {column["name"] for column in wanted["columns"]}
    if old not in before or new in before or new not in after or old in after:
        return
    expressions = [
        *(column["rest"] for column in live["columns"]),
        *live.get("checks", {}).values(),
        live.get("partition", ""),
    ]
    if any(old in names_in(text) for text in expressions):
        message = (
            f"column {table}.{old} cannot be renamed to {new}: an expression of the table uses it;"
            " make the change in two steps"
        )
        made.refusals.append(PlanRefusal("UnsupportedChange", message, oid))
        return
    sql = f"ALTER TABLE {ident(table)} RENAME COLUMN {ident(old)} TO {ident(new)}"
    reason = "whoever uses the old name fails"
    made.steps.append(Step(sql, "RenameColumn", oid, "warning", reason=reason, transaction=False))
    made.names.add(table)
    made.objects[oid] = _with_column(live, old, new)
    for key, facts in list(made.objects.items()):
        if key.kind == "foreign key":
            made.objects[key] = _foreign(key, facts, table, old, new)


def _with_column(live: Facts, old: str, new: str) -> dict[str, Any]:
    result = dict(live)
    result["columns"] = [
        {**column, "name": new} if column["name"] == old else column for column in live["columns"]
    ]
    result["indexes"] = {
        name: [what, body.replace(ident(old), ident(new))]
        for name, (what, body) in live.get("indexes", {}).items()
    }
    if not result["indexes"]:
        del result["indexes"]
    return result


def _foreign(key: ObjectId, facts: Facts, table: str, old: str, new: str) -> Facts:
    result = dict(facts)
    if key.name[0] == table:
        result["columns"] = [new if name == old else name for name in facts["columns"]]
    if facts["references"] == table:
        theirs = facts["referenced_columns"]
        result["referenced_columns"] = [new if name == old else name for name in theirs]
    return result


def hints(live: Mapping[ObjectId, Facts], declared: Mapping[ObjectId, Facts]) -> Iterator[str]:
    """A drop beside a like-shaped create may have been meant as a rename; never guessed."""

    def shapes(
        mine: Mapping[ObjectId, Facts], others: Mapping[ObjectId, Facts]
    ) -> Iterator[tuple[tuple[Any, ...], str]]:
        for oid, facts in mine.items():
            if oid.kind != "table":
                continue
            if oid not in others:
                yield ("table", tuple(c["name"] for c in facts["columns"])), oid.name[0]
                continue
            names = {c["name"] for c in others[oid]["columns"]}
            for column in facts["columns"]:
                if column["name"] not in names:
                    key = ("column", oid.name[0], column["type"], column["rest"])
                    yield key, f"{oid.name[0]}.{column['name']}"

    fresh = list(shapes(declared, live))
    for key, old in shapes(live, declared):
        for other, new in fresh:
            if key == other:
                yield (
                    f"if {key[0]} {old} was meant to become {new}, say so in policy.renames:"
                    f" {old} to {new}"
                )
