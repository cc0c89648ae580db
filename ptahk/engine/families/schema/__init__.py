"""PtahSchema: converge a database to a declared schema. Observe, plan, apply, prove."""

from collections.abc import Mapping
from typing import Any

from ptahk.engine.families.schema import jobs, results, wanted
from ptahk.engine.family import Later, Proposal, Reading, Summary, Verdict
from ptahk.engine.model.claim import Claim, PendingObservation
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.resource import SCHEMA, SchemaSpec, parse_spec
from ptahk.engine.model.snapshot import CommonSpec, Snapshot
from ptahk.engine.model.status import HistoryEntry, Status
from ptahk.wire.jobspec import JobSpec


class SchemaFamily:
    """The answers of this family; see ``engine.family``."""

    kind = SCHEMA

    def parse_spec(self, document: Any) -> SchemaSpec:
        return parse_spec(document)

    def next_operation(self, s: Snapshot) -> Proposal | Refusal | Later | None:
        return wanted.next_operation(s)

    def mutates(self, operation: str) -> bool:
        return operation == wanted.APPLY

    def outlives_lease(self, operation: str) -> bool:
        return False

    def needs_realm(self, operation: str) -> bool:
        return operation in wanted.REALM_OPERATIONS

    def inputs(self, operation: str, s: Snapshot, claim: Claim) -> Mapping[str, Any] | None:
        return wanted.inputs(operation, s, claim)

    def gate(self, operation: str, s: Snapshot) -> Refusal | None:
        return wanted.gate(operation, s)

    def needs_approval(self, claim: Claim, s: Snapshot) -> bool:
        if claim.type != wanted.APPLY or claim.inputs.get("rebind") is True:
            return False
        if s.plan is None:
            return True
        return wanted.approval_needed(wanted.spec_of(s), s.plan)

    def job(self, claim: Claim, s: Snapshot) -> JobSpec:
        return jobs.job(claim, s)

    def read(self, claim: Claim, payload: Mapping[str, Any], s: Snapshot) -> Reading:
        return results.read(claim, payload, s)

    def proof_inputs(self, claim: Claim, s: Snapshot) -> Mapping[str, Any]:
        return jobs.proof_inputs(claim)

    def judge(
        self, owed: PendingObservation, claim: Claim, payload: Mapping[str, Any], s: Snapshot
    ) -> Verdict:
        return results.judge(owed, claim, payload, s)

    def summary(self, status: Status, spec: CommonSpec) -> Summary:
        last = next((e for e in reversed(status.history) if e.type in ("Apply", "Plan")), None)
        if last is not None and last.type == "Apply":
            ended = _applied(last)
            if ended is not None:
                return ended
        return _evidence(status, spec)


def _applied(entry: HistoryEntry) -> Summary | None:
    """The last Apply, where it left something for a person and no plan was made since."""
    settled = entry.settled
    if settled is None or entry.converged or settled.type in ("Succeeded", "NotStarted"):
        return None
    text = settled.message or settled.reason
    if settled.type == "Unknown":
        return Summary(
            "Unknown", False, settled.reason, text, "Plan again and look at what is left."
        )
    return Summary("Failed", False, settled.reason, text, "Correct the cause, then plan again.")


_SEVERITY = {"safe": 0, "warning": 1, "privilege": 2, "destructive": 3}


def _evidence(status: Status, spec: CommonSpec) -> Summary:
    plan, seen = status.last_plan, status.last_observation
    drifted = _drifted(plan, seen, spec)
    if drifted is not None:
        return drifted
    if plan is None:
        return Summary("Pending", False, "Idle", "no plan was made yet", "Plan.")
    if plan["statements"] == 0:
        return Summary("InSync", True, "Converged", "the database has the declared schema")
    plural = "" if plan["statements"] == 1 else "s"
    text = f"plan {plan['fingerprint']} with {plan['statements']} statement{plural} is pending"
    if spec.apply_policy == "Never":
        return Summary("Drifted", False, "ApplyNever", text, "policy.apply is Never.")
    return Summary(
        "AwaitingApproval", False, "ChangesPending", text, "Review the plan, then approve it."
    )


def _drifted(
    plan: Mapping[str, Any] | None, seen: Mapping[str, Any] | None, spec: CommonSpec
) -> Summary | None:
    """The last observation, where it is newer than the plan and found enough (C-10.1)."""
    if seen is None or "drift" not in seen or (plan is not None and plan["time"] > seen["time"]):
        return None
    assert isinstance(spec, SchemaSpec)
    drift = seen["drift"]
    least = _SEVERITY[spec.policy.drift_severity]
    if drift["highest"] is None or _SEVERITY.get(drift["highest"], 3) < least:
        return None
    count = sum(drift["counts"].values())
    text = f"{count} differences, the highest {drift['highest']}"
    return Summary("Drifted", False, "DriftFound", text, "Plan, then decide.")
