"""Stored values → the JSON document of each command. Pure; ``docs/schemas`` says what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ptahk.commands._render import document
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.fields import format_time
from ptahk.engine.model.snapshot import CommonSpec
from ptahk.engine.model.status import HistoryEntry, Status
from ptahk.engine.ports import Document
from ptahk.errors import Refused
from ptahk.wire import digest

if TYPE_CHECKING:
    from ptahk.engine.model.plan import Plan


def engine(owner: Document) -> str:
    """The engine family of a resource's target."""
    return digest.engine_family(owner["spec"]["target"]["engine"])


def resource(value: Document) -> dict[str, Any]:
    """Which resource, as every document names it."""
    metadata = value["metadata"]
    return {
        "kind": value["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def time(moment: datetime | None) -> str | None:
    """RFC 3339 UTC, or None."""
    return None if moment is None else format_time(moment)


def approval_reasons(plan: Plan, spec: CommonSpec) -> list[str]:
    """Why an apply of this plan needs a person's approval (C-10.4); empty where it does not."""
    if not plan.spec.statements:
        return []
    reasons = ["policy"] if spec.apply_policy != "Always" else []
    if plan.spec.binding.get("approval") is True:
        reasons.append("sequence")
    if plan.spec.destructive:
        reasons.append("destructive")
    if plan.spec.privileges:
        reasons.append("privileges")
    return reasons


def plan(owner: Document, spec: CommonSpec, value: Plan, data: bytes) -> dict[str, Any]:
    """The ``Plan`` document.

    :param data: the plan bytes, raw; refused unless they hash to what the plan binds.
    :raises Refused: they do not.
    """
    if digest.plan_content_digest(data) != value.spec.digest:
        raise Refused(
            f"plan bytes are not those of the plan (plan={value.name})",
            reason="PlanDamaged",
            hint="Plan again; find out who edited it.",
        )
    summary = value.spec.summary
    sizes = summary.get("sizes", {})
    statements = [
        {**statement, "sizeBytes": sizes.get(str(statement["index"]))}
        for statement in json.loads(data)["statements"]
    ]
    reasons = approval_reasons(value, spec)
    return document(
        "Plan",
        resource=resource(owner),
        engine=engine(owner),
        fingerprint=value.spec.fingerprint,
        planDigest=value.spec.digest,
        sourceDigest=value.spec.bound("sourceDigest"),
        coordinationDigest=value.spec.bound("coordinationDigest"),
        targetIdentity=value.spec.bound("targetIdentityDigest"),
        serverIdentity=value.spec.server_identity,
        **_bound(value, data),
        createdAt=format_time(value.spec.time),
        changes=bool(statements),
        approval={"required": bool(reasons), "reasons": reasons},
        statements=statements,
        summary={
            "statements": len(statements),
            "severities": {
                name: number for name, number in summary.get("severities", {}).items() if number
            },
            "destructive": value.spec.destructive,
            "privileges": value.spec.privileges,
            "setup": list(summary.get("setup", ())),
            "notes": list(summary.get("notes", ())),
            "timingsSeconds": dict(summary.get("timingsSeconds", {})),
        },
    )


def _bound(value: Plan, data: bytes) -> dict[str, Any]:
    """What the plan's fingerprint binds of the database and of what is wanted."""
    binding = value.spec.binding
    if "sequenceDigest" not in binding:
        return {
            "observedFingerprint": value.spec.bound("observedState"),
            "desiredFingerprint": value.spec.bound("desiredState"),
        }
    files = json.loads(data)["sequence"]["files"]
    return {
        "sequence": {
            "action": binding["action"],
            "digest": binding["sequenceDigest"],
            "history": binding["historyFingerprint"],
            "files": [{"version": item["version"], "file": item["file"]} for item in files],
        }
    }


def history_entry(entry: HistoryEntry) -> dict[str, Any]:
    """One operation of the account; an Apply's outcome is what its proof made of it."""
    outcome = entry.settled or entry.outcome
    return {
        "type": entry.type,
        "operationId": entry.operation_id,
        "attempt": entry.attempt,
        "jobName": entry.job,
        "plan": entry.plan,
        "approver": entry.approver,
        "outcome": outcome.type,
        "startedAt": time(entry.start_time),
        "finishedAt": time(entry.finish_time),
        "message": outcome.message,
    }


def plan_entry(value: Plan) -> dict[str, Any]:
    """One kept plan."""
    return {
        "name": value.name,
        "fingerprint": value.spec.fingerprint,
        "createdAt": format_time(value.spec.time),
        "statements": value.spec.statements,
    }


def history(
    owner: Document,
    status: Status,
    plans: Iterable[Plan],
    ledger: Iterable[Mapping[str, Any]] | None,
) -> dict[str, Any]:
    """The ``History`` document, newest first in each part."""
    return document(
        "History",
        resource=resource(owner),
        operations=[history_entry(entry) for entry in reversed(status.history)],
        plans=[
            plan_entry(value)
            for value in sorted(plans, key=lambda plan: (plan.spec.time, plan.name), reverse=True)
        ],
        ledger=None if ledger is None else [dict(row) for row in ledger],
    )


def operation(claim: Claim) -> dict[str, Any]:
    """The operation in flight."""
    return {
        "type": claim.type,
        "operationId": claim.operation_id,
        "attempt": claim.attempt,
        "jobName": claim.job_name,
        "dispatched": claim.dispatch_started,
        "startedAt": format_time(claim.start_time),
        "outcome": None if claim.outcome is None else claim.outcome.type,
    }


def owed(status: Status) -> list[str]:
    """What is owed, in words."""
    found = []
    if status.pending_lock_release is not None:
        found.append(f"release of realm {status.pending_lock_release.realm}")
    proof = status.pending_observation
    if proof is not None:
        why = f" ({proof.reason}: {proof.message})" if proof.reason else ""
        found.append(f"proof of Apply {proof.operation_id}{why}")
    if status.frozen is not None:
        found.append(f"acknowledgement of ledger number {status.frozen.number}")
    return found


def _newest(status: Status, plan: Plan | None) -> dict[str, Any] | None:
    """The newest plan as it is kept, else as the status tells of it."""
    if plan is not None:
        fingerprint, statements = plan.spec.fingerprint, plan.spec.statements
        return {"name": plan.name, "fingerprint": fingerprint, "statements": statements}
    last = status.last_plan
    if last is None or not last.get("name"):
        return None
    return {name: last[name] for name in ("name", "fingerprint", "statements")}


def unreadable_entry(owner: Document, message: str) -> dict[str, Any]:
    """A resource whose stored status this ptahk cannot read."""
    return {
        **status_entry(owner, Status(owner["metadata"]["uid"], phase="Blocked"), None),
        "nextStep": message,
    }


def status_entry(owner: Document, status: Status, newest: Plan | None) -> dict[str, Any]:
    """One resource of the ``Status`` document."""
    key = str(((owner.get("spec") or {}).get("target") or {}).get("coordinationKey"))
    return {
        **resource(owner),
        # The place a run without a key names; an explicit key stays in the spec (C-2.2).
        "database": key.removeprefix("local:") if key.startswith("local:") else None,
        "phase": status.phase,
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": format_time(condition.last_transition_time),
                "observedGeneration": condition.observed_generation,
            }
            for condition in status.conditions
        ],
        "activeOperation": (
            None if status.active_operation is None else operation(status.active_operation)
        ),
        "pendingObservation": status.pending_observation is not None,
        "pendingLockRelease": status.pending_lock_release is not None,
        "owed": owed(status),
        "plan": _newest(status, newest),
        "nextStep": status.next_step or "Nothing: ask for a plan when there is one to make.",
    }
