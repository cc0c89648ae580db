"""What outlives an operation: a release or a proof owed, a Lease or a Job that came late."""

import dataclasses
from datetime import timedelta

from ptahk.engine import lease
from ptahk.engine.lifecycle.finishing import TTL_S
from ptahk.engine.lifecycle.running import growth
from ptahk.engine.model.claim import PROVE, Claim, PendingLockRelease, PendingObservation
from ptahk.engine.model.intent import (
    Decision,
    Do,
    ReleaseLease,
    RenewLease,
    SetJobTtl,
    Wait,
    WriteStatus,
)
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire import digest


def release(s: Snapshot, owed: PendingLockRelease) -> Decision:
    """Release exactly this holder and epoch, then forget the debt; both idempotent (C-4.3)."""
    found = lease.release(s, owed.holder, owed.epoch)
    if found is not None:
        document, record = found
        return Do(ReleaseLease(document, record))
    status = dataclasses.replace(s.status, pending_lock_release=None)
    return Do(WriteStatus("ClearRelease", status))


def orphan(s: Snapshot) -> Decision | None:
    """A Lease of this resource's without a claim: an acquisition that landed late (D11)."""
    found = lease.verdict(s, "", None)
    if not isinstance(found, lease.Orphan) or s.spec is None:
        return None
    realm = s.spec.target.coordination_digest
    owed = PendingLockRelease(realm, found.record.identity or "", str(found.record.epoch))
    status = dataclasses.replace(s.status, pending_lock_release=owed)
    return Do(WriteStatus("OweRelease", status, "a Lease of an earlier claim"))


def stray(s: Snapshot) -> Decision | None:
    """A Job that came after its operation was over, and has ended: its cleanup (step 11)."""
    if not s.strays:
        return None
    job = s.strays[0]
    return Do(SetJobTtl(s.namespace, job.name, job.uid, TTL_S))


def proof(s: Snapshot, owed: PendingObservation) -> Decision:
    """Claim the next proof, once nothing speaks against it."""
    grown = growth(owed.pods, s.pods)
    if grown is not None:
        return _keep(s, dataclasses.replace(owed, pods=grown), f"{grown.count} Pods seen")
    if not owed.continuity_lost:
        found = lease.verdict(s, owed.holder, owed.epoch)
        if not isinstance(found, lease.Ours):
            text = found.message if isinstance(found, lease.Lost) else "the Lease is not ours"
            return _keep(s, dataclasses.replace(owed, continuity_lost=True), text)
        document = lease.renew(s, found, owed.lease_duration_seconds)
        if document is not None:
            return Do(RenewLease(document))
    third = timedelta(seconds=owed.lease_duration_seconds / (lease.RENEW_AT * 2))
    if owed.uncertain and s.waited_s < owed.lease_duration_seconds:
        left = timedelta(seconds=owed.lease_duration_seconds - s.waited_s)
        return Wait(s.now + min(left, third), "ProofWait", "a create may still land")
    request = s.open_request
    anew = request is not None and request.id != owed.asked
    if owed.not_before is not None and s.now < owed.not_before and not anew:
        return Wait(min(owed.not_before, s.now + third), "BackOff", owed.message)
    return _claim(s, owed)


def _keep(s: Snapshot, owed: PendingObservation, message: str) -> Decision:
    status = dataclasses.replace(s.status, pending_observation=owed)
    return Do(WriteStatus("RecordPods", status, message))


def _claim(s: Snapshot, owed: PendingObservation) -> Decision:
    """The proof's own operation, under the Apply's holder and epoch while they last (C-6.9).

    With the continuity lost it first fences without a Lease, and then takes one of its own.
    """
    operation_id = s.draws.operation_id
    inputs = dict(owed.inputs)
    fingerprint = digest.input_fingerprint(PROVE, inputs)
    attempt = owed.attempts + 1
    claim = Claim(
        type=PROVE,
        operation_id=operation_id,
        attempt=attempt,
        input_fingerprint=fingerprint,
        job_name=digest.job_name(PROVE, s.uid, operation_id, fingerprint, attempt),
        generation=owed.generation,
        start_time=s.now,
        active_deadline_seconds=owed.active_deadline_seconds,
        lease_duration_seconds=owed.lease_duration_seconds,
        realm=owed.realm,
        lease=owed.fenced or not owed.continuity_lost,
        holder=owed.holder,
        inputs=inputs,
        request=owed.request,
        epoch=None if owed.continuity_lost else owed.epoch,
        plan=None,
    )
    status = dataclasses.replace(s.status, active_operation=claim)
    return Do(WriteStatus("WriteClaim", status, f"{PROVE} of {owed.operation_id[:12]}"))
