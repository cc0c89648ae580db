"""What a PtahSchema wants next, with what, and what speaks against it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ptahk.engine.families import common
from ptahk.engine.family import Later, Proposal
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.fields import parse_time, write
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.plan import Plan
from ptahk.engine.model.resource import PLAN_KEY, SOURCE_KEY, Request, SchemaSpec
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire import canonical, digest
from ptahk.wire.binding import PolicyBinding

OBSERVE, PLAN, APPLY = "Observe", "Plan", common.APPLY
REALM_OPERATIONS = frozenset({PLAN, APPLY, "Prove"})


def spec_of(s: Snapshot) -> SchemaSpec:
    """The spec; gates refuse a resource without a valid one."""
    assert isinstance(s.spec, SchemaSpec), "this family parsed it"
    return s.spec


def policy_binding(spec: SchemaSpec) -> PolicyBinding:
    """The planning policy as the fingerprint binds it (C-7.2)."""
    policy = spec.policy
    return PolicyBinding(
        apply=policy.apply,
        allow_destructive=policy.allow_destructive,
        schemas=policy.schemas,
        exclude=policy.exclude,
        protected_tables=policy.protected_tables,
        privileges=policy.privileges,
        partitions=policy.partitions,
        renames=tuple((item.old, item.new) for item in policy.renames),
        transaction_mode=policy.transaction_mode,
    )


def next_operation(s: Snapshot) -> Proposal | Refusal | Later | None:
    """An open request first; otherwise, where resources act by themselves, what is due."""
    request = s.open_request
    if request is not None:
        return _requested(s, request)
    return _automatic(s) if s.store.automatic else None


def _requested(s: Snapshot, request: Request) -> Proposal | Refusal:
    if request.type == "observe":
        if s.source is None and not request.declaration:
            return _no_source(s)
        inputs = observe_inputs(s, declaration=request.declaration, preflight=False)
        return Proposal(OBSERVE, inputs, request.id, answers=True)
    if request.type == "plan":
        if s.source is None:
            return _no_source(s)
        return Proposal(PLAN, plan_inputs(s), request.id, answers=True)
    if request.type == "apply" and s.plan is None:
        missing = Refusal("PlanMissing", f"plan {request.plan} does not exist here")
        return s.plan_refusal or missing
    if not common.fresh(s, request.id) or common.outdated_refusal(s, request.id):
        inputs = observe_inputs(s, declaration=False, preflight=True)
        return Proposal(OBSERVE, inputs, request.id)
    wanted = rebind_inputs(s) if s.plan is None else apply_inputs(s, s.plan)
    return Proposal(APPLY, wanted, request.id, answers=True)


def _no_source(s: Snapshot) -> Refusal:
    missing = Refusal("SourceMissing", "nothing is declared", "spec.desired")
    return s.source_refusal or missing


def _automatic(s: Snapshot) -> Proposal | Refusal | Later | None:
    """Plan when inputs or the scope moved, apply what may be applied, observe when it is time."""
    if s.source is None:
        return _no_source(s)
    plan, seen = s.status.last_plan, s.status.last_observation
    inputs = plan_inputs(s)
    if plan is None or plan.get("inputs") != digest.input_fingerprint(PLAN, inputs):
        return Proposal(PLAN, inputs)
    if plan["statements"] and s.plan is None and common.gone(s):
        return Proposal(PLAN, inputs)
    moved = seen is not None and seen["scopeFingerprint"] != plan.get("scopeFingerprint")
    if moved and seen is not None and seen["time"] > plan["time"]:
        return Proposal(PLAN, inputs)
    if plan["statements"] and s.plan is not None and _may_apply(s, s.plan):
        if not common.fresh(s, None):
            return Proposal(OBSERVE, observe_inputs(s, declaration=False, preflight=True))
        return Proposal(APPLY, apply_inputs(s, s.plan))
    due = _observation_due(s, plan, seen)
    if due is not None and s.now >= due:
        return Proposal(OBSERVE, observe_inputs(s, declaration=False, preflight=False))
    retry = common.retry_at(s, s.plan) if plan["statements"] and s.plan is not None else None
    moments = [moment for moment in (due, retry) if moment is not None and moment > s.now]
    return Later(min(moments)) if moments else None


def _observation_due(
    s: Snapshot, plan: Mapping[str, Any], seen: Mapping[str, Any] | None
) -> datetime | None:
    """An interval after the database was looked at last; None: there is no interval."""
    interval = spec_of(s).interval * common.jitter(s.uid)
    last = max(plan["time"], seen["time"]) if seen is not None else plan["time"]
    return parse_time(last) + timedelta(seconds=interval) if interval else None


def _may_apply(s: Snapshot, plan: Plan) -> bool:
    return common.may_apply(s, plan, needed=approval_needed(spec_of(s), plan))


def approval_needed(spec: SchemaSpec, plan: Plan) -> bool:
    """C-10.4: destructive and privilege-changing plans need one under every policy."""
    return spec.policy.apply != "Always" or plan.spec.destructive or plan.spec.privileges


def _common(s: Snapshot) -> dict[str, Any]:
    """What every operation is claimed for: the target, key-free, and how it is to run."""
    spec = spec_of(s)
    return {
        **common.target_inputs(spec.target),
        "policy": policy_binding(spec).document(),
        "timing": common.timing(
            spec.execution,
            lock_timeout=spec.policy.lock_timeout,
            coordination_timeout=spec.policy.coordination_timeout,
        ),
        "devTemplate": spec.dev.template,
        "devUrlFrom": None if spec.dev.url_from is None else write(spec.dev.url_from),
        "deadlineSeconds": spec.execution.deadline_s,
    }


def observe_inputs(s: Snapshot, *, declaration: bool, preflight: bool) -> dict[str, Any]:
    """A preflight reads the database and its ledger only: it loads no declaration."""
    inputs = _common(s) | {"declaration": declaration, "preflight": preflight, "source": None}
    if s.source is not None and not preflight:
        reference = s.source.reference
        inputs["source"] = reference.digest
        inputs["bundles"] = [common.bundle(SOURCE_KEY, reference.config_map, reference.digest)]
    return inputs


def plan_inputs(s: Snapshot) -> dict[str, Any]:
    """The declaration and the policy."""
    assert s.source is not None
    reference = s.source.reference
    bundles = [common.bundle(SOURCE_KEY, reference.config_map, reference.digest)]
    return _common(s) | {"source": reference.digest, "bundles": bundles}


def apply_inputs(s: Snapshot, plan: Plan) -> dict[str, Any]:
    """Exactly this plan, and what its proof will need."""
    return _common(s) | {
        "plan": {"name": plan.name, "uid": plan.uid},
        "fingerprint": plan.spec.fingerprint,
        "planDigest": plan.spec.digest,
        "planCoordination": plan.spec.bound("coordinationDigest"),
        "targetIdentity": plan.spec.bound("targetIdentityDigest"),
        "serverIdentity": plan.spec.server_identity,
        "observedState": plan.spec.bound("observedState"),
        "desiredState": plan.spec.bound("desiredState"),
        "scope": list(plan.spec.summary.get("scope", ())),
        "source": plan.spec.bound("sourceDigest"),
        "sourceBundle": write(plan.spec.source),
        "bundles": [common.bundle(PLAN_KEY, plan.name, plan.spec.digest)],
    }


def rebind_inputs(s: Snapshot) -> dict[str, Any]:
    """The one row that accepts this realm for the database that was just read (C-11.17)."""
    database = s.status.database
    assert database is not None, "read for this request"
    common = _common(s)
    return common | {
        "rebind": True,
        "planDigest": digest.input_fingerprint("Rebind", {"realm": common["realm"]}),
        "targetIdentity": database.target_identity,
        "serverIdentity": database.server_identity,
    }


def inputs(operation: str, s: Snapshot, claim: Claim) -> Mapping[str, Any] | None:
    """What the claim would be made for now (C-3.6)."""
    if operation == OBSERVE:
        flags = {key: claim.inputs.get(key) is True for key in ("declaration", "preflight")}
        return observe_inputs(s, **flags)
    if operation == PLAN:
        return None if s.source is None else plan_inputs(s)
    if claim.inputs.get("rebind") is True:
        return None if s.status.database is None else rebind_inputs(s)
    return None if s.plan is None else apply_inputs(s, s.plan)


def _rebinds(s: Snapshot) -> bool:
    claim, request = s.status.active_operation, s.open_request
    if claim is not None:
        return claim.inputs.get("rebind") is True
    return request is not None and request.type == "rebind"


def gate(operation: str, s: Snapshot) -> Refusal | None:
    """The family's own refusals, in order."""
    damaged = common.damaged(s, _understated)
    if damaged is not None or operation != APPLY:
        return damaged
    if _rebinds(s) and s.status.database is not None:
        return common.ledger_missing(s.status.database)
    if s.plan is None:
        return None
    return (
        common.edited(s.plan)
        or _policy(s, s.plan)
        or _superseded(s, s.plan)
        or common.database_refusal(s, s.plan)
    )


