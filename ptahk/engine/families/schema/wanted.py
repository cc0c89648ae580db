"""What a PtahSchema wants next, with what, and what speaks against it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ptahk.engine import approval, gates
from ptahk.engine.family import Later, Proposal
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.fields import FieldError, parse_time, write
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.plan import PLAN_RAW_BYTES_MAX, Plan
from ptahk.engine.model.resource import PLAN_KEY, SOURCE_KEY, Request, SchemaSpec
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.source import decode, unpack
from ptahk.engine.model.status import Database
from ptahk.wire import canonical, digest
from ptahk.wire.binding import PlanBinding, PolicyBinding

OBSERVE, PLAN, APPLY = "Observe", "Plan", "Apply"
REALM_OPERATIONS = frozenset({PLAN, APPLY, "Prove"})

FRESH_S = 120.0
"""How long a reading of the database and its ledger serves the Apply that follows it."""


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
    if not _fresh(s, request.id) or _outdated_refusal(s, request.id):
        inputs = observe_inputs(s, declaration=False, preflight=True)
        return Proposal(OBSERVE, inputs, request.id)
    wanted = rebind_inputs(s) if s.plan is None else apply_inputs(s, s.plan)
    return Proposal(APPLY, wanted, request.id, answers=True)


def _no_source(s: Snapshot) -> Refusal:
    missing = Refusal("SourceMissing", "nothing is declared", "spec.desired")
    return s.source_refusal or missing


def _fresh(s: Snapshot, request: str | None) -> bool:
    """The database was read for this request, or a moment ago (C-6.14, C-6.16, C-3.7)."""
    database = s.status.database
    if database is None:
        return False
    if request is not None and database.request == request:
        return True
    return timedelta(0) <= s.now - database.time < timedelta(seconds=FRESH_S)


def _outdated_refusal(s: Snapshot, request: str) -> bool:
    """An earlier reading speaks against the Apply: look again, it may have been mended."""
    database = s.status.database
    if database is None or database.request == request or s.plan is None:
        return False
    return gates.first(s, gates.MUTATION) is not None or _database(s, s.plan) is not None


def _automatic(s: Snapshot) -> Proposal | Refusal | Later | None:
    """Plan when inputs or the scope moved, apply what may be applied, observe when it is time."""
    if s.source is None:
        return _no_source(s)
    plan, seen = s.status.last_plan, s.status.last_observation
    inputs = plan_inputs(s)
    if plan is None or plan.get("inputs") != digest.input_fingerprint(PLAN, inputs):
        return Proposal(PLAN, inputs)
    if plan["statements"] and s.plan is None and _gone(s):
        return Proposal(PLAN, inputs)
    moved = seen is not None and seen["scopeFingerprint"] != plan.get("scopeFingerprint")
    if moved and seen is not None and seen["time"] > plan["time"]:
        return Proposal(PLAN, inputs)
    if plan["statements"] and s.plan is not None and _may_apply(s, s.plan):
        if not _fresh(s, None):
            return Proposal(OBSERVE, observe_inputs(s, declaration=False, preflight=True))
        return Proposal(APPLY, apply_inputs(s, s.plan))
    due = _observation_due(s, plan, seen)
    if due is not None and s.now >= due:
        return Proposal(OBSERVE, observe_inputs(s, declaration=False, preflight=False))
    retry = _retry_at(s, s.plan) if plan["statements"] and s.plan is not None else None
    moments = [moment for moment in (due, retry) if moment is not None and moment > s.now]
    return Later(min(moments)) if moments else None


def _observation_due(
    s: Snapshot, plan: Mapping[str, Any], seen: Mapping[str, Any] | None
) -> datetime | None:
    """An interval after the database was looked at last; None: there is no interval."""
    interval = spec_of(s).interval * _jitter(s.uid)
    last = max(plan["time"], seen["time"]) if seen is not None else plan["time"]
    return parse_time(last) + timedelta(seconds=interval) if interval else None


def _gone(s: Snapshot) -> bool:
    """The last plan's document was deleted by hand."""
    return s.plan_refusal is not None and s.plan_refusal.reason == "PlanMissing"


