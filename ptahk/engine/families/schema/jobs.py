"""What a PtahSchema's Jobs are told: from the claim's own inputs, never from the spec (C-6.5)."""

from collections.abc import Mapping
from typing import Any, cast

from ptahk.engine.families import common
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.snapshot import Snapshot
from ptahk.wire.jobspec import JobPolicy, JobSpec, Operation, input_digest


def job(claim: Claim, s: Snapshot) -> JobSpec:
    """The JobSpec of a claim that is being dispatched."""
    assert s.inputs is not None
    inputs = claim.inputs
    return JobSpec(
        operation=cast("Operation", claim.type),
        family="schema",
        **common.job_head(claim, s),
        observed_fingerprint=inputs.get("observedState"),
        desired_fingerprint=inputs.get("desiredState"),
        scope=tuple(inputs.get("scope", ())),
        policy=_policy(inputs),
        inputs={item.name: input_digest(item.data) for item in s.inputs},
        rebind=claim.type == "Apply" and inputs.get("rebind") is True,
        declaration=inputs.get("declaration") is True,
    )


def _policy(inputs: Mapping[str, Any]) -> JobPolicy:
    policy = inputs["policy"]
    return JobPolicy(
        allow_destructive=policy["allowDestructive"],
        schemas=tuple(policy["schemas"]),
        exclude=tuple(policy["exclude"]),
        protected_tables=tuple(policy["protectedTables"]),
        privileges=policy["privileges"],
        partitions=policy["partitions"],
        renames=tuple((item["from"], item["to"]) for item in policy["renames"]),
        transaction_mode=policy["transactionMode"],
        dev_template=inputs.get("devTemplate"),
        **common.job_timing(inputs),
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
