"""PtahMigration: run a versioned sequence. History, apply, prove."""

from collections.abc import Mapping
from typing import Any

from ptahk.engine.families.migration import jobs, results, wanted
from ptahk.engine.families.migration.phase import summary
from ptahk.engine.family import Later, Proposal, Reading, Summary, Verdict
from ptahk.engine.model.claim import Claim, PendingObservation
from ptahk.engine.model.migration import MIGRATION, MigrationSpec, parse_migration_spec
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.snapshot import CommonSpec, Snapshot
from ptahk.engine.model.status import Status
from ptahk.wire.jobspec import JobSpec


class MigrationFamily:
    """The answers of this family; see ``engine.family``."""

    kind = MIGRATION

    def parse_spec(self, document: Any) -> MigrationSpec:
        return parse_migration_spec(document)

    def next_operation(self, s: Snapshot) -> Proposal | Refusal | Later | None:
        return wanted.next_operation(s)

    def mutates(self, operation: str) -> bool:
        return operation == wanted.APPLY

    def outlives_lease(self, operation: str) -> bool:
        return operation == wanted.APPLY

    def needs_realm(self, operation: str) -> bool:
        return operation in wanted.REALM_OPERATIONS

    def inputs(self, operation: str, s: Snapshot, claim: Claim) -> Mapping[str, Any] | None:
        return wanted.inputs(operation, s, claim)

    def gate(self, operation: str, s: Snapshot) -> Refusal | None:
        return wanted.gate(operation, s)

    def needs_approval(self, claim: Claim, s: Snapshot) -> bool:
        if claim.type != wanted.APPLY:
            return False
        return s.plan is None or wanted.approval_needed(wanted.spec_of(s), s.plan)

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
        return summary(status, spec)
