"""Rehearses a plan in scratch: from a copy of the live schema it must reach the declared one.

Events have no part in it: in a copy they would run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pymysql

from ptahk.errors import Refused
from ptahk.executor.dialects.mysql import planner
from ptahk.executor.dialects.mysql.driver import text_of
from ptahk.executor.dialects.mysql.inspecting import Bench
from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.dialects.mysql.reading import inspect
from ptahk.executor.dialects.mysql.scratch import ScratchUnavailable
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.planning.document import Statement
from ptahk.executor.planning.model import Catalog, Policy
from ptahk.executor.planning.result import PlanResult

OBJECTS_MAX: Final = 3000
"""Above this many live objects a copy of them would cost more than the plan: then the rehearsal is
left out, and the summary says so."""
_FREE: Final = Policy(allow_destructive=True, partitions="Managed")


def rehearse(bench: Bench, live: Catalog, wanted: Catalog, made: PlanResult) -> list[str]:
    """Run the plan on a copy of the live schema, and compare.

    :returns: notes: why it was left out, if it was.
    :raises Refused: ``PlanUnproven``: a statement fails there, or something is left to do.
    """
    if len(live.objects) > OBJECTS_MAX:
        return [f"not rehearsed: the live schema has more than {OBJECTS_MAX} objects"]
    shop = bench.shop
    try:
        with bench.scratch() as name:
            here = _without_events(live)
            empty = Catalog({}, frozenset(), {}, live.context)
            failed = _run(shop, bench, name, planner.plan(empty, here, _FREE).statements)
            if failed is not None or planner.plan(_read(shop, bench, name), here, _FREE).steps:
                return [f"not rehearsed: the live schema cannot be built in full ({failed or '-'})"]
            _run_and_compare(shop, bench, name, wanted, made)
    except ScratchUnavailable as error:
        return [f"not rehearsed: {error}"]
    return []


def _run_and_compare(
    shop: Session, bench: Bench, name: str, wanted: Catalog, made: PlanResult
) -> None:
    failed = _run(shop, bench, name, made.statements)
    if failed is not None:
        raise Refused(f"the plan fails in rehearsal: {failed}", reason="PlanUnproven")
    policy = replace(_FREE, partitions=bench.spec.policy.partitions)
    left = planner.plan(_read(shop, bench, name), _without_events(wanted), policy)
    if left.statements or left.refusals:
        first = left.statements[0].object if left.statements else left.refusals[0].message
        raise Refused(
            f"the plan does not reach the declared schema in rehearsal: {first} still differs",
            reason="PlanUnproven",
            hint="please report this with the two schemas",
        )


def _without_events(catalog: Catalog) -> Catalog:
    kept = {oid: facts for oid, facts in catalog.objects.items() if oid.kind != "event"}
    return replace(catalog, objects=kept)


def _read(shop: Session, bench: Bench, name: str) -> Catalog:
    found = inspect(shop, bench.spec, name, called=bench.session.database)
    return _without_events(found.catalog)


def _run(shop: Session, bench: Bench, name: str, statements: Iterable[Statement]) -> str | None:
    """Run statements one by one; what failed and why, if one did."""
    target, there = f"{ident(bench.session.database)}.", f"{ident(name)}."
    try:
        for statement in statements:
            if statement.is_check or statement.object.startswith("event "):
                continue
            shop.budget.check()
            try:
                shop.run(statement.sql.replace(target, there))
            except pymysql.MySQLError as error:
                return f"{statement.object}: {text_of(error)}"
        return None
    finally:
        shop.reset_modes()
