"""What a PtahSchema's Jobs are told: from the claim's own inputs, never from the spec (C-6.5)."""

from collections.abc import Mapping
from typing import Any, cast

from ptahk.engine.lease import known_number
from ptahk.engine.model.claim import POD_GRACE_S, PROVE, Claim, PendingObservation
from ptahk.engine.model.fields import format_time
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire import digest
from ptahk.wire.jobspec import FencedAttempt, JobPolicy, JobSpec, Operation, input_digest


def job(claim: Claim, s: Snapshot) -> JobSpec:
    """The JobSpec of a claim that is being dispatched."""
    assert claim.dispatch_not_after is not None and claim.execution_not_after is not None
    assert s.inputs is not None
    inputs = claim.inputs
    owed = s.status.pending_observation if claim.type == PROVE else None
    return JobSpec(
        operation=cast("Operation", claim.type),
        family="schema",
        engine=digest.engine_family(inputs["engine"]),
        make=digest.engine_make(inputs["engine"]),
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
        # A proof that may not take the Lease yet speaks under the Apply's epoch (C-6.8).
        epoch=claim.epoch or (owed.epoch if owed is not None else None),
        explicit_key=inputs["explicitKey"],
        shared_realm=inputs["sharedRealm"],
        target_identity=inputs.get("targetIdentity"),
        server_identity=inputs.get("serverIdentity"),
        plan_digest=inputs.get("planDigest"),
        plan_coordination_digest=inputs.get("planCoordination"),
        source_digest=inputs.get("source"),
        observed_fingerprint=inputs.get("observedState"),
        desired_fingerprint=inputs.get("desiredState"),
        scope=tuple(inputs.get("scope", ())),
        policy=_policy(inputs),
        inputs={item.name: input_digest(item.data) for item in s.inputs},
        local_snapshot_digest=claim.snapshot_digest if s.store.kind == "local" else None,
        fenced=None if owed is None else _fenced(owed),
        known_number=known_number(s),
        thawed=s.status.thawed_operations,
        rebind=claim.type == "Apply" and inputs.get("rebind") is True,
        declaration=inputs.get("declaration") is True,
    )


def _policy(inputs: Mapping[str, Any]) -> JobPolicy:
    policy, timing = inputs["policy"], inputs["timing"]
    return JobPolicy(
        allow_destructive=policy["allowDestructive"],
        schemas=tuple(policy["schemas"]),
        exclude=tuple(policy["exclude"]),
        protected_tables=tuple(policy["protectedTables"]),
        privileges=policy["privileges"],
        partitions=policy["partitions"],
        renames=tuple((item["from"], item["to"]) for item in policy["renames"]),
        transaction_mode=policy["transactionMode"],
        lock_timeout_seconds=timing["lockTimeoutMs"] / 1000,
        coordination_timeout_seconds=timing["coordinationTimeoutMs"] / 1000,
        connect_timeout_seconds=timing["connectTimeoutMs"] / 1000,
        deadline_explicit=timing["deadlineExplicit"],
        dev_template=inputs.get("devTemplate"),
    )


def _fenced(owed: PendingObservation) -> FencedAttempt:
    return FencedAttempt(
        operation_id=owed.operation_id,
        epoch=owed.epoch,
        plan_digest=owed.inputs["planDigest"],
        not_after=format_time(owed.execution_not_after),
    )


def proof_inputs(claim: Claim) -> dict[str, Any]:
    """The applied plan, the key-free target selector, the policy and the declaration (C-4.2)."""
    source = claim.inputs.get("sourceBundle")
    if source is None:
        return dict(claim.inputs) | {"bundles": []}
    bundle = {
        "file": "source.json.gz",
        "configMap": source["configMap"],
        "digest": source["digest"],
    }
    return dict(claim.inputs) | {"bundles": [bundle]}
