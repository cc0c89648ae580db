"""``status`` of a resource, whole (C-2.2). The engine alone writes it.

Durable facts decide: the three claims, evidence, request, history. ``phase``, ``conditions`` and
``nextStep`` are outputs; nothing reads them back but people and commands::

    status:
      protocolVersion: 1
      resourceUid, observedGeneration
      phase: Pending|Planning|AwaitingApproval|Applying|Proving|InSync|Drifted|Blocked|Failed|
             Unknown|Frozen|Suspended|Deleting
      conditions: [{type: Ready|Reconciling|Stalled, status, reason, message, observedGeneration,
                    lastTransitionTime}]
      nextStep: one sentence for a person, empty where there is nothing to do
      activeOperation, pendingObservation, pendingLockRelease   (engine.model.claim)
      database: what the last frame said about the database and its ledger
      unresolvedRun: a run of a sequence that stopped within a file (C-4.4)
      realmNumber: highest epoch number this resource held
      frozen: {reason, message, number}           until acknowledged
      lastObservation, lastPlan                   the family's evidence
      request: the answer to the annotation of the same id
      retry: a read-only operation that gave no result
      consumedApprovals, approvalsNotBefore
      history: the last 20 operations, oldest first

A refused request is ``request: {state: Done, outcome: Refused, reason, message, exitCode: 3}``; a
failed one has ``outcome: Failed``; an unknown one ``outcome: Unknown`` with ``exitCode: 4`` and
``pendingObservation`` where a proof is still owed. ``phase`` and ``Stalled`` say the same.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from ptahk.engine.model.claim import Claim, PendingLockRelease, PendingObservation
from ptahk.engine.model.fields import FieldError, read, write
from ptahk.engine.model.limits import MaxLen
from ptahk.engine.model.outcome import StoredOutcome

PROTOCOL_VERSION = 1
HISTORY_KEPT = 20
APPROVALS_KEPT = 50
THAWED_KEPT = 20
CONDITIONS_MAX = 16

Phase = Literal[
    "Pending", "Planning", "AwaitingApproval", "Applying", "Proving", "InSync", "Drifted",
    "Blocked", "Failed", "Unknown", "Frozen", "Suspended", "Deleting",
]  # fmt: skip

AnswerOutcome = Literal["Succeeded", "Failed", "Partial", "NotStarted", "Unknown", "Refused"]


@dataclass(frozen=True, slots=True)
class Condition:
    """As metav1.Condition."""

    type: str
    status: Literal["True", "False"]
    reason: str
    message: str
    observed_generation: int
    last_transition_time: datetime


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One operation of the account. The Apply's entry is settled by its proof."""

    type: str
    operation_id: str
    attempt: int
    job: str
    outcome: StoredOutcome
    start_time: datetime
    finish_time: datetime
    epoch: str | None = None
    plan: str | None = None
    """Fingerprint, where the operation had one."""
    approver: str | None = None
    settled: StoredOutcome | None = None
    """What the proof made of it."""
    converged: bool | None = None
    unseen: bool = False
    """Nobody ever saw its Job, whose create was not answered: it may stand there meanwhile."""


@dataclass(frozen=True, slots=True)
class Database:
    """What the last frame reported about the database (C-6.16)."""

    time: datetime
    server_identity: str
    target_identity: str
    ledger_present: bool
    ledger_writable: bool
    ledger_creatable: bool
    highest_number: int
    clock_offset_seconds: float
    binding: str | None = None
    unfinished: str | None = None
    """Operation id of the newest unfinished row of another store, if any."""
    request: str | None = None
    """Id of the request under which it was read."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """The realm is frozen until a person acknowledges this number (C-6.14)."""

    reason: str
    message: str
    number: int
    time: datetime
    operation_id: str | None = None
    """The attempt in the ledger that it was frozen over."""


@dataclass(frozen=True, slots=True)
class UnresolvedRun:
    """A run of a sequence that stopped within a file (C-4.4): nothing else is run meanwhile."""

    operation_id: str
    """The attempt that left it."""
    outcome: Literal["Partial", "Unknown"]
    server_identity: str
    """The database that it is in; a reading of another one settles nothing."""
    version: str = ""
    file: str = ""
    message: str = ""
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the request of the same id."""

    id: str
    type: str
    state: Literal["Working", "Done"]
    outcome: (
        Literal["Succeeded", "Failed", "Partial", "NotStarted", "Unknown", "Refused"] | None
    ) = None
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    field: str | None = None
    hint: str | None = None
    operation_id: str | None = None
    """The operation that answered it."""
    plan: str | None = None
    """Fingerprint of the plan that it made or applied."""
    time: datetime | None = None

    def __post_init__(self) -> None:
        if (self.state == "Done") != (self.outcome is not None):
            raise FieldError(".request.outcome", "goes with Done")


