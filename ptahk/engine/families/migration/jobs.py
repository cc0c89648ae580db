"""What a PtahMigration's Jobs are told: from the claim's own inputs, never the spec (C-6.5)."""

from collections.abc import Mapping
from typing import Any, cast

from ptahk.engine.families import common
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.resource import SOURCE_KEY
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire.jobspec import JobPolicy, JobSpec, Operation, SequenceJob, input_digest


def job(claim: Claim, s: Snapshot) -> JobSpec:
    """The JobSpec of a claim that is being dispatched."""
    assert s.inputs is not None
    inputs = claim.inputs
    return JobSpec(
        operation=cast("Operation", claim.type),
        family="migration",
        **common.job_head(claim, s),
        policy=JobPolicy(
            transaction_mode=inputs["policy"]["transactionMode"], **common.job_timing(inputs)
        ),
        inputs={item.name: input_digest(item.data) for item in s.inputs},
        migration=sequence_of(inputs),
    )


def sequence_of(inputs: Mapping[str, Any]) -> SequenceJob:
    """Stream, layout and bindings out of an operation's inputs."""
    policy = inputs["policy"]
    return SequenceJob(
        stream=policy["stream"],
        layout=policy["format"],
        placeholders=policy["placeholders"],
        placeholders_off=policy["placeholdersOff"],
        history_table=policy["historyTable"],
        foreign_key_checks=policy["foreignKeyChecks"],
        ahead=policy["ahead"],
        change=inputs.get("change") or {},
        sequence_digest=inputs.get("sequence"),
        history_fingerprint=inputs.get("history"),
        replay="drift" if inputs.get("drift") is True else "",
    )


def proof_inputs(claim: Claim) -> dict[str, Any]:
    """The applied plan, the key-free target selector, the policy and the directory (C-4.2)."""
    source = claim.inputs["sourceBundle"]
    bundle = common.bundle(SOURCE_KEY, source["configMap"], source["digest"])
    return dict(claim.inputs) | {"bundles": [bundle]}
