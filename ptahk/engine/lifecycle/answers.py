"""What a request is answered, and what a failed attempt leaves behind. No decision is made here."""

import dataclasses
from datetime import timedelta

from ptahk.engine.model import reasons
from ptahk.engine.model.claim import Claim, PendingObservation
from ptahk.engine.model.fields import cut
from ptahk.engine.model.outcome import (
    Failed,
    NotStarted,
    Outcome,
    Partial,
    Refusal,
    Succeeded,
    Unknown,
)
from ptahk.engine.model.snapshot import Snapshot
from ptahk.engine.model.status import Answer, AnswerOutcome, Retry, Status

ATTEMPTS_MAX = 3
"""Attempts without a definite answer before a request is told so."""
MESSAGE_MAX = 2048
AFTER_PROOF = "Plan again: the new plan starts from what is really there."


def refused(status: Status, s: Snapshot, refusal: Refusal, claim: Claim | None = None) -> Status:
    """The status with the request answered: refused, nothing ran."""
    request = s.open_request
    identity = claim.request if claim is not None else request.id if request else None
    if identity is None or not _may_answer(status, s, identity):
        return status
    kind = request.type if request is not None and request.id == identity else _type(claim)
    answer = Answer(
        id=identity,
        type=kind,
        state="Done",
        outcome="Refused",
        reason=refusal.reason,
        message=cut(refusal.message, MESSAGE_MAX),
        exit_code=reasons.exit_code(refusal.reason),
        field=refusal.field,
        hint=reasons.advice(refusal.reason) or None,
        operation_id=claim.operation_id if claim is not None else None,
        plan=claim.plan if claim is not None else None,
        time=s.now,
    )
    return dataclasses.replace(status, request=answer)


def _may_answer(status: Status, s: Snapshot, identity: str) -> bool:
    """An answer to an older request never hides the one that stands."""
    if s.request is None or s.request.id == identity or status.request is None:
        return True
    return status.request.id != s.request.id


def _type(claim: Claim | None) -> str:
    return "" if claim is None else claim.type.lower()


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """How a request ends, in the words of ``status.request``."""

    outcome: AnswerOutcome
    reason: str
    message: str
    exit_code: int
    field: str | None = None
    hint: str | None = None


def end_of_read(outcome: Outcome, exit_code: int | None) -> End:
    """A read-only operation: a result, or the reason why there is none."""
    if isinstance(outcome, Succeeded):
        return End("Succeeded", outcome.reason, outcome.message, 0)
    code = exit_code if exit_code is not None else reasons.exit_code(outcome.reason, 5)
    name: AnswerOutcome = "Refused" if code in (2, 3) else "Failed"
    return End(name, outcome.reason, outcome.message, code)


def end_of_apply(outcome: Outcome, converged: bool) -> End:
    """An Apply as its proof settled it.

    Convergence after an outcome that is not success is recorded as convergence, and not
    attributed to the Apply (C-10.5).
    """
    match outcome:
        case Succeeded():
            if converged:
                return End("Succeeded", outcome.reason, outcome.message, 0)
            text = "every statement took effect, and a fresh plan is still not empty"
            return End("Succeeded", "NotConverged", text, 5)
        case NotStarted(reason="AlreadyConverged") if converged:
            return End("Succeeded", "AlreadyConverged", outcome.message, 0)
        case Failed() | Partial() | NotStarted() | Unknown() if converged:
            text = f"the database has the plan's desired state ({outcome.message})"
            return End("Succeeded", "Converged", text, 0)
        case NotStarted():
            code = reasons.exit_code(outcome.reason, 3)
            return End("NotStarted", outcome.reason, outcome.message, code or 3)
        case Failed():
            return End("Failed", outcome.reason, outcome.message, 5)
        case Partial():
            return End("Partial", outcome.reason, outcome.message, 5)
        case Unknown():
            # The proof is done, so running it again would tell nothing new.
            return End("Unknown", outcome.reason, outcome.message, 4, hint=AFTER_PROOF)


def answered(
    status: Status, s: Snapshot, identity: str | None, end: End, claim: Claim, type_name: str
) -> Status:
    """The status with this request answered."""
    if identity is None or not _may_answer(status, s, identity):
        return status
    answer = Answer(
        id=identity,
        type=type_name,
        state="Done",
        outcome=end.outcome,
        reason=end.reason,
        message=cut(end.message, MESSAGE_MAX),
        exit_code=end.exit_code,
        field=end.field,
        hint=end.hint or (reasons.advice(end.reason) if end.exit_code else None) or None,
        operation_id=claim.operation_id,
        plan=claim.plan,
        time=s.now,
    )
    return dataclasses.replace(status, request=answer)


def retried(status: Status, s: Snapshot, claim: Claim, outcome: Outcome, definite: bool) -> Status:
    """The status after a read-only operation without a result (C-3.3)."""
    before = s.status.retry
    count = 1
    same = before is not None and (before.type, before.request) == (claim.type, claim.request)
    if before is not None and same and not before.definite:
        count = before.attempts + 1
    pause = _pause(s, count, definite)
    retry = Retry(
        type=claim.type,
        attempts=count,
        reason=outcome.reason,
        message=cut(outcome.message, MESSAGE_MAX),
        not_before=s.now + timedelta(seconds=pause),
        definite=definite,
        generation=claim.generation,
        request=claim.request,
    )
    return dataclasses.replace(status, retry=retry)


def _pause(s: Snapshot, count: int, definite: bool) -> float:
    """Seconds before the next attempt: doubling, up to ``failureRetryInterval``."""
    most = s.spec.execution.failure_retry_interval if s.spec is not None else 60.0
    return most if definite else min(most, 0.25 * 2.0**count)


def proof_failed(
    status: Status, s: Snapshot, owed: PendingObservation, refusal: Refusal, *,
    exit_code: int | None, definite: bool,
) -> Status:  # fmt: skip
    """The status after a proof that decided nothing: it stays owed.

    A request waiting for it is answered when the reason is definite or has come often enough:
    with the Apply's own refusal where the runner gave one, else as unknown.
    """
    attempts = owed.attempts + 1
    message = cut(refusal.message, MESSAGE_MAX)
    kept = dataclasses.replace(
        owed,
        attempts=attempts,
        reason=refusal.reason,
        message=message,
        not_before=s.now + timedelta(seconds=_pause(s, min(attempts, 10), definite)),
        asked=s.request.id if s.request is not None else None,
    )
    status = dataclasses.replace(status, pending_observation=kept)
    request = s.open_request
    if request is None or not (definite or attempts >= ATTEMPTS_MAX):
        return status
    own = request.id == owed.request
    # Only where nothing can have started may the answer be anything but unknown.
    harmless = not own or not owed.started
    code = exit_code if exit_code in (3, 6) and harmless else 4
    text = f"the proof owed of Apply {owed.operation_id} could not be had: {message}"
    if own and owed.reported.type == "Unknown":
        text = f"{owed.reported.message or owed.reported.reason}; {text}"
    answer = Answer(
        id=request.id,
        type=request.type,
        state="Done",
        outcome="Unknown" if code == 4 else "Refused",
        reason=refusal.reason,
        message=cut(text, MESSAGE_MAX),
        exit_code=code,
        hint="run the same command again: the claim is kept, and its proof comes first",
        operation_id=owed.operation_id,
        time=s.now,
    )
    return dataclasses.replace(status, request=answer)
