"""Steps 11 and 12: the Job's cleanup once the outcome is durable, then the claim's end."""

import dataclasses
from datetime import timedelta

from ptahk.engine import lease
from ptahk.engine.family import Family
from ptahk.engine.lifecycle.running import JOB_POLL_S, matches
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.intent import Decision, Do, RenewLease, SetJobTtl, Wait, WriteStatus
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import HistoryEntry, with_history

TTL_S = 300


def step(s: Snapshot, family: Family, claim: Claim) -> Decision:
    """The next step of an operation whose outcome is stored."""
    job = s.job
    ours = job is not None and (
        job.uid == claim.job_uid or (claim.job_uid is None and matches(claim, job))
    )
    if job is None or not ours or job.ttl_s is not None:
        return _clear(s, claim)
    owed = s.status.pending_observation
    lost = owed is not None and owed.continuity_lost and owed.operation_id == claim.operation_id
    lost = lost and not family.outlives_lease(claim.type)
    if job.terminal or lost:
        # The one exception of C-3.4: an Apply whose continuity was lost gets its TTL while it
        # still runs, if its family lets it go.
        return Do(SetJobTtl(s.namespace, claim.job_name, job.uid, TTL_S))
    if claim.job_uid is None and family.mutates(claim.type):
        # It landed late; the proof will meet it, and may not wait for it.
        return _clear(s, claim)
    return _renewed(s, claim) or Wait(
        s.now + timedelta(seconds=JOB_POLL_S), "JobRunning", "its Job has not ended yet"
    )


def _renewed(s: Snapshot, claim: Claim) -> Decision | None:
    """The realm is kept while something of ours may still run in it."""
    if claim.epoch is None:
        return None
    found = lease.verdict(s, claim.holder, claim.epoch)
    if not isinstance(found, lease.Ours):
        return None
    document = lease.renew(s, found, claim.lease_duration_seconds)
    return None if document is None else Do(RenewLease(document))


def _clear(s: Snapshot, claim: Claim) -> Decision:
    assert claim.outcome is not None and claim.finish_time is not None
    entry = HistoryEntry(
        type=claim.type,
        operation_id=claim.operation_id,
        attempt=claim.attempt,
        job=claim.job_name,
        outcome=claim.outcome,
        start_time=claim.start_time,
        finish_time=claim.finish_time,
        epoch=claim.epoch,
        plan=claim.plan,
        approver=claim.approval.approver if claim.approval is not None else None,
        unseen=claim.job_uid is None and not s.creation_certain,
    )
    status = with_history(dataclasses.replace(s.status, active_operation=None), entry)
    return Do(WriteStatus("ClearClaim", status, claim.outcome.reason))
