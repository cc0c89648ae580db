"""What the families share: freshness, the database's word, job heads, failures. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from ptahk.engine import approval, gates
from ptahk.engine.family import Reading, Unproven
from ptahk.engine.lease import known_number
from ptahk.engine.model.claim import POD_GRACE_S, PROVE, Claim, PendingObservation
from ptahk.engine.model.execution import Execution
from ptahk.engine.model.fields import FieldError, cut, format_time, write
from ptahk.engine.model.outcome import Failed, NotStarted, Refusal, Succeeded, Unknown
from ptahk.engine.model.plan import (
    PLAN_RAW_BYTES_MAX,
    PLAN_STORED_BYTES_MAX,
    Plan,
    PlanSpec,
    bundle_document,
    plan_document,
    plan_name,
)
from ptahk.engine.model.resource import PLAN_KEY, Target
from ptahk.engine.model.snapshot import CommonSpec, Snapshot
from ptahk.engine.model.source import base64_text, decode, unbase64, unpack
from ptahk.engine.model.status import Database
from ptahk.wire import digest
from ptahk.wire.binding import read_binding
from ptahk.wire.jobspec import FencedAttempt

APPLY = "Apply"
WORD_MAX = 256
"""Longest reason or field: a status is refused by its CRD with longer texts, and then stands."""
DRIFT_ITEMS_KEPT = 100
TRANSIENT = frozenset({"ConnectionLost", "ExecutorLost", "Stopped", "InternalError"})
"""Reasons of a read-only failure that the next attempt may not meet again."""
FRESH_S = 120.0
"""How long a reading of the database and its ledger serves the Apply that follows it."""


def fresh(s: Snapshot, request: str | None) -> bool:
    """The database was read for this request, or a moment ago (C-6.14, C-6.16, C-3.7)."""
    database = s.status.database
    if database is None:
        return False
    if request is not None and database.request == request:
        return True
    return timedelta(0) <= s.now - database.time < timedelta(seconds=FRESH_S)


def outdated_refusal(s: Snapshot, request: str) -> bool:
    """An earlier reading speaks against the Apply: look again, it may have been mended."""
    database = s.status.database
    if database is None or database.request == request or s.plan is None:
        return False
    return gates.first(s, gates.MUTATION) is not None or database_refusal(s, s.plan) is not None


def gone(s: Snapshot) -> bool:
    """The last plan's document was deleted by hand."""
    return s.plan_refusal is not None and s.plan_refusal.reason == "PlanMissing"


def jitter(uid: str) -> float:
    """0.9 to 1.1, the same for one resource always, so that many do not observe at once."""
    tail = int(digest.input_fingerprint("jitter", uid)[-4:], 16)
    return 0.9 + 0.2 * tail / 0xFFFF


def retry_at(s: Snapshot, plan: Plan) -> datetime | None:
    """Until when a plan that was applied already is not applied again; None: it was not."""
    last = next((item for item in reversed(s.status.history) if item.type == APPLY), None)
    if last is None or last.plan != plan.spec.fingerprint or s.spec is None:
        return None
    return last.finish_time + timedelta(seconds=s.spec.execution.failure_retry_interval)


def may_apply(s: Snapshot, plan: Plan, *, needed: bool) -> bool:
    """Policy and approvals let this plan be applied by itself now.

    :param needed: it takes an approval.
    """
    assert s.spec is not None, "gates refuse a resource without a valid spec"
    if s.spec.apply_policy == "Never":
        return False
    if approval.find(s, plan) is not None:
        return True
    if needed:
        return False
    retry = retry_at(s, plan)
    return retry is None or s.now >= retry


def target_inputs(target: Target) -> dict[str, Any]:
    """The target of an operation, key-free (C-4.2)."""
    return {
        "engine": target.engine,
        "realm": target.coordination_digest,
        "explicitKey": target.explicit_key,
        "sharedRealm": target.shared_realm,
        "urlFrom": None if target.url_from is None else write(target.url_from),
        "tlsFrom": None if target.tls_from is None else write(target.tls_from),
    }


