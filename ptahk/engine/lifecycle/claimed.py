"""Steps 1 to 6: from nothing to the dispatch mark. Until then a claim can be dropped.

Everything that may refuse is asked here, of a fresh reading, each time. A claim that is not
dispatched holds nothing but perhaps the Lease, and dropping it owes the Lease's release in the
same write (C-4.5).
"""

import dataclasses
from datetime import timedelta
from typing import assert_never

from ptahk.engine import approval, census, gates, lease
from ptahk.engine.family import Family, Proposal
from ptahk.engine.lifecycle.answers import proof_failed, refused, retried
from ptahk.engine.model import job as jobs
from ptahk.engine.model.claim import (
    DISPATCH_MAX_S,
    GRACE_S,
    PROVE,
    Claim,
    Consumed,
    PendingLockRelease,
)
from ptahk.engine.model.intent import (
    AcquireLease,
    Decision,
    DispatchJob,
    Do,
    RenewLease,
    Wait,
    WriteStatus,
)
from ptahk.engine.model.job import JobOrder
from ptahk.engine.model.lease import Holder
from ptahk.engine.model.outcome import Failed, Refusal
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire import digest, jobspec

PROOF_BYTES = 4096
"""By so much a proof's job document may be longer than its Apply's: it names the attempt."""
POLL_S = 5.0
POLL_WATCHED_S = 1.0
"""How often a foreign Lease is looked at; the second where a person waits for it."""


def write(s: Snapshot, family: Family, proposal: Proposal) -> Decision:
    """Step 1: claim what the family proposes."""
    assert s.spec is not None, "gates refuse a resource without a valid spec"
    fingerprint = digest.input_fingerprint(proposal.operation, dict(proposal.inputs))
    deadline_s = s.spec.execution.deadline_s
    operation_id = s.draws.operation_id
    retry = s.status.retry
    attempt = 1
    if retry is not None and retry.type == proposal.operation and not retry.definite:
        attempt += retry.attempts
    plan = proposal.inputs.get("fingerprint")
    claim = Claim(
        type=proposal.operation,
        operation_id=operation_id,
        attempt=attempt,
        input_fingerprint=fingerprint,
        job_name=digest.job_name(proposal.operation, s.uid, operation_id, fingerprint, attempt),
        generation=s.generation,
        start_time=s.now,
        active_deadline_seconds=deadline_s,
        lease_duration_seconds=deadline_s + GRACE_S,
        realm=s.spec.target.coordination_digest,
        lease=family.needs_realm(proposal.operation),
        holder=digest.holder(s.uid, operation_id),
        inputs=proposal.inputs,
        request=proposal.request,
        answers=proposal.answers,
        plan=plan if isinstance(plan, str) else None,
    )
    status = dataclasses.replace(s.status, active_operation=claim)
    return Do(WriteStatus("WriteClaim", status, f"{claim.type} {operation_id[:12]}"))


def step(s: Snapshot, family: Family, claim: Claim) -> Decision:
    """The next step of a claim that is not dispatched."""
    if claim.type != PROVE:
        dropped = _dropped(s, family, claim)
        if dropped is not None:
            return dropped
    if claim.lease:
        realm = _realm(s, claim)
        if realm is not None:
            return realm
    assert s.surroundings is not None, "read for every undispatched claim"
    if isinstance(s.surroundings, Refusal):
        return _impossible(s, claim, s.surroundings, again=True)
    surroundings = dict(s.surroundings)
    found = snapshot_digest(s, surroundings)
    if claim.snapshot_digest is None:
        kept = dataclasses.replace(claim, snapshot=surroundings, snapshot_digest=found)
        return _advance(s, "PersistSnapshot", kept)
    if found != claim.snapshot_digest:
        return discard(s, claim, "what shapes its process changed")
    if claim.type != PROVE and family.needs_approval(claim, s):
        approved = _approval(s, claim)
        if approved is not None:
            return approved
    return _dispatch(s, family, claim)


def _dropped(s: Snapshot, family: Family, claim: Claim) -> Decision | None:
    """What refuses the claim, or has moved under it (C-3.5, C-3.6, C-6.3)."""
    refusal = gates.claim(s, realm=claim.lease, mutates=family.mutates(claim.type))
    refusal = refusal or family.gate(claim.type, s)
    if refusal is not None:
        return discard(s, claim, refusal.message, refusal)
    current = s.open_request
    if claim.request is not None and (current is None or current.id != claim.request):
        return discard(s, claim, "another request took its place")
    inputs = family.inputs(claim.type, s, claim)
    if inputs is None or _fingerprint(claim, inputs) != claim.input_fingerprint:
        return discard(s, claim, "its inputs moved")
    return None


def _fingerprint(claim: Claim, inputs: object) -> str:
    assert isinstance(inputs, dict)
    return digest.input_fingerprint(claim.type, inputs)


