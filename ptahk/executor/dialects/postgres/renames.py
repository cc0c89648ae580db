"""Renames that a person declared (C-10.7); nothing is ever guessed.

A rename is used only where exactly its ``from`` is live and its ``to`` declared. The live catalog
is then read as if it had been renamed already: names, and the server's text in what uses it.
Text that still differs afterwards is planned as a change like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ptahk.executor.dialects.postgres.kinds import relation
from ptahk.executor.dialects.postgres.kinds.columnfacts import CATALOGED_NOT_NULL
from ptahk.executor.dialects.postgres.quote import ident, object_name, qualified
from ptahk.executor.planning.model import Catalog, Facts, ObjectId, Policy, Rename, Step

_NOUNS = {
    "table": "TABLE",
    "view": "VIEW",
    "matview": "MATERIALIZED VIEW",
    "sequence": "SEQUENCE",
    "index": "INDEX",
    "enum": "TYPE",
    "composite": "TYPE",
    "range": "TYPE",
    "domain": "DOMAIN",
}
_PARTS = frozenset(
    {"column", "default", "constraint", "trigger", "rule", "policy", "partition", "inheritance"}
)
_LITERAL = re.compile(r"('(?:[^']|'')*'(?:::regclass)?)")


@dataclass(slots=True)
class Renamed:
    """The live catalog under its new names, and the statements that make it so."""

    current: Catalog
    steps: list[Step] = field(default_factory=list)
    tables: set[tuple[str, ...]] = field(default_factory=set)
    """Tables that these touch, by old and new name."""
    notes: list[str] = field(default_factory=list)


def apply(current: Catalog, desired: Catalog, policy: Policy) -> Renamed:
    """Use every declared rename that applies; tell of those that are half true."""
    made = Renamed(current)
    for rename in policy.renames:
        if len(rename.old) == 2 and len(rename.new) == 2:
            _object(made, desired, rename)
        elif len(rename.old) == 3 and len(rename.new) == 3:
            _column(made, desired, rename)
        else:
            made.notes.append(f"{_words(rename)}: not a table or a column on both sides")
    return made


def _words(rename: Rename) -> str:
    return f"policy.renames {'.'.join(rename.old)} to {'.'.join(rename.new)}"


def _applies(made: Renamed, desired: Catalog, rename: Rename, old: ObjectId, new: ObjectId) -> bool:
    live = made.current.objects
    if old not in live:
        return False  # done already, or never there
    if new in live:
        made.notes.append(f"{_words(rename)}: not used, {new} is live too")
    elif new not in desired.objects:
        made.notes.append(f"{_words(rename)}: not used, {new} is not declared")
    elif old in desired.objects:
        made.notes.append(f"{_words(rename)}: not used, {old} is declared too")
    else:
        return True
    return False


def _object(made: Renamed, desired: Catalog, rename: Rename) -> None:
    kinds = [kind for kind in _NOUNS if ObjectId(kind, rename.old) in made.current.objects]
    for kind in kinds:
        old, new = ObjectId(kind, rename.old), ObjectId(kind, rename.new)
        if not _applies(made, desired, rename, old, new):
            continue
        _move(made, old, new)
        if kind == "table":
            made.tables.update((old.name, new.name))
            _parts(made, desired, new)


def _move(made: Renamed, old: ObjectId, new: ObjectId) -> None:
    """Rename, and move to another schema where that is said."""
    noun = _NOUNS[old.kind]
    lock = relation.lock("AccessExclusiveLock", old.name)
    reason = "whoever uses the old name fails"
    name = old.name
    if old.name[0] != new.name[0]:
        sql = f"ALTER {noun} {qualified(name)} SET SCHEMA {ident(new.name[0])}"
        made.steps.append(Step(sql, "SetSchema", old, "warning", lock, reason))
        name = (new.name[0], old.name[1])
    if old.name[1] != new.name[1]:
        sql = f"ALTER {noun} {qualified(name)} RENAME TO {ident(new.name[1])}"
        made.steps.append(Step(sql, f"Rename{old.kind.capitalize()}", old, "warning", lock, reason))
    text = _replacer(qualified(old.name), qualified(new.name))

    def key(oid: ObjectId) -> ObjectId:
        if oid.kind == old.kind and oid.name == old.name:
            return new
        if old.kind == "table" and oid.kind in _PARTS and oid.name[:2] == old.name:
            return ObjectId(oid.kind, (*new.name, *oid.name[2:]))
        if old.kind == "table" and oid.kind == "inheritance" and oid.name[2:] == old.name:
            return ObjectId(oid.kind, (*oid.name[:2], *new.name))
        if old.kind == "sequence" and oid.kind == "sequence owner" and oid.name == old.name:
            return ObjectId(oid.kind, new.name)
        return oid

    def fact(oid: ObjectId, facts: Facts) -> Facts:
        changed: Facts = _walk(facts, text, list(old.name), list(new.name))
        if oid.kind == "column" and old.kind == "table" and oid.name[:2] == old.name:
            changed = _chosen_names(made.current, oid, changed, new.name[1], oid.name[2])
        return changed

    _rekey(made, key, fact)


def _column(made: Renamed, desired: Catalog, rename: Rename) -> None:
    table = rename.new[:2]
    old = ObjectId("column", (*table, rename.old[2]))
    new = ObjectId("column", rename.new)
    if rename.old[:2] != table and rename.old[:2] not in made.tables:
        made.notes.append(f"{_words(rename)}: not used, a column stays in its table")
        return
    if not _applies(made, desired, rename, old, new):
        return
    sql = (
        f"ALTER TABLE {qualified(table)} RENAME COLUMN {ident(old.name[2])} TO {ident(new.name[2])}"
    )
    lock = relation.lock("AccessExclusiveLock", table)
    reason = "whoever uses the old name fails"
    made.steps.append(Step(sql, "RenameColumn", old, "warning", lock, reason))
    made.tables.add(table)
    users = {user for user, used in made.current.depends if used == old} | {old}
    text = _replacer(ident(old.name[2]), ident(new.name[2]))

    def key(oid: ObjectId) -> ObjectId:
        return ObjectId(oid.kind, new.name) if _is_of_column(oid, old) else oid

    def fact(oid: ObjectId, facts: Facts) -> Facts:
        if oid == old:
            return _chosen_names(made.current, oid, facts, table[1], new.name[2])
        owned: Facts = _walk(facts, str, list(old.name), list(new.name))
        if oid not in users:
            return owned
        result: dict[str, Any] = {}
        for name, value in owned.items():
            if name in ("columns", "referenced_columns") and oid.kind == "constraint":
                mine = (oid.name[:2] == table) == (name == "columns") or oid.name[:2] == table
                swap = new.name[2] if mine else old.name[2]
                result[name] = [swap if each == old.name[2] else each for each in value]
            elif name == "columns":
                result[name] = value  # of a view: its own names stay
            else:
                result[name] = _walk(value, text, [], [])
        return result

    _rekey(made, key, fact)
    _parts(made, desired, ObjectId("table", table))


def _is_of_column(oid: ObjectId, column: ObjectId) -> bool:
    return oid.kind in ("column", "default") and oid.name == column.name


def _chosen_names(
    current: Catalog, oid: ObjectId, facts: Facts, table: str, column: str
) -> dict[str, Any]:
    """Names that the server chose after the old name are no longer what it would choose."""
    result = dict(facts)
    if "identity" in facts:
        held = facts["identity"].get("name") or object_name(oid.name[1], oid.name[2], "seq")
        result["identity"] = {k: v for k, v in facts["identity"].items() if k != "name"}
        if held != object_name(table, column, "seq"):
            result["identity"]["name"] = held
    named = current.context.get("server_version", 0) >= CATALOGED_NOT_NULL
    if named and facts.get("not_null") and not facts.get("not_null_inherited"):
        default = object_name(oid.name[1], oid.name[2], "not_null")
        held = facts.get("not_null_name", default)
        result.pop("not_null_name", None)
        if held != object_name(table, column, "not_null"):
            result["not_null_name"] = held
    return result


def _parts(made: Renamed, desired: Catalog, table: ObjectId) -> None:
    """Keys, indexes and sequences that are the same but for a name made of the old one."""
    for kind in ("constraint", "index", "sequence"):
        live = {o: f for o, f in made.current.objects.items() if _belongs(o, f, kind, table)}
        declared = {o: f for o, f in desired.objects.items() if _belongs(o, f, kind, table)}
        for new, facts in declared.items():
            if new in live:
                continue
            same = [o for o, f in live.items() if o not in declared and _same(f, facts)]
            if len(same) == 1:
                _move_part(made, same[0], new, table)
                live.pop(same[0])


def _belongs(oid: ObjectId, facts: Facts, kind: str, table: ObjectId) -> bool:
    if oid.kind != kind:
        return False
    if kind == "index":
        return tuple(facts["table"]) == table.name
    if kind == "sequence":
        return tuple(facts.get("owned_by", ())[:2]) == table.name
    return oid.name[:2] == table.name


def _same(one: Facts, two: Facts) -> bool:
    skip = ("comment", "owner", "acl")
    return {k: v for k, v in one.items() if k not in skip} == {
        k: v for k, v in two.items() if k not in skip
    }


def _move_part(made: Renamed, old: ObjectId, new: ObjectId, table: ObjectId) -> None:
    if old.kind != "constraint":
        _move(made, old, new)
        return
    sql = (
        f"ALTER TABLE {qualified(table.name)} RENAME CONSTRAINT {ident(old.name[2])}"
        f" TO {ident(new.name[2])}"
    )
    lock = relation.lock("AccessExclusiveLock", table.name)
    made.steps.append(Step(sql, "RenameConstraint", old, lock=lock))
    _rekey(made, lambda oid: new if oid == old else oid, lambda _oid, facts: facts)


def _rekey(
    made: Renamed,
    key: Callable[[ObjectId], ObjectId],
    fact: Callable[[ObjectId, Facts], Facts],
) -> None:
    current = made.current
    objects = {key(oid): fact(oid, facts) for oid, facts in current.objects.items()}
    made.current = replace(
        current,
        objects=objects,
        depends=frozenset((key(a), key(b)) for a, b in current.depends),
        sizes_bytes={key(oid): size for oid, size in current.sizes_bytes.items()},
    )


def _replacer(old: str, new: str) -> Callable[[str], str]:
    """Replaces a name in SQL text, not within literals; ``'…'::regclass`` is a name too."""
    before, after = r"(?<![\w\"'])", r"(?![\w\"(])"
    if "." in old:  # a relation's name may stand before its columns: REFERENCES s.t(id)
        before, after = r"(?<![\w\"])", r"(?![\w\"])"
    token = re.compile(before + re.escape(old) + after)

    def swap(text: str) -> str:
        parts = _LITERAL.split(text)
        for place, part in enumerate(parts):
            if not part.startswith("'") or part.endswith("::regclass"):
                parts[place] = token.sub(lambda _match: new, part)
        return "".join(parts)

    return swap


def _walk(value: Any, text: Callable[[str], str], old: list[str], new: list[str]) -> Any:
    """A fact with names replaced: whole dotted names as lists, and within texts."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {k: v if k == "comment" else _walk(v, text, old, new) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        head = list(value[: len(old)])
        if old and head == old:
            return [*new, *value[len(old) :]]
        return [_walk(each, text, old, new) for each in value]
    return value