def timing(execution: Execution, *, lock_timeout: float, coordination_timeout: float) -> Any:
    """How long an operation may wait, in milliseconds."""
    return {
        "lockTimeoutMs": round(lock_timeout * 1000),
        "coordinationTimeoutMs": round(coordination_timeout * 1000),
        "connectTimeoutMs": round(execution.connect_timeout * 1000),
        "deadlineExplicit": execution.active_deadline_seconds is not None,
    }


def bundle(file: str, config_map: str, content: str) -> dict[str, str]:
    """One input of a Job, as ``gather`` reads it."""
    return {"file": file, "configMap": config_map, "digest": content}


def edited(plan: Plan) -> Refusal | None:
    """The stored plan still hashes to the fingerprint that a person approved."""
    try:
        binding = read_binding(plan.spec.binding)
    except ValueError:
        binding = None
    if binding is None or digest.plan_fingerprint(binding) != plan.spec.fingerprint:
        return Refusal("PlanDamaged", f"plan {plan.name} does not hash to its fingerprint")
    return None


def superseded(plan: Plan, wanted: Mapping[str, Any]) -> Refusal | None:
    """:param wanted: inputs of the fingerprint as they are now."""
    for key, value in wanted.items():
        if plan.spec.binding[key] != value:
            return Refusal("PlanSuperseded", f"the plan was made for another {key}")
    return None


def never(spec: CommonSpec) -> Refusal | None:
    """Policy lets nothing be applied."""
    if spec.apply_policy != "Never":
        return None
    return Refusal("ApplyNever", "policy.apply is Never", "spec.policy.apply")


def unapproved(s: Snapshot, plan: Plan, *, needed: bool) -> Refusal | None:
    """No unused approval binds the plan, and it takes one."""
    if needed and approval.find(s, plan) is None and not _consumed(s):
        text = f"no unused approval binds plan {plan.spec.fingerprint}"
        return Refusal("ApprovalMissing", text)
    return None


def _consumed(s: Snapshot) -> bool:
    """The claim in hand has used its approval up already."""
    claim = s.status.active_operation
    return claim is not None and claim.type == APPLY and claim.approval is not None


def database_refusal(s: Snapshot, plan: Plan) -> Refusal | None:
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
    missing = ledger_missing(database)
    if missing is not None:
        return missing
    assert s.spec is not None, "gates refuse a resource without a valid spec"
    target = s.spec.target
    bound = database.binding
    if target.explicit_key and bound is not None and bound != target.coordination_digest:
        text = f"this database is bound to realm {bound}"
        return Refusal("BindingMismatch", text, "spec.target.coordinationKey")
    return None


def ledger_missing(database: Database) -> Refusal | None:
    """The ledger is there and writable, or may be made."""
    if database.ledger_present and database.ledger_writable:
        return None
    if database.ledger_creatable and not database.ledger_present:
        return None
    text = "the attempt ledger is absent or not writable, and this role may not create it"
    return Refusal("LedgerMissing", text)


def damaged(s: Snapshot, understated: Callable[[bytes, Plan], bool]) -> Refusal | None:
    """Bytes about to be dispatched are what their digests say, whoever stored them.

    :param understated: the plan bytes say worse than the record that policy was asked about.
    """
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
                if s.plan is not None and understated(raw, s.plan):
                    text = f"plan {s.plan.name} is more severe than its record says"
                    return Refusal("PlanDamaged", text)
            else:
                found = digest.source_digest(decode(item.data))
        except FieldError as error:
            return Refusal(reason, f"ConfigMap {item.config_map}: {error}")
        if found != wanted[item.name]:
            return Refusal(reason, f"ConfigMap {item.config_map} holds other bytes than it should")
    return None


