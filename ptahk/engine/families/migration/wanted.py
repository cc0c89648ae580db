"""What a PtahMigration wants next, with what, and what speaks against it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ptahk.engine.families import common
from ptahk.engine.family import Later, Proposal
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.fields import parse_time, write
from ptahk.engine.model.migration import MigrationSpec
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.plan import Plan
from ptahk.engine.model.resource import PLAN_KEY, SOURCE_KEY, Request
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire import canonical, digest

HISTORY, APPLY = "History", common.APPLY
REALM_OPERATIONS = frozenset({APPLY, "Prove"})
RUN = "run"
"""The one action that an unresolved run keeps from being taken (C-4.4)."""


def spec_of(s: Snapshot) -> MigrationSpec:
    """The spec; gates refuse a resource without a valid one."""
    assert isinstance(s.spec, MigrationSpec), "this family parsed it"
    return s.spec


def policy_document(spec: MigrationSpec) -> dict[str, Any]:
    """The policy as the fingerprint binds it (C-7.2)."""
    policy = spec.policy
    off = spec.placeholders == "off"
    given = spec.placeholders if isinstance(spec.placeholders, Mapping) else {}
    return {
        "apply": policy.apply,
        "transactionMode": policy.transaction_mode,
        "ahead": policy.ahead,
        "stream": spec.stream,
        "format": spec.format,
        "placeholders": dict(given),
        "placeholdersOff": off,
        "historyTable": spec.history_table,
        "foreignKeyChecks": spec.session.foreign_key_checks,
    }


def next_operation(s: Snapshot) -> Proposal | Refusal | Later | None:
    """An open request first; otherwise, where resources act by themselves, what is due."""
    request = s.open_request
    if request is not None:
        return _requested(s, request)
    return _automatic(s) if s.store.automatic else None


def _requested(s: Snapshot, request: Request) -> Proposal | Refusal:
    if request.type in ("observe", "plan"):
        if s.source is None:
            return _no_source(s)
        inputs = history_inputs(
            s, preflight=False, change=request.change or {}, drift=request.type == "observe"
        )
        return Proposal(HISTORY, inputs, request.id, answers=True)
    if request.type != "apply":
        return Refusal("InvalidRequest", f"a migration knows no {request.type}", "request")
    if s.plan is None:
        missing = Refusal("PlanMissing", f"plan {request.plan} does not exist here")
        return s.plan_refusal or missing
    if s.source is None:
        return _no_source(s)
    if not common.fresh(s, request.id) or common.outdated_refusal(s, request.id):
        inputs = history_inputs(s, preflight=True, change={})
        return Proposal(HISTORY, inputs, request.id)
    return Proposal(APPLY, apply_inputs(s, s.plan), request.id, answers=True)


def _no_source(s: Snapshot) -> Refusal:
    missing = Refusal("SourceMissing", "there is no migration directory", "spec.artifact")
    return s.source_refusal or missing


def _automatic(s: Snapshot) -> Proposal | Refusal | Later | None:
    """Read the history when inputs moved or it is time, apply what may be applied."""
    if s.source is None:
        return _no_source(s)
    plan, seen = s.status.last_plan, s.status.last_observation
    inputs = history_inputs(s, preflight=False, change={})
    if seen is None or seen.get("inputs") != digest.input_fingerprint(HISTORY, inputs):
        return Proposal(HISTORY, inputs)
    # A plan counts as long as the reading that made it is the last one.
    current = plan is not None and plan["statements"] and plan["time"] == seen["time"]
    if current and s.plan is None and common.gone(s):
        return Proposal(HISTORY, inputs)
    applicable = current and s.plan is not None
    if applicable and s.plan is not None and _may_apply(s, s.plan):
        if not common.fresh(s, None):
            return Proposal(HISTORY, history_inputs(s, preflight=True, change={}))
        return Proposal(APPLY, apply_inputs(s, s.plan))
    due = _reading_due(s, seen)
    if due is not None and s.now >= due:
        return Proposal(HISTORY, history_inputs(s, preflight=False, change={}, drift=True))
    retry = common.retry_at(s, s.plan) if applicable and s.plan is not None else None
    moments = [moment for moment in (due, retry) if moment is not None and moment > s.now]
    return Later(min(moments)) if moments else None


def _reading_due(s: Snapshot, seen: Mapping[str, Any]) -> datetime | None:
    """An interval after the history was read last; None: there is no interval."""
    interval = spec_of(s).interval * common.jitter(s.uid)
    return parse_time(seen["time"]) + timedelta(seconds=interval) if interval else None


def _may_apply(s: Snapshot, plan: Plan) -> bool:
    if _unresolved(s, plan) is not None:
        return False
    return common.may_apply(s, plan, needed=approval_needed(spec_of(s), plan))


def approval_needed(spec: MigrationSpec, plan: Plan) -> bool:
    """Files out of order, a resume and rows alone need one under every policy (C-11.3)."""
    return spec.policy.apply != "Always" or plan.spec.binding["approval"] is not False


def _common(s: Snapshot) -> dict[str, Any]:
    spec = spec_of(s)
    return {
        **common.target_inputs(spec.target),
        "policy": policy_document(spec),
        "timing": common.timing(
            spec.execution,
            lock_timeout=spec.policy.lock_timeout,
            coordination_timeout=spec.policy.coordination_timeout,
        ),
        "deadlineSeconds": spec.execution.deadline_s,
    }


def history_inputs(
    s: Snapshot, *, preflight: bool, change: Mapping[str, str], drift: bool = False
) -> dict[str, Any]:
    """A preflight reads the database and its ledger only: it looks at no file.

    :param drift: the applied files are run again in scratch, to be compared with the database:
        once an interval, and whenever somebody observes.
    """
    inputs = _common(s) | {"preflight": preflight, "change": dict(change), "source": None}
    if drift:
        inputs["drift"] = True
    if not preflight:
        assert s.source is not None
        reference = s.source.reference
        inputs["source"] = reference.digest
        inputs["bundles"] = [common.bundle(SOURCE_KEY, reference.config_map, reference.digest)]
    return inputs


def apply_inputs(s: Snapshot, plan: Plan) -> dict[str, Any]:
    """Exactly this plan over the directory as it is now, and what its proof will need.

    The executor compares the two under the lock, file by file, and names what differs (C-11.2).
    """
    assert s.source is not None
    reference = s.source.reference
    binding = plan.spec.binding
    return _common(s) | {
        "plan": {"name": plan.name, "uid": plan.uid},
        "fingerprint": plan.spec.fingerprint,
        "planDigest": plan.spec.digest,
        "planCoordination": plan.spec.bound("coordinationDigest"),
        "targetIdentity": plan.spec.bound("targetIdentityDigest"),
        "serverIdentity": plan.spec.server_identity,
        "sequence": plan.spec.bound("sequenceDigest"),
        "history": plan.spec.bound("historyFingerprint"),
        "action": plan.spec.bound("action"),
        "change": dict(binding["change"]),
        "source": reference.digest,
        "sourceBundle": write(reference),
        "bundles": [
            common.bundle(PLAN_KEY, plan.name, plan.spec.digest),
            common.bundle(SOURCE_KEY, reference.config_map, reference.digest),
        ],
    }


def inputs(operation: str, s: Snapshot, claim: Claim) -> Mapping[str, Any] | None:
    """What the claim would be made for now (C-3.6)."""
    if operation == HISTORY:
        preflight = claim.inputs.get("preflight") is True
        if s.source is None and not preflight:
            return None
        change = claim.inputs.get("change") or {}
        drift = claim.inputs.get("drift") is True
        return history_inputs(s, preflight=preflight, change=change, drift=drift)
    return None if s.plan is None or s.source is None else apply_inputs(s, s.plan)


def gate(operation: str, s: Snapshot) -> Refusal | None:
    """The family's own refusals, in order."""
    damaged = common.damaged(s, _misread)
    if damaged is not None or operation != APPLY or s.plan is None:
        return damaged
    spec, plan = spec_of(s), s.plan
    now = {
        "resourceUID": s.uid,
        "coordinationDigest": spec.target.coordination_digest,
        "policy": policy_document(spec),
    }
    return (
        common.edited(plan)
        or common.never(spec)
        or common.unapproved(s, plan, needed=approval_needed(spec, plan))
        or common.superseded(plan, now)
        or _unresolved(s, plan)
        or common.database_refusal(s, plan)
    )


def _unresolved(s: Snapshot, plan: Plan) -> Refusal | None:
    """While a run is unresolved nothing is applied but its resume and a person's word (C-4.4)."""
    run = s.status.unresolved_run
    if run is None or plan.spec.binding["action"] != RUN:
        return None
    return Refusal("RunUnresolved", f"run {run.operation_id} is not settled: {run.message}")


def _misread(raw: bytes, plan: Plan) -> bool:
    """The bytes name another sequence, history or action than the record that was approved."""
    try:
        found = canonical.decode(raw)["sequence"]
        said = {
            "sequenceDigest": digest.sequence_digest(found["files"]),
            "historyFingerprint": found["history"],
            "action": found["action"],
            "approval": found["approval"],
        }
    except (canonical.CanonicalError, KeyError, TypeError):
        return True
    return any(plan.spec.binding.get(key) != value for key, value in said.items())
