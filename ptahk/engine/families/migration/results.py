"""What a PtahMigration's frames mean: a history, an Apply's report, a proof's verdict."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from ptahk.engine.families import common
from ptahk.engine.families.migration import wanted
from ptahk.engine.family import Changes, Proven, Reading, Unproven, Verdict
from ptahk.engine.model import ledger
from ptahk.engine.model.claim import Claim, PendingObservation
from ptahk.engine.model.fields import FieldError, cut, format_time
from ptahk.engine.model.outcome import (
    Failed,
    NotStarted,
    Outcome,
    Partial,
    StoredOutcome,
    Succeeded,
    Unknown,
)
from ptahk.engine.model.plan import PlanSpec, ResourceRef, SourceRef, plan_name
from ptahk.engine.model.resource import SOURCE_KEY
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import UnresolvedRun
from ptahk.wire import digest
from ptahk.wire.binding import SequenceBinding
from ptahk.wire.jobspec import PROTOCOL_VERSION

FINDINGS_KEPT = 50
_GONE = "the acknowledged run left nothing in this database"


def read(claim: Claim, payload: Mapping[str, Any], s: Snapshot) -> Reading:
    """A frame's payload of History or Apply."""
    try:
        if claim.type == wanted.APPLY:
            return _apply(claim, payload)
        return _history(claim, payload, s)
    except (FieldError, KeyError, TypeError, ValueError) as error:
        text = f"its result is not what the protocol says ({type(error).__name__}: {error})"
        if claim.type == wanted.APPLY:
            return Reading(Unknown("FrameRefused", cut(text, 512)))
        return Reading(Failed("FrameRefused", cut(text, 512)), definite=False)


def _history(claim: Claim, payload: Mapping[str, Any], s: Snapshot) -> Reading:
    failure = common.failure(payload)
    result = payload.get("result") or {}
    if claim.inputs.get("preflight") is True:
        return failure or Reading(Succeeded(message="the database was read"))
    changes = learned(claim, result, s, claim.inputs)
    if isinstance(changes, Failed):
        return Reading(changes)
    if failure is not None and changes.resolves and _acknowledges(s, claim.inputs):
        return Reading(Succeeded("Converged", _GONE), changes)
    if failure is not None:
        return dataclasses.replace(failure, changes=changes)
    if changes.last_plan is None or not changes.last_plan["statements"]:
        if (result.get("drift") or {}).get("highest") is not None:
            return Reading(Succeeded("DriftFound", "nothing is pending"), changes)
        return Reading(Succeeded("Converged", "nothing is pending"), changes)
    database = ledger.database_of(result, s.now, claim.request)
    refusal = None if database is None else common.ledger_refusal(s, database)
    if refusal is not None:
        return Reading(Failed(refusal.reason, refusal.message), changes)
    return Reading(Succeeded("ChangesPending", _counted(changes.last_plan)), changes)


def _counted(plan: Mapping[str, Any]) -> str:
    return f"{plan['files']} files, {plan['statements']} statements"


def learned(
    claim: Claim, result: Mapping[str, Any], s: Snapshot, inputs: Mapping[str, Any]
) -> Changes | Failed:
    """What a reading of the history changes: evidence, a plan, an unresolved run (C-4.4)."""
    history = result.get("history")
    if history is None:
        return Changes()
    seen = {
        "time": format_time(s.now),
        "operationId": claim.operation_id,
        "source": inputs.get("source"),
        "inputs": digest.input_fingerprint(wanted.HISTORY, _view(inputs)),
        "verdict": history["verdict"],
        "reason": None if history["reason"] is None else cut(str(history["reason"]), 64),
        "message": cut(str(history["message"]), 1024),
        "nextStep": cut(str(history["nextStep"]), 1024),
        "fingerprint": history["fingerprint"],
        "format": history["format"],
        "applied": int(history["applied"]),
        "pending": int(history["pending"]),
        "findings": [_finding(item) for item in history["findings"][:FINDINGS_KEPT]],
        "findingsDropped": max(0, len(history["findings"]) - FINDINGS_KEPT),
    }
    seen |= _drift(result, s.status.last_observation, str(history["fingerprint"]), seen["time"])
    run = _unresolved(claim, result, s, history["unsettled"])
    word = run is None and seen["reason"] == "NothingToRecord" and _acknowledges(s, inputs)
    if word:
        seen |= {"reason": None, "message": _GONE, "nextStep": "Plan again."}
    changes = Changes(
        last_observation=seen,
        unresolved_run=run,
        resolves=run is None and (word or _same_database(s, result)),
    )
    if "planBytes" not in result:
        return changes
    planned = _planned(claim, result, s, inputs)
    if isinstance(planned, Failed):
        return planned
    evidence, publish = planned
    return dataclasses.replace(
        changes, last_plan=evidence, publish=publish, plan=evidence["fingerprint"]
    )


