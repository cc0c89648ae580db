"""The live schema as a declaration (``observe -o sql``). Pure."""

from __future__ import annotations

from dataclasses import replace

from ptahk.executor.dialects.postgres.grammar import GRAMMAR
from ptahk.executor.dialects.postgres.kinds.unsupported import NAMES
from ptahk.executor.dialects.postgres.planner import context_of
from ptahk.executor.planning.model import (
    Catalog,
    Facts,
    ObjectId,
    PlanRefusal,
    Policy,
    Step,
)
from ptahk.executor.planning.plan import make_steps

_PUBLIC: Facts = {
    "owner": "pg_database_owner",
    "comment": "standard public schema",
    "acl": [
        ["owner", "", "CREATE", False],
        ["owner", "", "USAGE", False],
        ["public", "", "USAGE", False],
    ],
}


def declaration(catalog: Catalog) -> str:
    """SQL that makes, in an empty database, what ``catalog`` holds.

    Kinds that are not planned are listed as comments, with what could not be written.
    """
    objects = {oid: facts for oid, facts in catalog.objects.items() if oid.kind not in NAMES}
    left_out = sorted(oid for oid in catalog.objects if oid.kind in NAMES)
    wanted = replace(
        catalog,
        objects=objects,
        depends=frozenset((a, b) for a, b in catalog.depends if a in objects and b in objects),
    )
    empty = Catalog(_empty(catalog), frozenset(), {}, catalog.context)
    made = make_steps(context_of(empty, wanted, Policy()), GRAMMAR)
    lines = [f"-- not written, change it by hand: {oid}" for oid in left_out]
    for each in made:
        if isinstance(each, PlanRefusal):
            lines.append("-- " + each.message.replace("\n", " "))
        elif isinstance(each, Step):
            lines.append(each.sql + ";\n")
    return "\n".join(lines) + ("\n" if lines else "")


def _empty(catalog: Catalog) -> dict[ObjectId, Facts]:
    """What a new database has: the public schema as ``template0`` holds it from 15 on."""
    public = ObjectId("schema", ("public",))
    return {public: _PUBLIC} if public in catalog.objects else {}