def job_head(claim: Claim, s: Snapshot) -> dict[str, Any]:
    """What the JobSpec of every operation has, from the claim alone (C-6.5)."""
    assert claim.dispatch_not_after is not None and claim.execution_not_after is not None
    inputs = claim.inputs
    owed = s.status.pending_observation if claim.type == PROVE else None
    return {
        "engine": digest.engine_family(inputs["engine"]),
        "make": digest.engine_make(inputs["engine"]),
        "operation_id": claim.operation_id,
        "attempt": claim.attempt,
        "job_name": claim.job_name,
        "holder": claim.holder,
        "store_uid": s.store.uid,
        "store_kind": s.store.kind,
        "resource_uid": s.uid,
        "coordination_digest": claim.realm,
        "dispatch_not_after": format_time(claim.dispatch_not_after),
        "execution_not_after": format_time(claim.execution_not_after),
        "active_deadline_seconds": claim.active_deadline_seconds,
        "termination_grace_period_seconds": POD_GRACE_S,
        # A proof that may not take the Lease yet speaks under the Apply's epoch (C-6.8).
        "epoch": claim.epoch or (owed.epoch if owed is not None else None),
        "explicit_key": inputs["explicitKey"],
        "shared_realm": inputs["sharedRealm"],
        "target_identity": inputs.get("targetIdentity"),
        "server_identity": inputs.get("serverIdentity"),
        "plan_digest": inputs.get("planDigest"),
        "plan_coordination_digest": inputs.get("planCoordination"),
        "source_digest": inputs.get("source"),
        "local_snapshot_digest": claim.snapshot_digest if s.store.kind == "local" else None,
        "fenced": None if owed is None else _fenced(owed),
        "known_number": known_number(s),
        "thawed": s.status.thawed_operations,
    }


def _fenced(owed: PendingObservation) -> FencedAttempt:
    return FencedAttempt(
        operation_id=owed.operation_id,
        epoch=owed.epoch,
        plan_digest=owed.inputs["planDigest"],
        not_after=format_time(owed.execution_not_after),
    )