def _jitter(uid: str) -> float:
    """0.9 to 1.1, the same for one resource always, so that many do not observe at once."""
    tail = int(digest.input_fingerprint("jitter", uid)[-4:], 16)
    return 0.9 + 0.2 * tail / 0xFFFF


def _may_apply(s: Snapshot, plan: Plan) -> bool:
    spec = spec_of(s)
    if spec.policy.apply == "Never":
        return False
    if approval.find(s, plan) is not None:
        return True
    if approval_needed(spec, plan):
        return False
    retry = _retry_at(s, plan)
    return retry is None or s.now >= retry


def _retry_at(s: Snapshot, plan: Plan) -> datetime | None:
    """Until when a plan that was applied already is not applied again; None: it was not."""
    last = next((item for item in reversed(s.status.history) if item.type == APPLY), None)
    if last is None or last.plan != plan.spec.fingerprint:
        return None
    return last.finish_time + timedelta(seconds=spec_of(s).execution.failure_retry_interval)


def approval_needed(spec: SchemaSpec, plan: Plan) -> bool:
    """C-10.4: destructive and privilege-changing plans need one under every policy."""
    return spec.policy.apply != "Always" or plan.spec.destructive or plan.spec.privileges


def _common(s: Snapshot) -> dict[str, Any]:
    """What every operation is claimed for: the target, key-free, and how it is to run."""
    spec = spec_of(s)
    policy = policy_binding(spec).document()
    timing = {
        "lockTimeoutMs": round(spec.policy.lock_timeout * 1000),
        "coordinationTimeoutMs": round(spec.policy.coordination_timeout * 1000),
        "connectTimeoutMs": round(spec.execution.connect_timeout * 1000),
        "deadlineExplicit": spec.execution.active_deadline_seconds is not None,
    }
    return {
        "engine": spec.target.engine,
        "realm": spec.target.coordination_digest,
        "explicitKey": spec.target.explicit_key,
        "sharedRealm": spec.target.shared_realm,
        "urlFrom": None if spec.target.url_from is None else write(spec.target.url_from),
        "policy": policy,
        "timing": timing,
        "tlsFrom": None if spec.target.tls_from is None else write(spec.target.tls_from),
        "devTemplate": spec.dev.template,
        "devUrlFrom": None if spec.dev.url_from is None else write(spec.dev.url_from),
        "deadlineSeconds": spec.execution.deadline_s,
    }


def _bundle(file: str, config_map: str, content: str) -> dict[str, str]:
    return {"file": file, "configMap": config_map, "digest": content}


def observe_inputs(s: Snapshot, *, declaration: bool, preflight: bool) -> dict[str, Any]:
    """A preflight reads the database and its ledger only: it loads no declaration."""
    inputs = _common(s) | {"declaration": declaration, "preflight": preflight, "source": None}
    if s.source is not None and not preflight:
        reference = s.source.reference
        inputs["source"] = reference.digest
        inputs["bundles"] = [_bundle(SOURCE_KEY, reference.config_map, reference.digest)]
    return inputs


def plan_inputs(s: Snapshot) -> dict[str, Any]:
    """The declaration and the policy."""
    assert s.source is not None
    reference = s.source.reference
    bundles = [_bundle(SOURCE_KEY, reference.config_map, reference.digest)]
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
        "bundles": [_bundle(PLAN_KEY, plan.name, plan.spec.digest)],
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
    damaged = _damaged(s)
    if damaged is not None or operation != APPLY:
        return damaged
    if _rebinds(s) and s.status.database is not None:
        return _ledger_missing(s.status.database)
    if s.plan is None:
        return None
    return _edited(s.plan) or _policy(s, s.plan) or _superseded(s, s.plan) or _database(s, s.plan)


def _edited(plan: Plan) -> Refusal | None:
    """The stored plan still hashes to the fingerprint that a person approved."""
    try:
        binding = PlanBinding.of_document(plan.spec.binding)
    except ValueError:
        binding = None
    if binding is None or digest.plan_fingerprint(binding) != plan.spec.fingerprint:
        return Refusal("PlanDamaged", f"plan {plan.name} does not hash to its fingerprint")
    return None