def _realm(s: Snapshot, claim: Claim) -> Decision | None:
    """Step 2: the Lease and its epoch; None where the claim holds both."""
    found = lease.verdict(s, claim.holder, claim.epoch)
    match found:
        case lease.Ours():
            if claim.epoch is None:
                held = dataclasses.replace(claim, epoch=str(found.record.epoch))
                return _advance(s, "CopyEpoch", held, found.record.epoch.number)
            document = lease.renew(s, found, claim.lease_duration_seconds)
            return None if document is None else Do(RenewLease(document))
        case lease.Free() | lease.ExpiredHere():
            if s.store.automatic and not census.turn(s) and _waits(s, claim):
                return _later(s, "RealmHeld", "an older claim of this realm waits")
            holder = Holder(s.kind, s.namespace, s.name, s.uid, claim.operation_id, claim.type)
            seconds = claim.lease_duration_seconds
            return Do(AcquireLease(lease.acquire(s, found, holder, claim.holder, seconds)))
        case lease.Orphan():
            owed = PendingLockRelease(
                claim.realm, found.record.identity or "", str(found.record.epoch)
            )
            status = dataclasses.replace(s.status, pending_lock_release=owed)
            return Do(WriteStatus("OweRelease", status, "a Lease of an earlier claim"))
        case lease.Lost():
            return discard(s, claim, found.message)
        case lease.Foreign():
            return _foreign(s, claim, found)
        case _:
            assert_never(found)


def _foreign(s: Snapshot, claim: Claim, found: lease.Foreign) -> Decision:
    if found.malformed:
        return discard(s, claim, found.message, Refusal("LeaseMalformed", found.message))
    if claim.type == PROVE or s.store.automatic or _waits(s, claim):
        return _later(s, "RealmHeld", found.message)
    return discard(s, claim, found.message, Refusal("RealmHeld", found.message))


def _waits(s: Snapshot, claim: Claim) -> bool:
    """The claim is younger than the patience of ``policy.coordinationTimeout``."""
    patience = s.spec.coordination_timeout_s if s.spec is not None else 0.0
    return s.now - claim.start_time < timedelta(seconds=patience)


def _later(s: Snapshot, reason: str, message: str) -> Wait:
    seconds = POLL_S if s.store.automatic else POLL_WATCHED_S
    return Wait(s.now + timedelta(seconds=seconds), reason, message)


def _approval(s: Snapshot, claim: Claim) -> Decision | None:
    """Step 4; None where a consumed approval still stands and binds."""
    if s.plan is None:
        return discard(s, claim, "its plan is gone")
    if claim.approval is not None:
        kept = [item for item in s.approvals if item.uid == claim.approval.uid]
        if any(approval.binds(item, s.plan, s.uid) for item in kept):
            return None
        return discard(s, claim, "its approval is gone")
    found = approval.find(s, s.plan)
    if found is None:
        text = f"no unused approval binds plan {s.plan.spec.fingerprint}"
        return discard(s, claim, text, Refusal("ApprovalMissing", text))
    used = Consumed(found.name, found.uid, found.spec.approver.username, s.now)
    status = approval.consume(s.status, found, claim.operation_id)
    status = dataclasses.replace(status, active_operation=dataclasses.replace(claim, approval=used))
    return Do(WriteStatus("ConsumeApproval", status, f"approved by {used.approver}"))


def _dispatch(s: Snapshot, family: Family, claim: Claim) -> Decision:
    """Steps 5 and 6: the mark and the one create, in one pass of one process."""
    if claim.type == PROVE and s.unguarded is not None:
        return _postponed(s, Refusal("NoAdmission", s.unguarded))
    if claim.type == PROVE and (s.inputs is None or family.gate(PROVE, s) is not None):
        # Its declaration is gone or damaged. Fence and ledger need none, and settle the Apply
        # (C-6.13); only whether the database has converged is not said then.
        s = dataclasses.replace(s, inputs=())
    if s.inputs is None and _republished(s, claim):
        return discard(s, claim, "its declaration's bundle was deleted")
    if s.inputs is None:
        refusal = s.source_refusal or s.plan_refusal
        refusal = refusal or Refusal("SourceMissing", "an input of the operation is absent")
        # A plan without its bytes is none: it is made again, and not claimed again.
        s = dataclasses.replace(s, status=dataclasses.replace(s.status, last_plan=None))
        return _impossible(s, claim, refusal)
    seconds = claim.active_deadline_seconds
    marked = dataclasses.replace(
        claim,
        dispatch_started=True,
        dispatch_time=s.now,
        dispatch_nonce=s.draws.nonce,
        dispatch_not_after=s.now + timedelta(seconds=min(DISPATCH_MAX_S, seconds / 2)),
        execution_not_after=s.now + timedelta(seconds=seconds),
        intent_digest="",
    )
    try:
        spec = family.job(marked, s)
        intent = jobspec.input_digest(_fitting(s, claim, jobspec.encode(spec)))
    except jobspec.JobSpecError as error:
        return _impossible(s, claim, Refusal("InvalidSpec", str(error)), again=True)
    marked = dataclasses.replace(marked, intent_digest=intent)
    status = dataclasses.replace(s.status, active_operation=marked)
    return Do(DispatchJob(status, s.draws.nonce, _order(s, marked, spec)))


