"""Plan: two independent inspections, one set of bytes, and a rehearsal in a second scratch."""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres import insync, ledger, planner
from ptahk.executor.dialects.postgres.applying import check_data, read_plan
from ptahk.executor.dialects.postgres.catalog import fingerprint, scope_of
from ptahk.executor.dialects.postgres.inspecting import Bench, Desired, Files, desired
from ptahk.executor.dialects.postgres.inspecting import planning_policy as policy_of
from ptahk.executor.dialects.postgres.insync import InSync
from ptahk.executor.dialects.postgres.reading import Inspection
from ptahk.executor.dialects.postgres.rehearsal import rehearse
from ptahk.executor.planning.document import plan_bytes
from ptahk.executor.planning.model import SEVERITIES, Catalog, PlanRefusal, Policy
from ptahk.executor.planning.result import PlanResult, drift
from ptahk.wire import digest

PLAN_RAW_BYTES_MAX: Final = 8 * 1024 * 1024
PLAN_PACKED_BYTES_MAX: Final = 900 * 1024


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
        _publish(bench, known.schemas, known.notes, known.made, out)
        _publish_bytes(plan_bytes(()), out)
        return
    with desired(bench, files) as declared:
        policy = policy_of(spec.policy, spec.active_deadline_seconds)
        seen = bench.live(declared.scope, declared.asked)
        live = bench.sized(seen, declared.catalog)
        with bench.timed("plan"):
            first = planner.plan(live, declared.catalog, policy)
        _publish(bench, declared.scope.schemas, declared.notes, first, out)
        if first.refusals and not first.statements:
            raise _refusal(first.refusals)
        data = _confirm(bench, declared, seen, live, policy, first)
        _publish_bytes(data, out)
        setup = ledger.require(session) if first.statements and not for_proof else []
        out["summary"]["setup"] = setup
        if first.refusals:
            raise _refusal(first.refusals)
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
        data, other = plan_bytes(first.statements), plan_bytes(second.statements)
    same = (first.observed_fingerprint, first.desired_fingerprint) == (
        second.observed_fingerprint,
        second.desired_fingerprint,
    )
    if data != other or not same:
        raise Refused(
            "two inspections in a row gave two plans: the database is being changed right now",
            reason="UnstablePlan",
            hint="plan again when nothing else changes the schema",
        )
    if read_plan(data) != first.statements:
        raise Refused("the plan does not survive its own parser", reason="InvalidPlan")
    return data


def _publish(
    bench: Bench,
    schemas: Sequence[str],
    notes: Sequence[str],
    made: PlanResult,
    out: dict[str, Any],
) -> None:
    severities = Counter(statement.severity for statement in made.statements)
    out["observedFingerprint"] = made.observed_fingerprint
    out["desiredFingerprint"] = made.desired_fingerprint
    out["scopeFingerprint"] = made.observed_fingerprint
    out["drift"] = drift_document(made)
    out["summary"] = {
        "scope": list(schemas),
        "statements": len(made.statements),
        "severities": {name: severities.get(name, 0) for name in SEVERITIES},
        "destructive": severities.get("destructive", 0) > 0,
        "privileges": severities.get("privilege", 0) > 0,
        "setup": [],
        "sizes": {str(index): size for index, size in sorted(made.sizes_bytes.items())},
        "notes": [*notes, *made.notes],
        "timingsSeconds": bench.timings,
    }


def _publish_bytes(data: bytes, out: dict[str, Any]) -> None:
    packed = gzip.compress(data, 6, mtime=0)
    if len(data) > PLAN_RAW_BYTES_MAX or len(packed) > PLAN_PACKED_BYTES_MAX:
        raise Refused(
            f"the plan is too large (bytes={len(data)}, compressed={len(packed)}): at most "
            f"{PLAN_RAW_BYTES_MAX} and {PLAN_PACKED_BYTES_MAX}",
            reason="PlanTooLarge",
            hint="declare and apply the change in parts",
        )
    out["planBytes"] = base64.b64encode(packed).decode("ascii")
    out["planDigest"] = digest.plan_content_digest(data)


def _refusal(refusals: Sequence[PlanRefusal]) -> Refused:
    first = refusals[0]
    more = "".join(f"; {each.message}" for each in refusals[1:10])
    left = len(refusals) - 10
    return Refused(
        f"{first.message}{more}" + (f"; and {left} more" if left > 0 else ""),
        reason=first.reason,
        field=None if first.object is None else str(first.object),
    )


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
            policy = policy_of(spec.policy, spec.active_deadline_seconds)
            made = planner.plan(live, declared.catalog, policy)
            out["drift"] = drift_document(made)
            insync.keep(bench, files, declared, seen, made)
    out["observedFingerprint"] = out["scopeFingerprint"] = fingerprint(live)
    if spec.declaration:
        out["declaration"] = declaration(live)


def drift_document(made: PlanResult) -> dict[str, Any]:
    """C-10.1."""
    report = drift(made)
    body = {
        "counts": dict(report.counts),
        "highest": report.highest,
        "items": [
            {"category": item.category, "object": item.object, "severity": item.severity}
            for item in report.items
        ],
    }
    return {"digest": digest.drift_digest(body), **body}
