"""The durable claims of C-4: the operation in flight, the proof owed, the release owed.

Invariants are checked when a claim is built and when it is read back: a pair of assertions.
Everything that decides later is in here, never in the spec (C-6.5, C-3.6).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.limits import MaxLen
from ptahk.engine.model.outcome import StoredOutcome
from ptahk.wire.digest import is_digest
from ptahk.wire.epoch import Epoch

PROVE = "Prove"
"""The one operation that every family shares: the fence and the reading behind it."""

PODS_KEPT = 8
GRACE_S = 60
"""C-3.7; at least the Pod's own grace of 45 s at most."""
POD_GRACE_S = 30
DISPATCH_MAX_S = 300

_HEX32 = re.compile(r"[0-9a-f]{32}")


def _need(condition: bool, field_name: str, rule: str) -> None:
    if not condition:
        raise FieldError(f".{field_name}", rule)


def _check_epoch(text: str | None, field_name: str) -> None:
    if text is not None:
        try:
            Epoch.parse(text)
        except ValueError as error:
            raise FieldError(f".{field_name}", str(error)) from None


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods seen of one Job: the first eight by uid, and how many in all (C-4.2)."""

    uids: Annotated[tuple[str, ...], MaxLen(PODS_KEPT)] = ()
    count: int = 0

    def __post_init__(self) -> None:
        _need(len(self.uids) <= PODS_KEPT, "uids", f"at most {PODS_KEPT}")
        _need(self.count >= len(self.uids), "count", "at least the uids kept")


@dataclass(frozen=True, slots=True)
class Consumed:
    """An approval that this operation used up. Evidence, not permission (step 4)."""

    name: str
    uid: str
    approver: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """``status.activeOperation``: one operation from its claim to its clearing (C-4.1)."""

    type: str
    operation_id: str
    attempt: int
    input_fingerprint: str
    job_name: str
    generation: int
    start_time: datetime
    active_deadline_seconds: int
    lease_duration_seconds: int
    realm: str
    """The coordination digest."""
    lease: bool
    """It needs the realm Lease (step 2)."""
    holder: str
    """A proof's is the Apply's."""
    inputs: Mapping[str, Any]
    """What the family claimed it for; hashed into ``input_fingerprint``."""
    request: str | None = None
    """Id of the request that it was claimed under."""
    answers: bool = False
    """Its end answers that request; False: it prepares the operation that does."""
    plan: str | None = None
    """Fingerprint of the plan that it applies or has made."""
    epoch: str | None = None
    snapshot: Mapping[str, Any] | None = None
    snapshot_digest: str | None = None
    approval: Consumed | None = None
    dispatch_started: bool = False
    dispatch_time: datetime | None = None
    dispatch_nonce: str | None = None
    dispatch_not_after: datetime | None = None
    execution_not_after: datetime | None = None
    intent_digest: str | None = None
    """Digest of the job document as built, compared with what the Job carries (step 7)."""
    job_uid: str | None = None
    pods: Pods = field(default_factory=Pods)
    outcome: StoredOutcome | None = None
    finish_time: datetime | None = None

    def __post_init__(self) -> None:
        _need(_HEX32.fullmatch(self.operation_id) is not None, "operationId", "32 hex digits")
        _need(self.attempt >= 1, "attempt", "counts from 1")
        _need(30 <= self.active_deadline_seconds <= 86400, "activeDeadlineSeconds", "30..86400")
        _need(
            self.lease_duration_seconds == self.active_deadline_seconds + GRACE_S,
            "leaseDurationSeconds",
            "the deadline and the grace",
        )
        _need(is_digest(self.realm), "realm", "a digest")
        _check_epoch(self.epoch, "epoch")
        _need(self.epoch is None or self.lease, "epoch", "only of a held realm")
        _need(
            (self.snapshot is None) == (self.snapshot_digest is None),
            "snapshotDigest",
            "goes with the snapshot",
        )
        _need(
            self.snapshot is None or not self.lease or self.epoch is not None,
            "snapshot",
            "comes after the epoch",
        )
        self._check_dispatch()

    def _check_dispatch(self) -> None:
        marks = (
            self.dispatch_time, self.dispatch_nonce, self.dispatch_not_after,
            self.execution_not_after, self.intent_digest,
        )  # fmt: skip
        given = [mark is not None for mark in marks]
        _need(all(given) or not any(given), "dispatchStarted", "has nonce, times and intent")
        _need(self.dispatch_started == given[0], "dispatchStarted", "goes with its marks")
        _need(
            not self.dispatch_started or self.snapshot is not None,
            "dispatchStarted",
            "comes after the snapshot",
        )
        if self.dispatch_not_after is not None and self.execution_not_after is not None:
            _need(
                self.dispatch_not_after <= self.execution_not_after,
                "dispatchNotAfter",
                "is not after executionNotAfter",
            )
        late = self.job_uid is not None or self.pods.count or self.outcome is not None
        _need(self.dispatch_started or not late, "dispatchStarted", "comes before a Job")
        _need((self.outcome is None) == (self.finish_time is None), "finishTime", "with outcome")


@dataclass(frozen=True, slots=True)
class PendingObservation:
    """``status.pendingObservation``: the proof owed after a dispatched Apply (C-4.2).

    It outranks phases, retries and newer generations, and is cleared only in the write that
    holds the proof's result (invariant 23).
    """

    operation_id: str
    """The Apply's."""
    attempt: int
    generation: int
    realm: str
    holder: str
    epoch: str
    """The Apply's; the tombstone goes under its number."""
    active_deadline_seconds: int
    lease_duration_seconds: int
    snapshot: Mapping[str, Any]
    snapshot_digest: str
    job_name: str
    execution_not_after: datetime
    reported: StoredOutcome
    """What the Apply was stored as."""
    inputs: Mapping[str, Any]
    """The family's: applied plan, key-free target selector, observation policy, source."""
    job_uid: str | None = None
    pods: Pods = field(default_factory=Pods)
    request: str | None = None
    started: bool = True
    """False: the Apply's frame says that no mutation had started. Explains; decides nothing."""
    uncertain: bool = False
    """Creation or identity of the Job is uncertain: the wait of C-6.9 comes first."""
    continuity_lost: bool = False
    """The Lease is not the Apply's any more: fence first, then acquire anew (C-6.8)."""
    fenced: bool = False
    """The tombstone is committed and ``settled`` says what the ledger says."""
    settled: StoredOutcome | None = None
    attempts: int = 0
    """Proofs that ended without a verdict."""
    reason: str = ""
    message: str = ""
    """Why the last one did."""
    not_before: datetime | None = None
    asked: str | None = None
    """Id of the request that stood then: a newer one does not wait for ``notBefore``."""

    def __post_init__(self) -> None:
        _need(_HEX32.fullmatch(self.operation_id) is not None, "operationId", "32 hex digits")
        _check_epoch(self.epoch, "epoch")
        _need(self.fenced == (self.settled is not None), "settled", "goes with the fence")


@dataclass(frozen=True, slots=True)
class PendingLockRelease:
    """``status.pendingLockRelease``: exactly this holder and epoch, until released (C-4.3)."""

    realm: str
    holder: str
    epoch: str

    def __post_init__(self) -> None:
        _check_epoch(self.epoch, "epoch")
