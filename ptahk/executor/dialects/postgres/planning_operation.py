"""Plan: two independent inspections, one set of bytes, and a rehearsal in a second scratch."""

from __future__ import annotations

from typing import Any

from ptahk.executor.dialects.postgres import insync, ledger, planner
from ptahk.executor.dialects.postgres.applying import check_data
from ptahk.executor.dialects.postgres.catalog import fingerprint, scope_of
from ptahk.executor.dialects.postgres.inspecting import Bench, Desired, Files, desired
from ptahk.executor.dialects.postgres.insync import InSync
from ptahk.executor.dialects.postgres.reading import Inspection
from ptahk.executor.dialects.postgres.rehearsal import rehearse
from ptahk.executor.planning.document import plan_bytes
from ptahk.executor.planning.model import Catalog, Policy
from ptahk.executor.planning.result import PlanResult
from ptahk.executor.publishing import (
    drift_document,
    planning_policy,
    publish,
    publish_bytes,
    refusal,
    same_bytes,
)


def plan(bench: Bench, files: Files, out: dict[str, Any], *, for_proof: bool = False) -> None:
    """Compute a plan and fill the result document.

    :param for_proof: the ledger is there already, and what is left is not going to be applied.
    :raises PtahkError: why there is no plan, or why it may not be applied; what was computed by
        then stands in ``out``.
    """
    spec, session = bench.spec, bench.session
    if not for_proof:
        ledger.check_binding(session, spec)
    known = insync.look(bench, files)
    if known is not None and _confirm_nothing(bench, known):
        publish(known.schemas, known.notes, known.made, bench.timings, out)
        publish_bytes(plan_bytes(()), out)
        return
    with desired(bench, files) as declared:
        policy = planning_policy(spec.policy, spec.active_deadline_seconds)
        seen = bench.live(declared.scope, declared.asked)
        live = bench.sized(seen, declared.catalog)
        with bench.timed("plan"):
            first = planner.plan(live, declared.catalog, policy)
        publish(declared.scope.schemas, declared.notes, first, bench.timings, out)
        if first.refusals and not first.statements:
            raise refusal(first.refusals)
        data = _confirm(bench, declared, seen, live, policy, first)
        publish_bytes(data, out)
        setup = ledger.require(session) if first.statements and not for_proof else []
        out["summary"]["setup"] = setup
        if first.refusals:
            raise refusal(first.refusals)
        with bench.timed("checkData"):
            check_data(session, first.statements)
        if first.statements:
            with bench.timed("rehearse"):
                notes = rehearse(bench, declared, live, policy, first.statements)
            out["summary"]["notes"] += notes
        else:
            with bench.timed("writeCache"):
                insync.keep(bench, files, declared, seen, first)


def _confirm_nothing(bench: Bench, known: InSync) -> bool:
    with bench.timed("readLive"):
        return known.still(bench.session)


def _confirm(
    bench: Bench,
    declared: Desired,
    seen: Inspection,
    live: Catalog,
    policy: Policy,
    first: PlanResult,
) -> bytes:
    """The second inspection must give the same bytes, and they must parse (C-10.2).

    :param live: what ``seen`` read, with the sizes to judge by.
    """
    second_live = bench.live_again(seen)
    again = declared.again()
    with bench.timed("plan"):
        second = planner.plan(second_live, again, policy, live.sizes_bytes)
        return same_bytes(first, second)


def observe(bench: Bench, files: Files | None, out: dict[str, Any]) -> None:
    """Drift and fingerprints; with ``declaration``, the live schema as SQL. Changes nothing."""
    from ptahk.executor.dialects.postgres.declaration import declaration

    session, spec = bench.session, bench.spec
    known = None if files is None or spec.declaration else insync.look(bench, files)
    if known is not None:
        out["drift"] = drift_document(known.made)
        out["observedFingerprint"] = out["scopeFingerprint"] = known.made.observed_fingerprint
        return
    if files is None:
        scope = bench.scope(() if spec.policy.schemas else scope_of(session.query))
        live = bench.live(scope).catalog
        out["drift"] = None
    else:
        with desired(bench, files) as declared:
            seen = bench.live(declared.scope, declared.asked)
            live = bench.sized(seen, declared.catalog)
            policy = planning_policy(spec.policy, spec.active_deadline_seconds)
            made = planner.plan(live, declared.catalog, policy)
            out["drift"] = drift_document(made)
            insync.keep(bench, files, declared, seen, made)
    out["observedFingerprint"] = out["scopeFingerprint"] = fingerprint(live)
    if spec.declaration:
        out["declaration"] = declaration(live)