def _drift(
    result: Mapping[str, Any], before: Mapping[str, Any] | None, fingerprint: str, now: str
) -> dict[str, Any]:
    """What is known of drift: what this reading found, else what an earlier one did of the same
    history. It stays until it is looked at again, or files ran."""
    if result.get("drift") is not None:
        return {"drift": common.drift_kept(result["drift"]), "driftTime": now}
    refused = result.get("driftRefused")
    if refused is not None:
        kept = {key: cut(str(refused[key]), 1024) for key in ("reason", "message")}
        return {"driftRefused": kept, "driftTime": now}
    if before is None or before.get("fingerprint") != fingerprint:
        return {}
    known = ("drift", "driftRefused", "driftTime")
    return {key: before[key] for key in known if key in before}


def _view(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that an ordinary reading has, from those of any reading or of an Apply."""
    kept = (
        "engine", "realm", "explicitKey", "sharedRealm", "urlFrom", "tlsFrom", "policy", "timing",
        "deadlineSeconds", "source",
    )  # fmt: skip
    view = {key: inputs[key] for key in kept}
    bundles = [item for item in inputs.get("bundles", ()) if item["file"] == SOURCE_KEY]
    return view | {"preflight": False, "change": {}, "bundles": bundles}


def _finding(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: cut(str(item[key]), 512)
        for key in ("number", "file", "message", "hint")
        if item.get(key) is not None
    }


def _acknowledges(s: Snapshot, inputs: Mapping[str, Any]) -> bool:
    """A person names the run that is unresolved (C-4.4).

    Where the database was left for another one, its history has nothing of that run and no reading
    resolves it: there is no row to record the word in, and the word alone counts.
    """
    run, change = s.status.unresolved_run, inputs.get("change") or {}
    return run is not None and (change.get("action"), change.get("operation")) == (
        "settle", run.operation_id,
    )  # fmt: skip


def _same_database(s: Snapshot, result: Mapping[str, Any]) -> bool:
    run = s.status.unresolved_run
    return run is not None and run.server_identity == result.get("serverIdentity")


def _unresolved(
    claim: Claim, result: Mapping[str, Any], s: Snapshot, found: Mapping[str, Any] | None
) -> UnresolvedRun | None:
    if found is None:
        return None
    state: Literal["Partial", "Unknown"] = "Partial" if found["state"] == "partial" else "Unknown"
    return UnresolvedRun(
        operation_id=cut(str(found["claim"] or claim.operation_id), 64),
        outcome=state,
        server_identity=str(result["serverIdentity"]),
        version=cut(str(found["version"]), 256),
        file=cut(str(found["file"]), 512),
        message=cut(str(found["message"]), 1024),
        time=s.now,
    )


def _planned(
    claim: Claim, result: Mapping[str, Any], s: Snapshot, inputs: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]] | Failed:
    """A plan as evidence and as the documents to publish (C-7.2, C-7.3)."""
    stored = common.plan_bytes(result)
    if isinstance(stored, Failed):
        return stored
    packed, content = stored
    summary, sequence = result["summary"], result["sequence"]
    source = _source(inputs)
    binding = SequenceBinding(
        resource_uid=s.uid,
        plan_digest=content,
        source_digest=digest.SourceDigest(source.digest),
        coordination_digest=digest.CoordinationDigest(inputs["realm"]),
        target_identity_digest=digest.TargetIdentityDigest(result["targetIdentity"]),
        sequence_digest=digest.SequenceDigest(sequence["digest"]),
        history_fingerprint=digest.HistoryFingerprint(result["history"]["fingerprint"]),
        action=str(sequence["action"]),
        approval=sequence["approval"] is not False,
        change=sequence["change"],
        policy=inputs["policy"],
        executor_version=result["executorVersion"],
        protocol_version=PROTOCOL_VERSION,
    )
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
        destructive=False,
        privileges=False,
        operation_id=claim.operation_id,
        time=s.now,
    )
    evidence = {
        "name": plan_name(fingerprint),
        "fingerprint": fingerprint,
        "digest": content,
        "action": binding.action,
        "files": int(sequence["files"]),
        "statements": spec.statements,
        "source": source.digest,
        "historyFingerprint": binding.history_fingerprint,
        "time": format_time(s.now),
        "operationId": claim.operation_id,
    }
    return evidence, common.plan_documents(s, spec, packed)


def _source(inputs: Mapping[str, Any]) -> SourceRef:
    bundle = next(item for item in inputs["bundles"] if item["file"] == SOURCE_KEY)
    return SourceRef(bundle["configMap"], bundle["digest"])


def _apply(claim: Claim, payload: Mapping[str, Any]) -> Reading:
    return common.apply_reading(
        claim, payload, stale=("StalePlan", "SequenceChanged"), named=("history", "sequence"),
        already="every file of the plan is applied already",
    )  # fmt: skip


def judge(
    owed: PendingObservation, claim: Claim, payload: Mapping[str, Any], s: Snapshot
) -> Verdict:
    """A proof's frame: the fence, the ledger's row, and the history behind it."""
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
        return Unproven(failure.outcome.reason, failure.outcome.message, failure.exit_code)
    other = common.elsewhere(owed, result)
    if other is not None:
        return other
    row = fence.get("row")
    if row is not None and row["operationId"] != owed.operation_id:
        return Unproven("FrameRefused", "its fence names another operation")
    outcome = ledger.judge(row, owed.reported)
    if row is not None and owed.inputs["action"] in ("run", "resume"):
        total = int(row["statementsTotal"])
        outcome = by_rows(outcome, result.get("run"), total, owed.reported)
    changes = learned(claim, result, s, owed.inputs)
    if isinstance(changes, Failed):
        changes = Changes()
    if changes.last_observation is None:
        changes = _unread(outcome, owed, s, result)
    outcome = _already(outcome, owed, changes)
    hint = None
    if changes.last_observation is not None and changes.unresolved_run is not None:
        hint = str(changes.last_observation["nextStep"])
    return Proven(outcome, converged=isinstance(outcome, Succeeded), changes=changes, hint=hint)


def by_rows(
    ledgers: Outcome, run: Mapping[str, Any] | None, total: int, reported: StoredOutcome
) -> Outcome:
    """The outcome as the revision rows of the attempt refine what its ledger row proves (C-11.13).

    :param run: the rows of this operation, settled; None: they could not be read.
    """
    if run is None or isinstance(ledgers, NotStarted):
        return ledgers
    files = run["files"]
    done = sum(int(item["applied"]) for item in files)
    unknown = next((item for item in files if item["state"] == "unknown"), None)
    why = _why(files, reported)
    if unknown is not None:
        at = unknown["running"] or unknown["applied"] + 1
        text = f"{unknown['file']}: nobody saw how statement {at} of {unknown['total']} ended"
        return Unknown("OutcomeUnknown", f"{text}{why}")
    if files and all(item["state"] == "applied" for item in files) and done >= total:
        return ledgers if isinstance(ledgers, Succeeded) else Succeeded(message=ledgers.message)
    if isinstance(ledgers, Succeeded):
        return Unknown("OutcomeUnknown", "the ledger says applied, and the revision rows do not")
    if done == 0:
        return Failed("StatementFailed", f"nothing was changed{why}")
    if done >= total:
        return Unknown("OutcomeUnknown", f"the revision rows count more than was planned{why}")
    return Partial(done, total, message=f"{done} of {total} statements took effect{why}")


def _why(files: Any, reported: StoredOutcome) -> str:
    """What failed and where: as the executor said it, else as its row keeps it (C-11.16)."""
    last = next((item for item in files if item.get("error")), None)
    if reported.reason == "StatementFailed" or last is None:
        said = reported.message or reported.reason
        return f": {said}"
    line = f":{last['errorLine']}" if last.get("errorLine") else ""
    at = last.get("errorStatement")
    number = f"statement {at} of {last['total']} failed: " if at else ""
    state = f" (SQLSTATE {last['errorCode']})" if last.get("errorCode") else ""
    return f": {last['file']}{line}: {number}{cut(str(last['error']), 512)}{state}"


def _unread(
    outcome: Outcome, owed: PendingObservation, s: Snapshot, result: Mapping[str, Any]
) -> Changes:
    """The history could not be read: a run that may have stopped within a file stays unresolved."""
    if not isinstance(outcome, Partial | Unknown):
        return Changes()
    state: Literal["Partial", "Unknown"] = "Partial" if isinstance(outcome, Partial) else "Unknown"
    run = UnresolvedRun(
        operation_id=owed.operation_id, outcome=state,
        server_identity=str(result["serverIdentity"]),
        message=cut(outcome.message, 1024), time=s.now,
    )  # fmt: skip
    return Changes(unresolved_run=run)


def _already(outcome: Outcome, owed: PendingObservation, changes: Changes) -> Outcome:
    """``AlreadyConverged`` is the Apply's report, confirmed by the proof's own reading."""
    seen = changes.last_observation
    if owed.reported.reason != "AlreadyConverged" or not isinstance(outcome, NotStarted):
        return outcome
    if seen is not None and seen["verdict"] in ("nothingPending", "pending"):
        return Succeeded("AlreadyConverged", owed.reported.message)
    return outcome
