"""Rehearses a plan in scratch: from a copy of the live schema it must reach the declared one.

Where the declaration was loaded, its scratch database is first planned back to the live schema:
that costs as much as the change, not as much as the schema. Otherwise, or where there is no way
back, the live schema is built in a scratch database of its own. Owners and privileges have no
part in it: this role may not be able to set them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import psycopg

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres import planner
from ptahk.executor.dialects.postgres.catalog import read_catalog
from ptahk.executor.dialects.postgres.inspecting import Bench, Desired
from ptahk.executor.dialects.postgres.scratch import ScratchUnavailable
from ptahk.executor.dialects.postgres.session import Session, first_line
from ptahk.executor.planning.document import Statement
from ptahk.executor.planning.model import Catalog, Policy

OBJECTS_MAX: Final = 3000
"""Above this many live objects a scratch database of their own would cost more than the plan:
then the rehearsal is left out, and the summary says so."""
_PRIVILEGE: Final = "42501"


class Impossible(Exception):
    """The live schema cannot be had in scratch; the text says why."""


def rehearse(
    bench: Bench,
    declared: Desired,
    live: Catalog,
    policy: Policy,
    statements: Sequence[Statement],
) -> list[str]:
    """Run the plan on a copy of the live schema, and compare.

    :returns: notes: why it was left out, if it was.
    :raises Refused: ``PlanUnproven``: a statement fails there, or something is left to do.
    """
    plain = replace(
        policy, privileges="Declared", allow_destructive=True, protected_tables=(), renames=()
    )
    if declared.scratch is not None:
        try:
            _become(declared.scratch, declared, live, plain)
        except Impossible:
            pass  # there is a second way
        else:
            _run_and_compare(declared.scratch, declared, plain, statements)
            return []
    if len(live.objects) > OBJECTS_MAX:
        return [f"not rehearsed: the live schema has more than {OBJECTS_MAX} objects"]
    try:
        with bench.workshop() as shop, shop.database() as scratch:
            _become(scratch, declared, live, plain)
            _run_and_compare(scratch, declared, plain, statements)
    except (ScratchUnavailable, Impossible) as error:
        return [f"not rehearsed: {error}"]
    return []


def _become(scratch: Session, declared: Desired, live: Catalog, policy: Policy) -> None:
    """Turn the scratch database into a copy of the live schema.

    :raises Impossible: by plan or by the server.
    """
    way = planner.plan(_read(scratch, declared), _unstated(live), policy)
    if way.refusals and not way.statements:
        raise Impossible(f"the live schema cannot be built: {way.refusals[0].message}")
    failed = _run(scratch, way.statements)
    if failed is not None:
        raise Impossible(f"the live schema cannot be built: {failed}")
    left = planner.plan(_read(scratch, declared), _unstated(live), policy)
    if left.statements or left.refusals:
        raise Impossible("the live schema cannot be built in full")


def _run_and_compare(
    scratch: Session, declared: Desired, policy: Policy, statements: Sequence[Statement]
) -> None:
    failed = _run(scratch, statements)
    if failed is not None:
        raise Refused(f"the plan fails in rehearsal: {failed}", reason="PlanUnproven")
    left = planner.plan(_read(scratch, declared), _unstated(declared.catalog), policy)
    if left.statements or left.refusals:
        first = left.statements[0].object if left.statements else left.refusals[0].message
        raise Refused(
            f"the plan does not reach the declared schema in rehearsal: {first} still differs",
            reason="PlanUnproven",
            hint="please report this with the two schemas",
        )


def _read(scratch: Session, declared: Desired) -> Catalog:
    with scratch.snapshot():
        return read_catalog(scratch.query, declared.scope)


def _unstated(catalog: Catalog) -> Catalog:
    return replace(catalog, context={**catalog.context, "stated": {}})


def _run(scratch: Session, statements: Sequence[Statement]) -> str | None:
    """Run statements one by one; what failed and why, if one did."""
    for statement in statements:
        if statement.is_check:
            continue
        scratch.budget.check()
        try:
            scratch.run(statement.sql)
        except psycopg.Error as error:
            if statement.severity == "privilege" and error.sqlstate == _PRIVILEGE:
                continue
            return f"{statement.object}: {first_line(error)}"
    return None
