"""Plan: two independent inspections, one set of bytes, and a rehearsal in a second scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptahk.executor.dialects.mysql import insync, ledger, online, planner
from ptahk.executor.dialects.mysql.applying import check_data
from ptahk.executor.dialects.mysql.catalog import fingerprint
from ptahk.executor.dialects.mysql.inspecting import Bench, Files, desired
from ptahk.executor.dialects.mysql.rehearsal import rehearse
from ptahk.executor.planning.document import plan_bytes
from ptahk.executor.planning.model import Catalog, Policy, Step
from ptahk.executor.planning.result import PlanResult
from ptahk.executor.publishing import (
    drift_document,
    planning_policy,
    publish,
    publish_bytes,
    refusal,
    same_bytes,
)


@dataclass(frozen=True, slots=True)
class Sides:
    """What one plan was made from, but for the facts."""

    policy: Policy
    ways: Mapping[str, str]
    sizes: Mapping[Any, int]


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
    if known is not None and known.still(bench):
        publish([session.database], known.notes, known.made, bench.timings, out)
        publish_bytes(plan_bytes(()), out)
        return
    with desired(bench, files) as declared:
        seen = bench.live()
        live, wanted = seen.catalog, declared.catalog
        policy = planning_policy(spec.policy, spec.active_deadline_seconds)
        basis = sides(bench, live, wanted, policy)
        first = planned(bench, live, wanted, basis)
        publish([session.database], declared.notes, first, bench.timings, out)
        if first.refusals and not first.statements:
            raise refusal(first.refusals)
        second = planned(bench, bench.live(live).catalog, declared.again(), basis)
        publish_bytes(same_bytes(first, second), out)
        setup = ledger.require(session) if first.statements and not for_proof else []
        out["summary"]["setup"] = setup
        if first.refusals:
            raise refusal(first.refusals)
        with bench.timed("checkData"):
            check_data(session, first.statements)
        if first.statements:
            out["summary"]["notes"] += session.identity.notes
            with bench.timed("rehearse"):
                out["summary"]["notes"] += rehearse(bench, live, wanted, first)
        else:
            insync.keep(bench, files, declared, seen, first)


def planned(bench: Bench, live: Catalog, wanted: Catalog, basis: Sides) -> PlanResult:
    """One plan."""
    with bench.timed("plan"):
        return planner.plan(live, wanted, basis.policy, basis.sizes, basis.ways)


def sides(bench: Bench, live: Catalog, wanted: Catalog, policy: Policy) -> Sides:
    """Sizes, and how the server would carry out each ALTER TABLE; nothing where nothing differs."""
    if planner.nothing_to_do(live, wanted, policy):
        return Sides(policy, {}, {})
    sizes = bench.sizes()
    made = planner.plan(live, wanted, policy, sizes)
    return Sides(policy, _ways(bench, live, made.steps), sizes)


def _ways(bench: Bench, live: Catalog, steps: Sequence[Step]) -> Mapping[str, str]:
    if not steps:
        return {}
    shop = bench.shop
    with bench.timed("probe"), bench.scratch() as name:
        return online.probe(shop.run, shop.query, live, steps, scratch=name)


def observe(bench: Bench, files: Files | None, out: dict[str, Any]) -> None:
    """Drift and fingerprints; with ``declaration``, the live schema as SQL. Changes nothing."""
    from ptahk.executor.dialects.mysql.declaration import declaration

    spec = bench.spec
    known = None if files is None or spec.declaration else insync.look(bench, files)
    if known is not None:
        out["drift"] = drift_document(known.made)
        out["observedFingerprint"] = out["scopeFingerprint"] = known.made.observed_fingerprint
        return
    if files is None:
        live = bench.live().catalog
        out["drift"] = None
    else:
        with desired(bench, files) as declared:
            live = bench.live().catalog
            policy = planning_policy(spec.policy, spec.active_deadline_seconds)
            basis = sides(bench, live, declared.catalog, policy)
            out["drift"] = drift_document(planned(bench, live, declared.catalog, basis))
    out["observedFingerprint"] = out["scopeFingerprint"] = fingerprint(live)
    if spec.declaration:
        out["declaration"] = declaration(live)
