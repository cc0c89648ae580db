"""What a decision may ask for: one write, one costly read, patience, or nothing.

Each intent is one conditional write: the document in it carries uid and resourceVersion as its
precondition (invariant 21). Dispatch alone does two things in one pass (step 5 and 6).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ptahk.engine.model.job import JobOrder
from ptahk.engine.model.lease import LeaseRecord
from ptahk.engine.model.status import Status

StatusStep = Literal[
    "WriteClaim",
    "DiscardClaim",
    "CopyEpoch",
    "PersistSnapshot",
    "ConsumeApproval",
    "ConfirmJob",
    "RecordPods",
    "InvalidateProof",
    "Settle",
    "LatchUnknown",
    "ClearClaim",
    "OweRelease",
    "ClearRelease",
    "Thaw",
    "Answer",
    "Report",
]
"""Name of the durable step: of the event that tells it, and of the crash point behind it."""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace ``status``. ``step`` says what it means."""

    step: StatusStep
    status: Status
    message: str = ""


@dataclass(frozen=True, slots=True)
class AcquireLease:
    """Create or replace the Lease as held under a new epoch."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RenewLease:
    """Same holder, same epoch, later time."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReleaseLease:
    """Clear exactly this holder and epoch (C-6.7, invariant 24)."""

    document: dict[str, Any]
    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class DispatchJob:
    """Write the mark, then create the Job once, in this pass of this process alone."""

    status: Status
    nonce: str
    order: JobOrder


@dataclass(frozen=True, slots=True)
class Publish:
    """Create one immutable document; that it exists already is as good."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SetJobTtl:
    """Schedule the Job's cleanup; that it is gone is as good (step 11)."""

    namespace: str
    name: str
    uid: str
    ttl_s: int


@dataclass(frozen=True, slots=True)
class EditFinalizers:
    """Replace the resource's finalizers."""

    document: dict[str, Any]
    step: Literal["AddFinalizer", "RemoveFinalizer"]


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete one plan beyond the last ten, or its bytes."""

    document: dict[str, Any]


Intent = (
    WriteStatus
    | AcquireLease
    | RenewLease
    | ReleaseLease
    | DispatchJob
    | Publish
    | SetJobTtl
    | EditFinalizers
    | Prune
)


@dataclass(frozen=True, slots=True)
class Do:
    """Carry this out, then read everything again."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class Need:
    """A costly read: the result of this terminal Job (C-5.4)."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done before ``until``; why is one of ``model.reasons``."""

    until: datetime
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do until something changes."""

    reason: str = "Idle"


Decision = Do | Need | Wait | Done
