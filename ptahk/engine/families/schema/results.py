"""What a PtahSchema's frames mean: drift, a plan, an Apply's report, a proof's verdict."""

from collections.abc import Mapping
from typing import Any

from ptahk.engine.families import common
from ptahk.engine.families.schema import wanted
from ptahk.engine.family import Changes, Proven, Reading, Unproven, Verdict
from ptahk.engine.model import ledger
from ptahk.engine.model.claim import Claim, PendingObservation
from ptahk.engine.model.fields import FieldError, cut, format_time
from ptahk.engine.model.outcome import Failed, NotStarted, Outcome, Succeeded, Unknown
from ptahk.engine.model.plan import (
    PlanSpec,
    ResourceRef,
    SourceRef,
    bundle_document,
    plan_name,
    source_name,
)
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.source import base64_text, pack
from ptahk.wire import digest
from ptahk.wire.binding import PlanBinding, PolicyBinding
from ptahk.wire.jobspec import PROTOCOL_VERSION

DECLARATION_KEY = "declaration.sql.gz"


def read(claim: Claim, payload: Mapping[str, Any], s: Snapshot) -> Reading:
    """A frame's payload of Observe, Plan or Apply."""
    try:
        if claim.type == wanted.APPLY:
            return _apply(claim, payload)
        failure = common.failure(payload)
        if failure is not None:
            return failure
        result = payload["result"]
        if claim.type == wanted.PLAN:
            return _plan(claim, result, s)
        return _observe(claim, result, s)
    except (FieldError, KeyError, TypeError, ValueError) as error:
        text = f"its result is not what the protocol says ({type(error).__name__}: {error})"
        if claim.type == wanted.APPLY:
            return Reading(Unknown("FrameRefused", cut(text, 512)))
        return Reading(Failed("FrameRefused", cut(text, 512)), definite=False)


def _observe(claim: Claim, result: Mapping[str, Any], s: Snapshot) -> Reading:
    if claim.inputs.get("preflight") is True:
        return Reading(Succeeded(message="the database was read"))
    drift = result.get("drift")
    seen: dict[str, Any] = {
        "time": format_time(s.now),
        "operationId": claim.operation_id,
        "source": claim.inputs.get("source"),
        "observedFingerprint": result.get("observedFingerprint"),
        "scopeFingerprint": result.get("scopeFingerprint"),
    }
    if drift is not None:
        seen["drift"] = common.drift_kept(drift)
    publish: tuple[dict[str, Any], ...] = ()
    if claim.inputs.get("declaration") is True:
        publish = (_declaration(result["declaration"], seen, s),)
    found = drift is not None and sum(drift["counts"].values()) > 0
    outcome = Succeeded("DriftFound" if found else "Succeeded")
    return Reading(outcome, Changes(last_observation=seen, publish=publish))


def _declaration(text: str, seen: dict[str, Any], s: Snapshot) -> dict[str, Any]:
    """The live schema as SQL, in a ConfigMap that ``lastObservation.declaration`` names."""
    content = digest.source_digest([("declaration.sql", text)])
    name = f"ptahk-declaration-{content.removeprefix('sha256:')[:32]}"
    seen["declaration"] = {"configMap": name, "digest": content}
    data = base64_text(pack(text.encode("utf-8")))
    return bundle_document(s.namespace, name, DECLARATION_KEY, data, common.owner(s))


def _plan(claim: Claim, result: Mapping[str, Any], s: Snapshot) -> Reading:
    source = claim.inputs["source"]
    changes = planned(claim, result, s, SourceRef(source_name(source), source), claim.inputs)
    if isinstance(changes, Failed):
        return Reading(changes)
    assert changes.last_plan is not None
    if not changes.last_plan["statements"]:
        return Reading(Succeeded("Converged", "nothing to change"), changes)
    database = ledger.database_of(result, s.now, claim.request)
    refusal = None if database is None else common.ledger_refusal(s, database)
    if refusal is not None:
        return Reading(Failed(refusal.reason, refusal.message), changes)
    count = changes.last_plan["statements"]
    return Reading(Succeeded("ChangesPending", f"{count} statements"), changes)


def planned(
    claim: Claim, result: Mapping[str, Any], s: Snapshot, source: SourceRef,
    inputs: Mapping[str, Any],
) -> Changes | Failed:  # fmt: skip
    """A plan as evidence and as the documents to publish (C-7.2, C-7.3).

    :param inputs: of the claim that it was planned for, or of the Apply that is proven.
    """
    stored = common.plan_bytes(result)
    if isinstance(stored, Failed):
        return stored
    packed, content = stored
    summary = result["summary"]
    binding = _binding(s, content, result, source, inputs)
    fingerprint = digest.plan_fingerprint(binding)
    spec = PlanSpec(
        resource=ResourceRef(s.kind, s.name, s.uid),
        fingerprint=fingerprint,
        digest=content,
        binding=binding.document(),
        summary=summary,
        engine=inputs["engine"],
        server_identity=result["serverIdentity"],
        source=source,
        statements=int(summary["statements"]),
        destructive=bool(summary["destructive"]),
        privileges=bool(summary["privileges"]),
        operation_id=claim.operation_id,
        time=s.now,
    )
    name = plan_name(fingerprint)
    evidence = {
        "name": name,
        "fingerprint": fingerprint,
        "digest": content,
        "statements": spec.statements,
        "destructive": spec.destructive,
        "privileges": spec.privileges,
        "source": source.digest,
        "inputs": digest.input_fingerprint(wanted.PLAN, plan_view(inputs, source)),
        "observedFingerprint": result["observedFingerprint"],
        "desiredFingerprint": result["desiredFingerprint"],
        "scopeFingerprint": result.get("scopeFingerprint"),
        "time": format_time(s.now),
        "operationId": claim.operation_id,
    }
    publish = common.plan_documents(s, spec, packed)
    return Changes(last_plan=evidence, publish=publish, plan=fingerprint)