def _fitting(s: Snapshot, claim: Claim, document: bytes) -> bytes:
    """The job document, if what runs it can hold it, and of an Apply its proof's as well.

    :raises JobSpecError: it is too long. After the mark a create that cannot be sent would leave
        something unknown that never was.
    """
    size = jobs.bytes_in_pod(document)
    limit = jobs.POD_JOB_BYTES_MAX
    if s.store.kind == "local":
        size, limit = len(document), jobspec.JOB_BYTES_MAX
    limit -= 0 if claim.type == PROVE else PROOF_BYTES
    if size > limit:
        text = f"policy is too long: the operation's job document has {size} of {limit} bytes"
        raise jobspec.JobSpecError(text)
    return document


def _republished(s: Snapshot, claim: Claim) -> bool:
    """What is missing is the declaration's own bundle, which the next claim publishes again."""
    if s.source is None or s.source.bundle is None:
        return False
    named = [item["configMap"] for item in claim.inputs.get("bundles", ())]
    return s.source.reference.config_map in named


def _impossible(s: Snapshot, claim: Claim, refusal: Refusal, *, again: bool = False) -> Decision:
    """It cannot be dispatched as it stands; a proof stays owed and says so.

    :param again: the very same would be claimed next: not before the retry interval is over.
    """
    owed = s.status.pending_observation
    if claim.type != PROVE or owed is None:
        if again and s.store.automatic:
            failed = Failed(refusal.reason, refusal.message)
            status = retried(s.status, s, claim, failed, definite=True)
            s = dataclasses.replace(s, status=status)
        return discard(s, claim, refusal.message, refusal)
    status = dataclasses.replace(s.status, active_operation=None)
    status = proof_failed(status, s, owed, refusal, exit_code=None, definite=True)
    return Do(WriteStatus("DiscardClaim", status, refusal.message))


def _postponed(s: Snapshot, refusal: Refusal) -> Decision:
    """A proof is never dropped: its claim is made again until it can be dispatched (C-12.4)."""
    owed = s.status.pending_observation
    assert owed is not None, "a proof is claimed for what is owed"
    status = dataclasses.replace(s.status, active_operation=None)
    status = proof_failed(status, s, owed, refusal, exit_code=None, definite=False)
    return Do(WriteStatus("DiscardClaim", status, refusal.message))


def _order(s: Snapshot, claim: Claim, spec: jobspec.JobSpec) -> JobOrder:
    assert s.inputs is not None and claim.snapshot is not None
    annotations = identity(claim)
    if spec.plan_digest is not None:
        annotations[jobs.PLAN_DIGEST] = spec.plan_digest
    spec_document = s.document.get("spec")
    written = spec_document if isinstance(spec_document, dict) else {}
    return JobOrder(
        namespace=s.namespace,
        name=claim.job_name,
        owner={
            "apiVersion": s.document["apiVersion"],
            "kind": s.kind,
            "name": s.name,
            "uid": s.uid,
        },
        annotations=annotations,
        spec=spec,
        inputs=s.inputs,
        surroundings=claim.snapshot,
        url_from=claim.inputs.get("urlFrom") or {},
        execution=written.get("execution") or {},
        dev_url_from=claim.inputs.get("devUrlFrom") or {},
        tls_from=claim.inputs.get("tlsFrom") or {},
    )


def identity(claim: Claim) -> dict[str, str]:
    """What a Job of this claim carries and no other can (step 7, invariant 17)."""
    return {
        jobs.OPERATION_ID: claim.operation_id,
        jobs.EPOCH: claim.epoch or "",
        jobs.NONCE: claim.dispatch_nonce or "",
        jobs.INTENT: claim.intent_digest or "",
        jobs.SNAPSHOT: claim.snapshot_digest or "",
    }


def discard(s: Snapshot, claim: Claim, message: str, refusal: Refusal | None = None) -> Decision:
    """Drop an undispatched claim and owe the release of what it may hold, in one write.

    :param refusal: answers the request; None: the same work is simply claimed anew.
    """
    status = dataclasses.replace(s.status, active_operation=None)
    if claim.type != PROVE and s.lease is not None:
        found = lease.verdict(s, claim.holder, None)
        if isinstance(found, lease.Ours):
            owed = PendingLockRelease(claim.realm, claim.holder, str(found.record.epoch))
            status = dataclasses.replace(status, pending_lock_release=owed)
    if refusal is not None and claim.request is not None:
        status = refused(status, s, refusal, claim)
    return Do(WriteStatus("DiscardClaim", status, message))


def _advance(s: Snapshot, name: "str", claim: Claim, number: int | None = None) -> Decision:
    assert name == "CopyEpoch" or name == "PersistSnapshot"
    status = dataclasses.replace(s.status, active_operation=claim)
    if number is not None:
        status = dataclasses.replace(status, realm_number=max(number, status.realm_number))
    return Do(WriteStatus("CopyEpoch" if name == "CopyEpoch" else "PersistSnapshot", status))


def snapshot_digest(s: Snapshot, surroundings: dict[str, object]) -> str:
    """The digest of step 3's snapshot, by the kind of store that took it."""
    if s.store.kind == "local":
        return digest.local_snapshot_digest(surroundings)
    return digest.admission_snapshot_digest(surroundings)