def _policy(s: Snapshot, plan: Plan) -> Refusal | None:
    spec = spec_of(s)
    if spec.policy.apply == "Never":
        return Refusal("ApplyNever", "policy.apply is Never", "spec.policy.apply")
    if plan.spec.destructive and not spec.policy.allow_destructive:
        return Refusal(
            "DestructiveNotAllowed",
            f"plan {plan.spec.fingerprint} destroys data",
            "spec.policy.allowDestructive",
        )
    if approval_needed(spec, plan) and approval.find(s, plan) is None and not _consumed(s):
        text = f"no unused approval binds plan {plan.spec.fingerprint}"
        return Refusal("ApprovalMissing", text)
    return None


def _consumed(s: Snapshot) -> bool:
    """The claim in hand has used its approval up already."""
    claim = s.status.active_operation
    return claim is not None and claim.type == APPLY and claim.approval is not None


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
    for key, value in wanted.items():
        if plan.spec.binding[key] != value:
            return Refusal("PlanSuperseded", f"the plan was made for another {key}")
    return None


def _database(s: Snapshot, plan: Plan) -> Refusal | None:
    """What the last reading of the database says against this Apply."""
    database = s.status.database
    if database is None:
        return None
    identity = plan.spec.bound("targetIdentityDigest")
    if database.target_identity and database.target_identity != identity:
        return Refusal("TargetMismatch", "the URL's target identity is not the plan's")
    if database.server_identity != plan.spec.server_identity:
        return Refusal(
            "ServerIdentityMismatch",
            f"the URL leads to {database.server_identity}, "
            f"and the plan was made on {plan.spec.server_identity}",
        )
    return ledger_refusal(s, database)


def ledger_refusal(s: Snapshot, database: Database) -> Refusal | None:
    """The ledger can be had, and is not bound to another realm (C-6.15, C-6.16)."""
    missing = _ledger_missing(database)
    if missing is not None:
        return missing
    target = spec_of(s).target
    bound = database.binding
    if target.explicit_key and bound is not None and bound != target.coordination_digest:
        text = f"this database is bound to realm {bound}"
        return Refusal("BindingMismatch", text, "spec.target.coordinationKey")
    return None


def _ledger_missing(database: Database) -> Refusal | None:
    if database.ledger_present and database.ledger_writable:
        return None
    if database.ledger_creatable and not database.ledger_present:
        return None
    text = "the attempt ledger is absent or not writable, and this role may not create it"
    return Refusal("LedgerMissing", text)


def _damaged(s: Snapshot) -> Refusal | None:
    """Bytes about to be dispatched are what their digests say, whoever stored them."""
    claim = s.status.active_operation
    if s.inputs is None or claim is None:
        return None
    wanted = {item["file"]: item["digest"] for item in claim.inputs.get("bundles", ())}
    for item in s.inputs:
        reason = "PlanDamaged" if item.name == PLAN_KEY else "SourceInvalid"
        try:
            if item.name == PLAN_KEY:
                raw = unpack(item.data, PLAN_RAW_BYTES_MAX)
                found: str = digest.plan_content_digest(raw)
                if s.plan is not None and _understated(raw, s.plan):
                    text = f"plan {s.plan.name} is more severe than its record says"
                    return Refusal("PlanDamaged", text)
            else:
                found = digest.source_digest(decode(item.data))
        except FieldError as error:
            return Refusal(reason, f"ConfigMap {item.config_map}: {error}")
        if found != wanted[item.name]:
            return Refusal(reason, f"ConfigMap {item.config_map} holds other bytes than it should")
    return None


def _understated(raw: bytes, plan: Plan) -> bool:
    """The bytes destroy or grant, and the record that policy was asked about does not say so."""
    try:
        statements = canonical.decode(raw)["statements"]
        found = {item["severity"] for item in statements if isinstance(item, dict)}
    except (canonical.CanonicalError, KeyError, TypeError):
        return True
    said = {"destructive": plan.spec.destructive, "privilege": plan.spec.privileges}
    return any(severity in found and not stated for severity, stated in said.items())