_PLAN_ONLY = (
    "engine", "realm", "explicitKey", "sharedRealm", "urlFrom", "policy", "timing",
    "tlsFrom", "devTemplate", "devUrlFrom", "deadlineSeconds",
)  # fmt: skip


def plan_view(inputs: Mapping[str, Any], source: SourceRef) -> dict[str, Any]:
    """The inputs that a Plan would have had, from those of a Plan or of the Apply proven."""
    bundle = {"file": "source.json.gz", "configMap": source.config_map, "digest": source.digest}
    view = {key: inputs[key] for key in _PLAN_ONLY}
    return view | {"source": source.digest, "bundles": [bundle]}


def _binding(
    s: Snapshot, content: digest.PlanDigest, result: Mapping[str, Any], source: SourceRef,
    inputs: Mapping[str, Any],
) -> PlanBinding:  # fmt: skip
    return PlanBinding(
        resource_uid=s.uid,
        plan_digest=content,
        source_digest=digest.SourceDigest(source.digest),
        coordination_digest=digest.CoordinationDigest(inputs["realm"]),
        target_identity_digest=digest.TargetIdentityDigest(result["targetIdentity"]),
        observed_state=digest.StateFingerprint(result["observedFingerprint"]),
        desired_state=digest.StateFingerprint(result["desiredFingerprint"]),
        policy=PolicyBinding.of_document(inputs["policy"]),
        executor_version=result["executorVersion"],
        protocol_version=PROTOCOL_VERSION,
    )


def _apply(claim: Claim, payload: Mapping[str, Any]) -> Reading:
    return common.apply_reading(
        claim, payload, stale=("StalePlan",), named=("observedState",),
        already="the database already had the plan's desired state",
    )  # fmt: skip


def judge(
    owed: PendingObservation, claim: Claim, payload: Mapping[str, Any], s: Snapshot
) -> Verdict:
    """A proof's frame: the fence, the ledger's row, and a fresh plan behind it."""
    try:
        return _judge(owed, claim, payload, s)
    except (FieldError, KeyError, TypeError, ValueError) as error:
        text = f"its result is not what the protocol says ({type(error).__name__}: {error})"
        return Unproven("FrameRefused", cut(text, 512))


def _judge(
    owed: PendingObservation, claim: Claim, payload: Mapping[str, Any], s: Snapshot
) -> Verdict:
    result = payload.get("result") or {}
    fence = result.get("fence")
    failure = common.failure(payload)
    if fence is None or fence.get("tombstone") is not True:
        if failure is None:
            return Unproven("FrameRefused", "its result has no fence")
        code = failure.exit_code
        return Unproven(failure.outcome.reason, failure.outcome.message, code)
    other = common.elsewhere(owed, result)
    if other is not None:
        return other
    row = fence.get("row")
    if row is not None and row["operationId"] != owed.operation_id:
        return Unproven("FrameRefused", "its fence names another operation")
    outcome = ledger.judge(row, owed.reported)
    if owed.inputs.get("rebind") is True:
        # One row was written, or not; there is no plan that could be empty.
        return Proven(outcome, converged=isinstance(outcome, Succeeded))
    if failure is not None:
        # The fence stands and the ledger was read; what is live now could not be planned.
        return Proven(outcome, converged=False)
    bundle = owed.inputs["bundles"][0]
    source = SourceRef(bundle["configMap"], bundle["digest"])
    changes = planned(claim, result, s, source, owed.inputs)
    if isinstance(changes, Failed):
        return Proven(outcome, converged=False)
    assert changes.last_plan is not None
    empty = changes.last_plan["statements"] == 0
    seen = _observe(claim, result, s).changes.last_observation if "drift" in result else None
    kept = Changes(
        last_observation=seen, last_plan=changes.last_plan, publish=changes.publish,
        plan=changes.plan,
    )  # fmt: skip
    return Proven(_already(outcome, owed, empty), converged=empty, changes=kept)


def _already(outcome: Outcome, owed: PendingObservation, converged: bool) -> Outcome:
    """``AlreadyConverged`` is the Apply's report, confirmed by the proof (C-10.3)."""
    if (
        converged
        and isinstance(outcome, NotStarted)
        and (owed.reported.reason == "AlreadyConverged")
    ):
        return Succeeded("AlreadyConverged", owed.reported.message)
    return outcome
