"""Everything a decision may look at, and nothing else. If it is not here, it cannot be known."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ptahk.engine.model.execution import Execution
from ptahk.engine.model.job import Collected, JobInput, JobView, PodView, Store
from ptahk.engine.model.lease import LeaseRecord, Malformed
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.plan import Approval, Plan, SourceRef
from ptahk.engine.model.resource import Acknowledge, ApplyPolicy, Declared, Request, Target
from ptahk.engine.model.status import Status


class CommonSpec(Protocol):
    """What the specs of all families share (C-2.1)."""

    @property
    def target(self) -> Target: ...
    @property
    def suspend(self) -> bool: ...
    @property
    def interval(self) -> float: ...
    @property
    def execution(self) -> Execution: ...
    @property
    def apply_policy(self) -> ApplyPolicy: ...
    @property
    def coordination_timeout_s(self) -> float: ...
    @property
    def declared(self) -> Declared | None: ...


@dataclass(frozen=True, slots=True)
class Draws:
    """This pass's dice."""

    operation_id: str
    nonce: str
    epoch_bits: str


@dataclass(frozen=True, slots=True)
class Peer:
    """Another resource that names the same realm, read live (C-6.3)."""

    kind: str
    namespace: str
    name: str
    uid: str
    shared: bool
    claims: bool
    """It may start or runs something of its own."""
    settling: bool
    """It owes a proof or a release, or holds a dispatched Apply, and nothing else."""
    since: datetime | None
    """Start of its claim, where it has one: waiters are served oldest first (C-6.7)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The declaration as it is now."""

    reference: SourceRef
    bundle: dict[str, Any] | None
    """The ConfigMap to publish; None where it is stored already."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The Lease of the realm that matters now."""

    document: dict[str, Any]
    """As stored, or ready to be created."""
    record: LeaseRecord | Malformed | None
    """None: never stored."""
    watched_s: float
    """How long this process has seen this very record stand (C-6.6)."""
    holder_settled: bool | None
    """What a live read of a foreign holder's resource says: its claim is over or undispatched
    (D19). None: it cannot be told."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading of the world for one resource."""

    document: dict[str, Any]
    namespace: str
    name: str
    kind: str
    uid: str
    generation: int
    deleting: bool
    finalized: bool
    """Our finalizer is there."""
    spec: CommonSpec | None
    spec_refusal: Refusal | None
    status: Status
    request: Request | None
    request_refusal: Refusal | None
    acknowledge: Acknowledge | None
    now: datetime
    draws: Draws
    store: Store
    creation_certain: bool
    lease: LeaseView | None
    peers: tuple[Peer, ...] | None
    """None: not read in this pass."""
    job: JobView | None
    """Of the active operation, once dispatched."""
    pods: tuple[PodView, ...] | None
    """Of the Apply that is active or owed a proof."""
    result: Collected | None
    surroundings: Mapping[str, Any] | Refusal | None
    unguarded: str | None
    """Why nothing may be dispatched now: admission is not in force (C-12.4)."""
    plan: Plan | None
    plan_refusal: Refusal | None
    approvals: tuple[Approval, ...]
    source: Source | None
    source_refusal: Refusal | None
    inputs: tuple[JobInput, ...] | None
    """Bytes for the dispatch; None: not read, or one is missing."""
    waited_s: float
    """How long this process has watched the wait of C-6.9."""
    published: frozenset[str]
    """Names of immutable documents that this process knows to exist."""
    prunable: tuple[dict[str, Any], ...]
    """Plans beyond the last ten, and their bytes."""
    strays: tuple[JobView, ...]
    """Jobs of operations that are over, which came late, have ended, and nobody cleans up."""
    create_error: str | None = None
    """What the one create of the active operation's Job said to this process. It explains and
    decides nothing: an error does not prove that there is no Job (step 6)."""

    @property
    def open_request(self) -> Request | None:
        """The request that is not answered yet."""
        answer = self.status.request
        if self.request is None:
            return None
        if answer is not None and answer.id == self.request.id and answer.state == "Done":
            return None
        return self.request