@dataclass(frozen=True, slots=True)
class Retry:
    """A read-only operation gave no result; the next attempt is a new claim (C-3.3)."""

    type: str
    attempts: int
    reason: str
    message: str
    not_before: datetime
    definite: bool
    """The executor said why: the same inputs will give the same answer."""
    generation: int
    request: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumedApproval:
    """Approvals used up, by uid; a newer approval is needed for another attempt (C-3.2)."""

    uid: str
    operation_id: str
    created: str


@dataclass(frozen=True, slots=True)
class Status:
    """Everything stored about one resource. Written by ptahk alone."""

    resource_uid: str
    """The resource that this status is of."""
    protocol_version: int = PROTOCOL_VERSION
    """How this status is to be read."""
    observed_generation: int = 0
    """Generation of the spec that phase and conditions speak of."""
    phase: Phase = "Pending"
    """Where the resource stands, in a word."""
    conditions: Annotated[tuple[Condition, ...], MaxLen(CONDITIONS_MAX)] = ()
    """Ready, Reconciling and Stalled."""
    next_step: str = ""
    """What a person should do next; empty where there is nothing to do."""
    active_operation: Claim | None = None
    pending_observation: PendingObservation | None = None
    pending_lock_release: PendingLockRelease | None = None
    unresolved_run: UnresolvedRun | None = None
    """A run that only its resume or a person settles."""
    realm_number: int = 0
    """Highest epoch number that this resource held."""
    database: Database | None = None
    frozen: Frozen | None = None
    thawed: int = 0
    """Highest ledger number that a person acknowledged."""
    thawed_operations: tuple[str, ...] = ()
    """Attempts of other stores that a person acknowledged, the last twenty: their
    numbers are their own store's, and compare with nothing here."""
    last_observation: Mapping[str, Any] | None = None
    """What the last observation found."""
    last_plan: Mapping[str, Any] | None = None
    """The last plan, in short."""
    request: Answer | None = None
    retry: Retry | None = None
    consumed_approvals: Annotated[tuple[ConsumedApproval, ...], MaxLen(APPROVALS_KEPT)] = ()
    """Approvals that were used."""
    approvals_not_before: str | None = None
    """Approvals created up to here count as consumed: their records were dropped."""
    history: Annotated[tuple[HistoryEntry, ...], MaxLen(HISTORY_KEPT)] = field(default=())
    """The last operations, oldest first."""

    def __post_init__(self) -> None:
        claim, owed = self.active_operation, self.pending_observation
        if claim is None:
            return
        if (claim.type == "Prove") and owed is None and claim.outcome is None:
            raise FieldError(".activeOperation", "a proof has a pendingObservation to settle")
        if owed is not None and claim.type != "Prove" and claim.operation_id != owed.operation_id:
            raise FieldError(".activeOperation", "nothing but the proof runs while one is owed")


def parse(document: Any, resource_uid: str) -> Status:
    """The stored status; a fresh one where nothing is stored.

    :raises FieldError: unknown protocol version, another resource's status, or an impossible one:
        hands off until a person looks (hazards F12, F16, A13).
    """
    if not document:
        return Status(resource_uid)
    if type(document) is dict and document.get("protocolVersion") != PROTOCOL_VERSION:
        raise FieldError(".status.protocolVersion", f"must be {PROTOCOL_VERSION}")
    found = read(Status, document, ".status")
    if found.resource_uid != resource_uid:
        raise FieldError(".status.resourceUid", "is another resource's")
    return found


def render(status: Status) -> dict[str, Any]:
    """The JSON form; equal statuses give equal documents."""
    document: dict[str, Any] = write(status)
    return document


def with_history(status: Status, entry: HistoryEntry) -> Status:
    """The status with one more operation of the account, the oldest dropped.

    The last Apply is kept, however many proofs it takes: its entry is settled by the last of
    them (invariant 23), and tells afterwards what became of it.
    """
    kept = [*status.history, entry]
    owed = status.pending_observation
    last = None if owed is None else owed.operation_id
    for item in kept:
        if owed is None and item.settled is not None:
            last = item.operation_id
    while len(kept) > HISTORY_KEPT:
        del kept[1 if kept[0].operation_id == last else 0]
    return dataclasses.replace(status, history=tuple(kept))
