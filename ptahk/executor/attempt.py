"""What an Apply says of itself, the same for every engine: verdicts, refusals, digests. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ptahk.errors import OperationFailed, PtahkError, Refused
from ptahk.executor.planning.document import Statement
from ptahk.wire import digest
from ptahk.wire.jobspec import JobSpec

SETTLE_S: Final = 10.0
MESSAGES_MAX: Final = 10


class StatementFailed(OperationFailed):
    """A statement failed; the server's own answer says that it took no effect (I3)."""

    default_reason = "StatementFailed"

    def __init__(
        self, statement: Statement, total: int, message: str, details: Sequence[str], code: Any
    ) -> None:
        super().__init__(
            f"statement {statement.index} of {total} failed ({statement.object}): {message}"
            + (f" ({'; '.join(details)})" if details else "")
        )
        self.sqlstate = code


def refuse_rows(messages: Sequence[str]) -> None:
    """What the data checks found. :raises Refused: ``DataDoesNotFit``, if they found anything."""
    if not messages:
        return
    more = len(messages) - MESSAGES_MAX
    shown = "; ".join(messages[:MESSAGES_MAX]) + (f"; and {more} more" if more > 0 else "")
    raise Refused(
        f"stored values do not fit the declared schema: {shown}",
        reason="DataDoesNotFit",
        hint="change these rows first, then plan again",
    )


def is_settled(found: str, spec: JobSpec, out: dict[str, Any]) -> bool:
    """Whether the live state, just inspected, is the plan's desired one already (C-10.3).

    :param found: its fingerprint.
    :raises Refused: ``StalePlan``, naming the fingerprint that was expected.
    """
    if found == spec.observed_fingerprint and found != spec.desired_fingerprint:
        return False
    if found == spec.desired_fingerprint:
        out["result"] = "alreadyConverged"
        return True
    out["result"] = "stale"
    raise Refused(
        f"the database changed since it was planned (observed={spec.observed_fingerprint}, "
        f"now={found}): the plan is stale, nothing ran",
        reason="StalePlan",
        hint="plan again",
    )


def after_start(error: PtahkError) -> PtahkError:
    """An error of an attempt that had started: it ran and failed, whatever the cause (exit 5)."""
    if isinstance(error, OperationFailed):
        return error
    return OperationFailed(error.message, reason=error.reason, hint=error.hint)


def lock_timeout(spec: JobSpec, statement: Statement) -> float:
    """Seconds that a statement may wait for a lock; 0: bounded by the deadline alone."""
    own = statement.lock_timeout_s
    return spec.policy.lock_timeout_seconds if own is None else float(own)


def result_digest(spec: JobSpec, outcome: str, done: int) -> str:
    """What the ledger's ``finished`` row names (C-6.11)."""
    return digest.result_digest(
        {
            "operationId": spec.operation_id,
            "planDigest": spec.plan_digest,
            "outcome": outcome,
            "statementsDone": done,
        }
    )
