"""Steps 7 to 10: from the dispatch mark to the stored outcome.

No path in here creates a Job (invariants 1 and 16): a pass that finds the mark and no Job finds
something unknown, never something to do again (C-3.2).
"""

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, assert_never

from ptahk.engine import lease
from ptahk.engine.family import Family
from ptahk.engine.lifecycle import settle
from ptahk.engine.lifecycle.claimed import identity
from ptahk.engine.model.claim import PODS_KEPT, PROVE, Claim, Pods
from ptahk.engine.model.intent import Decision, Do, Need, RenewLease, Wait, WriteStatus
from ptahk.engine.model.job import JobView, Lost, NotYet, PodView, Result
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire import digest, frame

JOB_POLL_S = 5.0
RESULT_RETRY_S = 5.0
"""C-5.3: fixed, not the queue's growing back-off."""


def step(s: Snapshot, family: Family, claim: Claim) -> Decision:
    """The next step of a dispatched operation whose outcome is not stored."""
    pods = _pods(s, family, claim)
    if pods is not None:
        return pods
    if claim.epoch is not None:
        found = lease.verdict(s, claim.holder, claim.epoch)
        if not isinstance(found, lease.Ours):
            # Whatever the Job printed is discarded with the continuity (C-5.6, C-6.8).
            text = found.message if isinstance(found, lease.Lost | lease.Foreign) else "lost"
            refusal = Refusal("ContinuityLost", text)
            return settle.retire(s, family, claim, refusal, continuity_lost=True)
        document = lease.renew(s, found, claim.lease_duration_seconds)
        if document is not None:
            return Do(RenewLease(document))
    return _job(s, family, claim)


def _pods(s: Snapshot, family: Family, claim: Claim) -> Decision | None:
    """Pods of an Apply are recorded before they are acted on; a late one restarts a proof."""
    if family.mutates(claim.type):
        grown = growth(claim.pods, s.pods)
        if grown is None:
            return None
        status = dataclasses.replace(
            s.status, active_operation=dataclasses.replace(claim, pods=grown)
        )
        return Do(WriteStatus("RecordPods", status, f"{grown.count} seen"))
    owed = s.status.pending_observation
    if claim.type != PROVE or owed is None:
        return None
    grown = growth(owed.pods, s.pods)
    if grown is None:
        return None
    return settle.invalidate(s, claim, dataclasses.replace(owed, pods=grown))


def growth(known: Pods, seen: tuple[PodView, ...] | None) -> Pods | None:
    """The record with Pods that it does not know; None where there are none (C-4.2).

    A Pod that is gone stays counted: what counts is that it ran.
    """
    if not seen:
        return None
    fresh = [pod.uid for pod in seen if pod.uid not in known.uids]
    kept = (*known.uids, *fresh)[:PODS_KEPT]
    count = max(known.count + len(kept) - len(known.uids), len(seen))
    if kept == known.uids and count <= known.count:
        return None
    return Pods(kept, count)


def _job(s: Snapshot, family: Family, claim: Claim) -> Decision:
    job = s.job
    if job is None or (claim.job_uid is not None and job.uid != claim.job_uid):
        missing = "is absent" if job is None else "was replaced"
        text = f"its Job {missing} after the dispatch mark"
        if job is None and s.create_error is not None:
            text = f"{text}; its create said: {s.create_error}"
        # A Job that was confirmed had its identity; one that never was may still land (C-6.9).
        uncertain = claim.job_uid is None
        return settle.retire(s, family, claim, Refusal("JobMissing", text), uncertain=uncertain)
    if claim.job_uid is None:
        if not matches(claim, job):
            text = "a Job stands under its name that it did not build"
            if job.differs is not None:
                text = f"{text}: {job.differs}"
            return settle.retire(s, family, claim, Refusal("JobForeign", text), uncertain=True)
        confirmed = dataclasses.replace(claim, job_uid=job.uid)
        status = dataclasses.replace(s.status, active_operation=confirmed)
        return Do(WriteStatus("ConfirmJob", status))
    if not job.terminal:
        until = s.now + timedelta(seconds=JOB_POLL_S)
        if job.waiting is not None:
            return Wait(until, job.waiting.reason, job.waiting.message)
        return Wait(until, "JobRunning", f"{claim.type} {claim.operation_id[:12]}")
    return _result(s, family, claim, claim.job_uid)


def matches(claim: Claim, job: JobView) -> bool:
    """The whole intent of the Job is what the claim built (step 7)."""
    if job.differs is not None:
        return False
    return all(job.annotations.get(key) == value for key, value in identity(claim).items())


def _result(s: Snapshot, family: Family, claim: Claim, job_uid: str) -> Decision:
    """Step 9: only after the terminal condition, and then the whole binding is checked."""
    match s.result:
        case None:
            return Need(s.namespace, claim.job_name, job_uid)
        case NotYet():
            until = s.now + timedelta(seconds=RESULT_RETRY_S)
            return Wait(until, "ResultPending", s.result.message)
        case Lost():
            text = f"its result is gone ({s.result.message}{_said(claim, s.result.termination)})"
            return settle.retire(s, family, claim, Refusal("FrameLost", text))
        case Result():
            payload = decode(s, claim, s.result)
            if isinstance(payload, Refusal):
                return settle.retire(s, family, claim, payload)
            if _moved(s, family, claim):
                return settle.supersede(s, claim)
            return settle.result(s, family, claim, payload)
        case _:
            assert_never(s.result)


def _moved(s: Snapshot, family: Family, claim: Claim) -> bool:
    """A reading whose inputs moved is discarded; a mutation and a proof never are (C-3.6)."""
    if claim.type == PROVE or family.mutates(claim.type):
        return False
    inputs = None if s.spec is None else family.inputs(claim.type, s, claim)
    return inputs is None or (
        digest.input_fingerprint(claim.type, dict(inputs)) != claim.input_fingerprint
    )


def decode(s: Snapshot, claim: Claim, result: Result) -> Mapping[str, Any] | Refusal:
    """The frame's payload, bound to this claim, epoch and Pod; or why there is none."""
    decoder = frame.Decoder(claim.operation_id, frame_epoch(s, claim))
    decoder.feed(result.output)
    found = decoder.finish()
    if isinstance(found, frame.Refused):
        reason = "FrameLost" if found.reason in ("NoFrame", "Truncated") else "FrameRefused"
        text = f"its output is not a result: {found.message}{_said(claim, result.termination)}"
        return Refusal(reason, text)
    payload = found.document
    bound = {
        "version": 1,
        "operationId": claim.operation_id,
        "operation": claim.type,
        "attempt": claim.attempt,
        "podUid": result.pod_uid,
    }
    for key, value in bound.items():
        if payload.get(key) != value:
            return Refusal("FrameRefused", f"its result names another {key}")
    if not isinstance(payload.get("startNonce"), str):
        return Refusal("FrameRefused", "its result has no start nonce")
    return payload


def frame_epoch(s: Snapshot, claim: Claim) -> str | None:
    """The epoch that the Job was told: its own, or of a proof without one the Apply's."""
    if claim.epoch is None and claim.type == PROVE and s.status.pending_observation is not None:
        return s.status.pending_observation.epoch
    return claim.epoch


def _said(claim: Claim, termination: bytes | None) -> str:
    """What the termination summary adds, for the message alone (C-5.2)."""
    if termination is None:
        return ""
    summary = frame.decode_summary(termination, claim.operation_id)
    if isinstance(summary, frame.Refused) or summary.error is None:
        return ""
    return f"; its summary says {summary.error}"