def job_timing(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The times of a JobPolicy, in seconds."""
    found = inputs["timing"]
    return {
        "lock_timeout_seconds": found["lockTimeoutMs"] / 1000,
        "coordination_timeout_seconds": found["coordinationTimeoutMs"] / 1000,
        "connect_timeout_seconds": found["connectTimeoutMs"] / 1000,
        "deadline_explicit": found["deadlineExplicit"],
    }


def failure(payload: Mapping[str, Any]) -> Reading | None:
    """The runner's own refusal, or the executor's error."""
    result = payload.get("result")
    error = payload.get("error") or (result or {}).get("error")
    if error is None:
        if result is None or result.get("ok") is not True:
            raise FieldError(".result", "says neither success nor why not")
        return None
    reason = cut(str(error["reason"]), WORD_MAX)
    hint, field = error.get("hint"), error.get("field")
    return Reading(
        Failed(reason, error_text(error)),
        definite=reason not in TRANSIENT,
        exit_code=int(error["exitCode"]),
        hint=None if hint is None else cut(str(hint), 1024),
        field=None if field is None else cut(str(field), WORD_MAX),
    )


def apply_reading(
    claim: Claim, payload: Mapping[str, Any], *, stale: tuple[str, ...], named: tuple[str, ...],
    already: str,
) -> Reading:  # fmt: skip
    """Success as reported, a strict stale refusal, and everything else unknown (C-5.7).

    :param stale: reasons of the executor for a plan that its database has moved away from.
    :param named: inputs of the claim, one of which such a refusal quotes (C-10.3).
    :param already: what is said where there was nothing left to apply.
    :raises FieldError: the frame says neither success nor why not.
    """
    result = payload.get("result")
    started = payload.get("mutationStarted") is not False
    error = payload.get("error") or (result or {}).get("error")
    if result is None or error is not None:
        if error is None:
            return Reading(Unknown("FrameRefused", "its result says nothing"), started=started)
        reason, message = cut(str(error["reason"]), WORD_MAX), error_text(error)
        moved = result is not None and result.get("result") == "stale" and reason in stale
        # Recognised only from the diagnostic that names the plan's own digests.
        if moved and not started and any(str(claim.inputs[key]) in message for key in named):
            return Reading(NotStarted(reason, message), started=started)
        return Reading(Unknown(reason, message), started=started)
    if result.get("ok") is not True or result.get("mutationStarted") is None:
        raise FieldError(".result", "says neither success nor why not")
    if result["result"] == "alreadyConverged":
        return Reading(Succeeded("AlreadyConverged", already), started=False)
    if result["result"] == "applied" and result["statementsDone"] == result["statementsTotal"]:
        return Reading(Succeeded(message=f"{result['statementsDone']} statements applied"))
    return Reading(Unknown("FrameRefused", "its result contradicts itself"), started=started)


def error_text(error: Mapping[str, Any]) -> str:
    """An error document in a line, with its place and state."""
    where = ""
    if error.get("file"):
        where = f"{error['file']}:{error['line']}: " if error.get("line") else f"{error['file']}: "
    state = f" (SQLSTATE {error['sqlstate']})" if error.get("sqlstate") else ""
    message = str(error["message"])
    if not message.startswith(where.rstrip(" ")):
        message = where + message
    return cut(f"{message}{state}", 2048)


def elsewhere(owed: PendingObservation, result: Mapping[str, Any]) -> Unproven | None:
    """A proof on another database decides nothing (C-9.3)."""
    for key in ("targetIdentity", "serverIdentity"):
        if result.get(key) != owed.inputs[key]:
            reason = "TargetMismatch" if key == "targetIdentity" else "ServerIdentityMismatch"
            return Unproven(reason, f"the proof's {key} is not the plan's", 3)
    return None


def owner(s: Snapshot) -> dict[str, Any]:
    """The resource as what it makes names it."""
    return {
        "apiVersion": s.document["apiVersion"],
        "kind": s.kind,
        "name": s.name,
        "uid": s.uid,
    }


def plan_bytes(result: Mapping[str, Any]) -> tuple[bytes, digest.PlanDigest] | Failed:
    """The packed plan of a result, and its digest."""
    packed = unbase64(result["planBytes"])
    raw = unpack(packed, 4 * PLAN_RAW_BYTES_MAX)
    if len(raw) > PLAN_RAW_BYTES_MAX or len(packed) > PLAN_STORED_BYTES_MAX:
        return Failed("PlanTooLarge", f"{len(raw)} bytes, {len(packed)} compressed")
    content = digest.plan_content_digest(raw)
    if content != result["planDigest"]:
        raise FieldError(".result.planDigest", "is not the plan's")
    return packed, content


def plan_documents(s: Snapshot, spec: PlanSpec, packed: bytes) -> tuple[dict[str, Any], ...]:
    """A plan's bytes and its record: what is published before a status names it."""
    mine = owner(s)
    name = plan_name(spec.fingerprint)
    return (
        bundle_document(s.namespace, name, PLAN_KEY, base64_text(packed), mine),
        plan_document(s.namespace, spec, mine),
    )


def drift_kept(drift: Mapping[str, Any]) -> dict[str, Any]:
    """Advisory, and bounded (C-10.1)."""
    items = drift["items"]
    kept = [
        {key: cut(str(item[key]), 512) for key in ("category", "object", "severity", "detail")
         if item.get(key) is not None}
        for item in items[:DRIFT_ITEMS_KEPT]
    ]  # fmt: skip
    return {
        "digest": drift["digest"],
        "counts": dict(drift["counts"]),
        "highest": drift["highest"],
        "items": kept,
        "itemsDropped": len(items) - len(kept),
    }