def _policy(s: Snapshot, plan: Plan) -> Refusal | None:
    spec = spec_of(s)
    never = common.never(spec)
    if never is not None:
        return never
    if plan.spec.destructive and not spec.policy.allow_destructive:
        return Refusal(
            "DestructiveNotAllowed",
            f"plan {plan.spec.fingerprint} destroys data",
            "spec.policy.allowDestructive",
        )
    return common.unapproved(s, plan, needed=approval_needed(spec, plan))


def _superseded(s: Snapshot, plan: Plan) -> Refusal | None:
    """The plan is of this resource, declaration, policy and realm as they are now."""
    spec = spec_of(s)
    wanted = {
        "resourceUID": s.uid,
        "coordinationDigest": spec.target.coordination_digest,
        "policy": policy_binding(spec).document(),
    }
    if s.source is not None:
        wanted["sourceDigest"] = s.source.reference.digest
    return common.superseded(plan, wanted)


def _understated(raw: bytes, plan: Plan) -> bool:
    """The bytes destroy or grant, and the record that policy was asked about does not say so."""
    try:
        statements = canonical.decode(raw)["statements"]
        found = {item["severity"] for item in statements if isinstance(item, dict)}
    except (canonical.CanonicalError, KeyError, TypeError):
        return True
    said = {"destructive": plan.spec.destructive, "privilege": plan.spec.privileges}
    return any(severity in found and not stated for severity, stated in said.items())
