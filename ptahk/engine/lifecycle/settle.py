"""Step 10: the outcome, stored inside the claim together with what is owed, in one write.

A mutation always owes a proof once it was dispatched: success is proven too, and a refusal is
fenced, because a second process of the same Job may still come (invariant 10).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ptahk.engine.family import Changes, Family, Proven, Reading, Unproven
from ptahk.engine.lifecycle import answers
from ptahk.engine.model.claim import PROVE, Claim, PendingLockRelease, PendingObservation
from ptahk.engine.model.intent import Decision, Do, Publish, StatusStep, WriteStatus
from ptahk.engine.model.ledger import database_of, frozen_by
from ptahk.engine.model.outcome import Failed, Outcome, Refusal, Succeeded, Unknown, load, store
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import Status


def retire(
    s: Snapshot, family: Family, claim: Claim, refusal: Refusal, *, uncertain: bool = False,
    continuity_lost: bool = False,
) -> Decision:  # fmt: skip
    """End an operation without a usable result: a mutation is unknown, the rest may be retried."""
    if family.mutates(claim.type):
        outcome = Unknown(refusal.reason, refusal.message)
        status = _ended(s.status, s, claim, outcome)
        owed = _owe(s, family, claim, outcome)
        owed = dataclasses.replace(
            owed,
            uncertain=uncertain and not s.creation_certain,
            continuity_lost=continuity_lost,
        )
        status = dataclasses.replace(status, pending_observation=owed)
        return Do(WriteStatus("LatchUnknown", status, refusal.message))
    failed = Failed(refusal.reason, refusal.message)
    status = _ended(s.status, s, claim, failed)
    if claim.type == PROVE:
        before = s.status.pending_observation
        assert before is not None, "a proof has something to settle"
        kept = dataclasses.replace(
            before, continuity_lost=before.continuity_lost or continuity_lost
        )
        status = answers.proof_failed(status, s, kept, refusal, exit_code=None, definite=False)
        return _settle(status, refusal.message)
    status = _give_back(status, s, claim)
    return _settle(_without_result(status, s, claim, failed), refusal.message)


def _without_result(status: Status, s: Snapshot, claim: Claim, failed: Failed) -> Status:
    """Retry a read-only operation under a new claim, or answer after the last attempt."""
    status = answers.retried(status, s, claim, failed, definite=False)
    if s.store.automatic or status.retry is None or status.retry.attempts < answers.ATTEMPTS_MAX:
        return status
    end = answers.End("Failed", "NoResult", f"{failed.reason}: {failed.message}", 5)
    status = dataclasses.replace(status, retry=None)
    return answers.answered(status, s, claim.request, end, claim, request_type(s, claim))


def result(s: Snapshot, family: Family, claim: Claim, payload: Mapping[str, Any]) -> Decision:
    """End an operation by what its frame says."""
    if claim.type == PROVE:
        return _proof(s, family, claim, payload)
    reading = family.read(claim, payload, s)
    missing = _unpublished(s, reading.changes)
    if missing is not None:
        return missing
    status = _learned(s.status, s, claim, payload)
    if family.mutates(claim.type):
        status = _ended(status, s, claim, reading.outcome)
        owed = _owe(s, family, claim, reading.outcome)
        owed = dataclasses.replace(owed, started=reading.started)
        status = dataclasses.replace(status, pending_observation=owed)
        return _settle(status, f"{reading.outcome.reason}; a proof is owed")
    status = _changed(status, reading.changes)
    named = dataclasses.replace(claim, plan=reading.changes.plan or claim.plan)
    status = _give_back(_ended(status, s, named, reading.outcome), s, claim)
    return _settle(_read_answer(status, s, named, reading), reading.outcome.reason)


def _read_answer(status: Status, s: Snapshot, claim: Claim, reading: Reading) -> Status:
    failed = not isinstance(reading.outcome, Succeeded)
    if failed:
        if not isinstance(reading.outcome, Failed) or not reading.definite:
            failure = Failed(reading.outcome.reason, reading.outcome.message)
            return _without_result(status, s, claim, failure)
        status = answers.retried(status, s, claim, reading.outcome, definite=True)
    else:
        status = dataclasses.replace(status, retry=None)
    if not (claim.answers or failed):
        return status
    end = answers.end_of_read(reading.outcome, reading.exit_code)
    end = dataclasses.replace(end, field=reading.field, hint=reading.hint)
    return answers.answered(status, s, claim.request, end, claim, request_type(s, claim))


def _proof(s: Snapshot, family: Family, claim: Claim, payload: Mapping[str, Any]) -> Decision:
    owed = s.status.pending_observation
    assert owed is not None, "a proof has something to settle"
    verdict = family.judge(owed, claim, payload, s)
    status = _learned(s.status, s, claim, payload)
    if isinstance(verdict, Unproven):
        failed = Failed(verdict.reason, verdict.message)
        status = answers.proof_failed(
            _ended(status, s, claim, failed), s, owed,
            Refusal(verdict.reason, verdict.message),
            exit_code=verdict.exit_code, definite=True,
        )  # fmt: skip
        return _settle(status, verdict.message)
    outcome = load(owed.settled) if owed.settled is not None else verdict.outcome
    if not claim.lease:
        # Fenced without the Lease: what the ledger says stands; convergence is read again under
        # a Lease of the proof's own (C-6.8, C-10.5).
        kept = dataclasses.replace(owed, fenced=True, settled=store(outcome))
        status = dataclasses.replace(
            _ended(status, s, claim, Succeeded("Succeeded", "fenced")), pending_observation=kept
        )
        return _settle(status, f"fenced: {outcome.reason}")
    missing = _unpublished(s, verdict.changes)
    if missing is not None:
        return missing
    return _settle(_proven(status, s, claim, owed, verdict, outcome), outcome.reason)


def _proven(
    status: Status, s: Snapshot, claim: Claim, owed: PendingObservation, verdict: Proven,
    outcome: Outcome,
) -> Status:  # fmt: skip
    """Everything that a proof settles, in one status: nothing is owed but the release."""
    status = _changed(status, verdict.changes)
    status = _ended(status, s, claim, Succeeded(message="proven"))
    settled = store(outcome)
    history = tuple(
        dataclasses.replace(entry, settled=settled, converged=verdict.converged)
        if entry.operation_id == owed.operation_id
        else entry
        for entry in status.history
    )
    status = dataclasses.replace(status, pending_observation=None, history=history, retry=None)
    status = _give_back(status, s, claim)
    identity = owed.request
    current = s.open_request
    if current is None or current.id != identity:
        return status
    end = answers.end_of_apply(outcome, verdict.converged)
    if end.exit_code and verdict.hint is not None:
        end = dataclasses.replace(end, hint=verdict.hint)
    plan = owed.inputs.get("fingerprint")
    shown = dataclasses.replace(
        claim, operation_id=owed.operation_id, plan=plan if isinstance(plan, str) else None
    )
    return answers.answered(status, s, identity, end, shown, current.type)


def supersede(s: Snapshot, claim: Claim) -> Decision:
    """A reading of inputs that moved: its result is dropped, and its request stays open."""
    outcome = Failed("Superseded", "its inputs moved while it ran")
    status = _give_back(_ended(s.status, s, claim, outcome), s, claim)
    return _settle(status, outcome.message)


def invalidate(s: Snapshot, claim: Claim, owed: PendingObservation) -> Decision:
    """A late or duplicate Pod: the proof in flight proves nothing; it starts again (C-4.2)."""
    outcome = Failed("Superseded", "a Pod of the Apply was seen after the proof had begun")
    status = dataclasses.replace(_ended(s.status, s, claim, outcome), pending_observation=owed)
    return Do(WriteStatus("InvalidateProof", status, outcome.message))


def request_type(s: Snapshot, claim: Claim) -> str:
    """The type of the request that the claim was made under, as far as it is known."""
    request = s.request
    if request is not None and request.id == claim.request:
        return request.type
    return claim.type.lower()


def _ended(status: Status, s: Snapshot, claim: Claim, outcome: Outcome) -> Status:
    ended = dataclasses.replace(claim, outcome=store(outcome), finish_time=s.now)
    return dataclasses.replace(status, active_operation=ended)


def _owe(s: Snapshot, family: Family, claim: Claim, outcome: Outcome) -> PendingObservation:
    """The proof owed, with everything that it will need: nothing is read from spec (C-4.2)."""
    assert claim.epoch is not None and claim.snapshot is not None
    assert claim.snapshot_digest is not None and claim.execution_not_after is not None
    return PendingObservation(
        operation_id=claim.operation_id,
        attempt=claim.attempt,
        generation=claim.generation,
        realm=claim.realm,
        holder=claim.holder,
        epoch=claim.epoch,
        active_deadline_seconds=claim.active_deadline_seconds,
        lease_duration_seconds=claim.lease_duration_seconds,
        snapshot=claim.snapshot,
        snapshot_digest=claim.snapshot_digest,
        job_name=claim.job_name,
        job_uid=claim.job_uid,
        execution_not_after=claim.execution_not_after,
        reported=store(outcome),
        inputs=family.proof_inputs(claim, s),
        pods=claim.pods,
        request=claim.request,
    )


def _give_back(status: Status, s: Snapshot, claim: Claim) -> Status:
    """Owe the release of the realm that this claim holds and nothing further needs."""
    if claim.epoch is None:
        return status
    owed = PendingLockRelease(claim.realm, claim.holder, claim.epoch)
    return dataclasses.replace(status, pending_lock_release=owed)


def _learned(status: Status, s: Snapshot, claim: Claim, payload: Mapping[str, Any]) -> Status:
    """What the frame says about the database, whatever became of the operation."""
    document = payload.get("result")
    if not isinstance(document, Mapping):
        return status
    database = database_of(document, s.now, claim.request)
    if database is None:
        return status
    frozen = status.frozen or frozen_by(document, s.now, status)
    return dataclasses.replace(status, database=database, frozen=frozen)


def _changed(status: Status, changes: Changes) -> Status:
    if changes.last_observation is not None:
        status = dataclasses.replace(status, last_observation=changes.last_observation)
    if changes.last_plan is not None:
        status = dataclasses.replace(status, last_plan=changes.last_plan)
    if changes.unresolved_run is not None or changes.resolves:
        status = dataclasses.replace(status, unresolved_run=changes.unresolved_run)
    return status


def _unpublished(s: Snapshot, changes: Changes) -> Decision | None:
    """The first immutable document that must exist before the outcome may name it."""
    for document in changes.publish:
        if document_key(document) not in s.published:
            return Do(Publish(document))
    return None


def document_key(document: Mapping[str, Any]) -> str:
    """How the names of published documents are remembered."""
    metadata = document["metadata"]
    return f"{document['kind']}/{metadata['namespace']}/{metadata['name']}"


def _settle(status: Status, message: str) -> Decision:
    step: StatusStep = "Settle"
    return Do(WriteStatus(step, status, message))
