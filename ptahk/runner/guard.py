"""The one check before a child starts (C-9.2, C-9.3), for both families. Pure.

``admit`` has one call site, and so has ``within_deadlines`` outside it: right before the exec.
Tests hold the package to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ptahk.errors import Refused, UsageError
from ptahk.wire.jobspec import JobSpec


@dataclass(frozen=True, slots=True)
class Found:
    """What this process sees for itself, never what the Job says about it."""

    target_identity: str
    """Digest of the URL in this process's own environment (C-8)."""
    engine: str
    """The URL's engine family."""
    plan_digest: str | None
    """Digest of the plan bytes in the Job's directory; None without any."""
    source_digest: str | None
    snapshot_digest: str | None
    """The local snapshot as it is now (C-14.3); None on a cluster."""
    sequence: tuple[str, str] | None = None
    """Digest of the plan's own sequence, and the history that it names (C-9.3)."""


def admit(spec: JobSpec, found: Found, now_s: float) -> None:
    """Refuse unless everything that the claim bound is what is here.

    :param now_s: this machine's clock, seconds since the epoch.
    :raises Refused: names the binding that differs; no child is started.
    """
    if found.engine != spec.engine:
        raise UsageError(
            f"the database URL is of another engine (url={found.engine}, plan={spec.engine})",
            reason="EngineMismatch",
            field="engine",
        )
    if spec.mutates and spec.target_identity is None:
        raise _differs("targetIdentity", "the Job binds no target")
    if spec.target_identity is not None and found.target_identity != spec.target_identity:
        raise Refused(
            "the database URL is not the one that was planned (its route, database, user, role "
            f"or options differ; planned={spec.target_identity}, here={found.target_identity})",
            reason="TargetMismatch",
            field="targetIdentity",
            hint="use the planned URL, or plan again",
        )
    _same_realm(spec)
    if spec.mutates and not spec.rebind and (spec.plan_digest is None or found.plan_digest is None):
        raise _differs("planDigest", "the Job binds no plan")
    if spec.plan_digest is not None and found.plan_digest not in (None, spec.plan_digest):
        raise _differs("planDigest", "the plan's bytes are not those that were approved")
    if found.source_digest is not None and spec.source_digest not in (None, found.source_digest):
        raise _differs("sourceDigest", "the declaration is not the one that was claimed")
    _same_sequence(spec, found)
    if spec.local_snapshot_digest != found.snapshot_digest:
        raise _differs(
            "localSnapshotDigest",
            "interpreter, version, user, host or environment changed since the claim",
        )
    within_deadlines(spec, now_s)


def _same_sequence(spec: JobSpec, found: Found) -> None:
    """A migration's Apply is bound to its sequence and to the history it was chosen by (C-9.3)."""
    bound = spec.migration
    if bound is None or not spec.mutates:
        return
    if bound.sequence_digest is None or bound.history_fingerprint is None:
        raise _differs("migration", "the Job binds no sequence or no history")
    if found.sequence is None or found.sequence[0] != bound.sequence_digest:
        raise _differs("migration.sequenceDigest", "the plan's sequence is not the approved one")
    if found.sequence[1] != bound.history_fingerprint:
        raise _differs("migration.historyFingerprint", "the plan was made against another history")


def _same_realm(spec: JobSpec) -> None:
    if not spec.mutates or spec.rebind:
        return
    if spec.plan_coordination_digest != spec.coordination_digest:
        raise Refused(
            "the Job's coordination digest is not the approved plan's "
            f"(planned={spec.plan_coordination_digest}, job={spec.coordination_digest})",
            reason="CoordinationMismatch",
            field="coordinationDigest",
            hint="plan again under this coordination key",
        )


def within_deadlines(spec: JobSpec, now_s: float) -> float:
    """Seconds left until the execution deadline, always more than 0.

    :raises Refused: a deadline is missing, out of order or expired.
    """
    dispatch, execution = instant(spec.dispatch_not_after), instant(spec.execution_not_after)
    if not dispatch <= execution:
        raise _differs("executionNotAfter", "the deadlines are out of order")
    for name, limit in (("dispatchNotAfter", dispatch), ("executionNotAfter", execution)):
        if now_s >= limit:
            raise Refused(
                f"the deadline has passed before the child was started ({name})",
                reason="DeadlineExceeded",
                field=name,
            )
    return min(execution - now_s, float(spec.active_deadline_seconds))


def instant(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time in UTC, as JobSpec has checked it."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(whole + "+00:00").timestamp()
    return seconds + (float("0." + fraction) if fraction else 0.0)


def _differs(field: str, why: str) -> Refused:
    return Refused(f"refused before the start ({field}): {why}", reason="JobMismatch", field=field)
