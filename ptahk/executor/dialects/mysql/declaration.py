"""The live schema as a declaration (``observe -o sql``). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptahk.executor.dialects.mysql import planner
from ptahk.executor.dialects.mysql.catalog import UNSUPPORTED
from ptahk.executor.planning.model import Catalog, Policy

_DELIMITERS = ("$$", "//", ";;", "$ptahk$")


def declaration(catalog: Catalog) -> str:
    """SQL that makes, in an empty database, what ``catalog`` holds; for the servers' own client.

    Kinds that are not planned are listed as comments. Accounts are named where they are not the
    one that observes; counters of AUTO_INCREMENT are not part of a schema.
    """
    objects = {oid: facts for oid, facts in catalog.objects.items() if oid.kind not in UNSUPPORTED}
    left_out = sorted(oid for oid in catalog.objects if oid.kind in UNSUPPORTED)
    stated: dict[str, dict[str, Any]] = {}
    for oid, facts in objects.items():
        definer = facts.get("definer")
        if definer and definer != catalog.context["user"]:
            stated[str(oid)] = {"definer": definer}
    aside = {
        name: {"starts": found["starts"]}
        for name, found in catalog.context["aside"].items()
        if "starts" in found
    }
    for name in aside:
        stated.setdefault(name, {})["starts"] = True
    wanted = replace(
        catalog,
        objects=objects,
        context={**catalog.context, "stated": stated, "aside": aside},
    )
    empty = Catalog({}, frozenset(), {}, catalog.context)
    made = planner.plan(empty, wanted, Policy(partitions="Managed"))
    lines = [f"-- not written, change it by hand: {oid}" for oid in left_out]
    lines += ["-- " + each.message.replace("\n", " ") for each in made.refusals if not made.steps]
    for step in made.steps:
        lines.append(_statement(step.sql))
    return "\n".join(lines) + ("\n" if lines else "")


def _statement(sql: str) -> str:
    if ";" not in sql:
        return sql + ";\n"
    mark = next(each for each in _DELIMITERS if each not in sql)
    return f"DELIMITER {mark}\n{sql}{mark}\nDELIMITER ;\n"
