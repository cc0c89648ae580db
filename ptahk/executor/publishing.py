"""What the planning operations of every engine hand on: the result document's parts. Pure."""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ptahk.errors import Refused
from ptahk.executor.planning.document import (
    PlanDocumentError,
    Statement,
    parse_plan,
    plan_bytes,
)
from ptahk.executor.planning.model import SEVERITIES, PlanRefusal, Policy, Rename
from ptahk.executor.planning.result import PlanResult, drift
from ptahk.wire import digest
from ptahk.wire.jobspec import JobPolicy

PLAN_RAW_BYTES_MAX: Final = 8 * 1024 * 1024
PLAN_PACKED_BYTES_MAX: Final = 900 * 1024


def planning_policy(policy: JobPolicy, deadline_s: int) -> Policy:
    """The planner's view of the Job's policy."""
    return Policy(
        each_alone=policy.transaction_mode == "none",
        allow_destructive=policy.allow_destructive,
        protected_tables=tuple(policy.protected_tables),
        privileges=policy.privileges,
        partitions=policy.partitions,
        renames=tuple(
            Rename(tuple(old.split(".")), tuple(new.split("."))) for old, new in policy.renames
        ),
        lock_timeout_s=policy.lock_timeout_seconds,
        deadline_s=deadline_s,
        deadline_explicit=policy.deadline_explicit,
    )


def read_plan(data: bytes) -> tuple[Statement, ...]:
    """The Apply parser. :raises Refused: ``InvalidPlan``."""
    try:
        return parse_plan(data)
    except PlanDocumentError as error:
        raise Refused(f"the plan's bytes are not a plan: {error}", reason="InvalidPlan") from None


def same_bytes(first: PlanResult, second: PlanResult) -> bytes:
    """The bytes of two plans that two inspections gave, which must parse (C-10.2).

    :raises Refused: ``UnstablePlan``, ``InvalidPlan``.
    """
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


def publish(
    schemas: Sequence[str],
    notes: Sequence[str],
    made: PlanResult,
    timings: Mapping[str, float],
    out: dict[str, Any],
) -> None:
    """Fingerprints, drift and summary of a plan.

    :param schemas: the planning scope.
    :param notes: of the declaration.
    :param timings: seconds by step; may still grow.
    """
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
        "timingsSeconds": timings,
    }


def publish_bytes(data: bytes, out: dict[str, Any]) -> None:
    """The plan's bytes and their digest. :raises Refused: ``PlanTooLarge``."""
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


def refusal(refusals: Sequence[PlanRefusal]) -> Refused:
    """Every reason why there is no plan, as one error."""
    first = refusals[0]
    more = "".join(f"; {each.message}" for each in refusals[1:10])
    left = len(refusals) - 10
    return Refused(
        f"{first.message}{more}" + (f"; and {left} more" if left > 0 else ""),
        reason=first.reason,
        field=None if first.object is None else str(first.object),
    )


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
