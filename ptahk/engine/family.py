"""The questions that a resource family answers. A table of answers, never a base class.

Pure functions over values; the order of steps belongs to ``lifecycle`` alone, which cannot ask
which kind it serves.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ptahk.engine.model.claim import Claim, PendingObservation
from ptahk.engine.model.outcome import Outcome, Refusal
from ptahk.engine.model.snapshot import CommonSpec, Snapshot
from ptahk.engine.model.status import Phase, Status, UnresolvedRun
from ptahk.wire.jobspec import JobSpec


@dataclass(frozen=True, slots=True)
class Proposal:
    """An operation that the family wants next, with what it would be claimed for."""

    operation: str
    inputs: Mapping[str, Any]
    """JSON. ``plan: {name, uid}`` and ``bundles: [{file, configMap, digest}]`` are read by
    ``gather``; everything else is the family's own."""
    request: str | None = None
    answers: bool = False
    """Its end answers the request; False: it only prepares the operation that does."""


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing is wanted now. Something is at that moment, if nothing happens before."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Changes:
    """What an operation's result changes in status beside its outcome."""

    last_observation: Mapping[str, Any] | None = None
    last_plan: Mapping[str, Any] | None = None
    publish: tuple[dict[str, Any], ...] = ()
    """Immutable documents that must exist before the outcome is stored."""
    plan: str | None = None
    """Fingerprint, for the answer and the history."""
    unresolved_run: UnresolvedRun | None = None
    """A run that only a resume or a person settles (C-4.4)."""
    resolves: bool = False
    """Nothing of that kind stands any more."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A result as the family understands it."""

    outcome: Outcome
    changes: Changes = dataclasses.field(default_factory=Changes)
    definite: bool = True
    """Of a read-only failure: the same inputs will fail the same way."""
    exit_code: int | None = None
    hint: str | None = None
    field: str | None = None
    started: bool = True
    """Of a mutation: False where the frame says that nothing had started."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A proof decided: the fence is down and the ledger was read."""

    outcome: Outcome
    converged: bool
    """A fresh plan in the same Job was empty (C-10.5)."""
    changes: Changes = dataclasses.field(default_factory=Changes)
    hint: str | None = None
    """What a person should do where it did not end well; None: what always holds."""


@dataclass(frozen=True, slots=True)
class Unproven:
    """A proof decided nothing (C-9.3)."""

    reason: str
    message: str
    exit_code: int | None = None


Verdict = Proven | Unproven


@dataclass(frozen=True, slots=True)
class Summary:
    """What a steady resource's phase says."""

    phase: Phase
    ready: bool
    reason: str
    message: str
    next_step: str = ""


class Family(Protocol):
    """A dozen questions."""

    @property
    def kind(self) -> str:
        """Kind of the resources."""

    def parse_spec(self, document: Any) -> CommonSpec:
        """:raises FieldError: path and rule."""

    def next_operation(self, s: Snapshot) -> Proposal | Refusal | Later | None:
        """What to claim next; a refusal answers an open request; None: nothing by itself."""

    def mutates(self, operation: str) -> bool:
        """It changes user objects: once dispatched it is proven, never repeated."""

    def outlives_lease(self, operation: str) -> bool:
        """Though its Lease was lost it stays the active operation until its Job has ended; False:
        it is let go at once (C-3.4)."""

    def needs_realm(self, operation: str) -> bool:
        """It holds the realm Lease."""

    def inputs(self, operation: str, s: Snapshot, claim: Claim) -> Mapping[str, Any] | None:
        """What the claim would be made for now; None: that cannot be had any more (C-3.6)."""

    def gate(self, operation: str, s: Snapshot) -> Refusal | None:
        """The family's own checks before a claim and again before its dispatch."""

    def needs_approval(self, claim: Claim, s: Snapshot) -> bool:
        """The operation runs only with an approval that binds its plan."""

    def job(self, claim: Claim, s: Snapshot) -> JobSpec:
        """What the Job is told. The claim is dispatched in this very pass."""

    def read(self, claim: Claim, payload: Mapping[str, Any], s: Snapshot) -> Reading:
        """A frame's payload of an operation that is not a proof."""

    def proof_inputs(self, claim: Claim, s: Snapshot) -> Mapping[str, Any]:
        """What a proof of this Apply must know, taken from the claim alone (C-4.2)."""

    def judge(
        self, owed: PendingObservation, claim: Claim, payload: Mapping[str, Any], s: Snapshot
    ) -> Verdict:
        """A frame's payload of a proof."""

    def summary(self, status: Status, spec: CommonSpec) -> Summary:
        """Phase of a resource with nothing in flight and nothing refused."""
