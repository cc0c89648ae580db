"""A family that lives only in tests: one read (``Look``) and one write (``Touch``).

If the lifecycle needed a special case for it, the lifecycle would not be generic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptahk.engine.family import Changes, Proposal, Proven, Reading, Summary, Unproven, Verdict
from ptahk.engine.lease import known_number
from ptahk.engine.model import ledger
from ptahk.engine.model.claim import POD_GRACE_S, Claim, PendingObservation
from ptahk.engine.model.execution import Execution
from ptahk.engine.model.fields import format_time, read
from ptahk.engine.model.outcome import Failed, Refusal, Succeeded, Unknown
from ptahk.engine.model.resource import ApplyPolicy, Target
from ptahk.engine.model.snapshot import CommonSpec, Snapshot
from ptahk.engine.model.status import Status
from ptahk.wire import digest
from ptahk.wire.jobspec import FencedAttempt, JobSpec
from tests.kit.fakedb import SERVER, TARGET

KIND = "PtahToy"
NAMES = {"Observe": "Look", "Apply": "Touch", "Prove": "Prove"}


@dataclass(frozen=True)
class ToySpec:
    """``spec`` of a PtahToy."""

    target: Target
    mark: str
    suspend: bool = False
    interval: float = 0.0
    execution: Execution = field(default_factory=Execution)

    @property
    def apply_policy(self) -> ApplyPolicy:
        return "Always"

    @property
    def coordination_timeout_s(self) -> float:
        return 60.0

    @property
    def declared(self) -> None:
        return None


def plan_digest(mark: str) -> digest.PlanDigest:
    """What a Touch of this mark is known by."""
    return digest.plan_content_digest(mark.encode())


class ToyFamily:
    """The answers."""

    kind = KIND

    def parse_spec(self, document: Any) -> ToySpec:
        return read(ToySpec, document, ".spec")

    def next_operation(self, s: Snapshot) -> Proposal | Refusal | None:
        request = s.open_request
        if request is not None:
            word = "Look" if request.type == "observe" else "Touch"
            return Proposal(word, self._inputs(s), request.id, answers=True)
        if not s.store.automatic:
            return None
        if s.status.last_observation is None:
            return Proposal("Look", self._inputs(s))
        touched = (entry.settled for entry in s.status.history if entry.type == "Touch")
        if any(settled is not None and settled.type == "Succeeded" for settled in touched):
            return None
        return Proposal("Touch", self._inputs(s))

    def mutates(self, operation: str) -> bool:
        return operation == "Touch"

    def outlives_lease(self, operation: str) -> bool:
        return False

    def needs_realm(self, operation: str) -> bool:
        return operation in ("Touch", "Prove")

    def inputs(self, operation: str, s: Snapshot, claim: Claim) -> Mapping[str, Any] | None:
        return self._inputs(s)

    def gate(self, operation: str, s: Snapshot) -> Refusal | None:
        return None

    def needs_approval(self, claim: Claim, s: Snapshot) -> bool:
        return False

    def job(self, claim: Claim, s: Snapshot) -> JobSpec:
        assert claim.dispatch_not_after is not None and claim.execution_not_after is not None
        owed = s.status.pending_observation if claim.type == "Prove" else None
        words = {"Look": "Observe", "Touch": "Apply", "Prove": "Prove"}
        return JobSpec(
            operation=words[claim.type],  # type: ignore[arg-type]
            family="schema",
            engine="postgresql",
            operation_id=claim.operation_id,
            attempt=claim.attempt,
            job_name=claim.job_name,
            holder=claim.holder,
            store_uid=s.store.uid,
            store_kind=s.store.kind,
            resource_uid=s.uid,
            coordination_digest=claim.realm,
            dispatch_not_after=format_time(claim.dispatch_not_after),
            execution_not_after=format_time(claim.execution_not_after),
            active_deadline_seconds=claim.active_deadline_seconds,
            termination_grace_period_seconds=POD_GRACE_S,
            epoch=claim.epoch or (owed.epoch if owed is not None else None),
            target_identity=TARGET,
            server_identity=SERVER,
            plan_digest=claim.inputs["planDigest"],
            rebind=claim.type == "Touch",
            known_number=known_number(s),
            fenced=None
            if owed is None
            else FencedAttempt(
                owed.operation_id,
                owed.epoch,
                owed.inputs["planDigest"],
                format_time(owed.execution_not_after),
            ),
        )

    def read(self, claim: Claim, payload: Mapping[str, Any], s: Snapshot) -> Reading:
        error = payload["error"]
        if claim.type == "Touch":
            if error is not None:
                started = payload["mutationStarted"] is not False
                return Reading(Unknown(error["reason"], error["message"]), started=started)
            return Reading(Succeeded())
        if error is not None:
            outcome = Failed(error["reason"], error["message"])
            return Reading(outcome, exit_code=error["exitCode"])
        return Reading(Succeeded(), Changes(last_observation=self._seen(payload, s)))

    def proof_inputs(self, claim: Claim, s: Snapshot) -> Mapping[str, Any]:
        return dict(claim.inputs)

    def judge(
        self, owed: PendingObservation, claim: Claim, payload: Mapping[str, Any], s: Snapshot
    ) -> Verdict:
        error, result = payload["error"], payload["result"]
        if error is not None:
            return Unproven(error["reason"], error["message"], error["exitCode"])
        outcome = ledger.judge(result["fence"]["row"], owed.reported)
        return Proven(outcome, isinstance(outcome, Succeeded))

    def summary(self, status: Status, spec: CommonSpec) -> Summary:
        return Summary("InSync", True, "Converged", "")

    def _spec(self, s: Snapshot) -> ToySpec:
        assert isinstance(s.spec, ToySpec)
        return s.spec

    def _inputs(self, s: Snapshot) -> dict[str, Any]:
        return {"planDigest": plan_digest(self._spec(s).mark), "urlFrom": {}}

    def _seen(self, payload: Mapping[str, Any], s: Snapshot) -> dict[str, Any]:
        text = payload["result"]["observedFingerprint"]
        return {"time": format_time(s.now), "marks": [text]}
