"""Job orders for tests that need one and do not care which."""

from typing import Any

from ptahk.engine.ports import JobInput, JobOrder
from ptahk.wire import jobspec

_DIGEST = "sha256:" + "0" * 64


def job_spec(name: str = "ptahk-op-observe-1", **changes: Any) -> jobspec.JobSpec:
    """An Observe with nothing to observe."""
    given: dict[str, Any] = {
        "operation": "Observe",
        "family": "schema",
        "engine": "postgresql",
        "operation_id": "0" * 32,
        "attempt": 1,
        "job_name": name,
        "holder": "sha256:holder",
        "store_uid": "store",
        "store_kind": "local",
        "resource_uid": "resource",
        "coordination_digest": _DIGEST,
        "dispatch_not_after": "2099-01-01T00:00:00Z",
        "execution_not_after": "2099-01-01T00:01:00Z",
        "active_deadline_seconds": 60,
        "termination_grace_period_seconds": 3,
    }
    return jobspec.JobSpec(**(given | changes))


def job_order(
    name: str = "ptahk-op-observe-1", inputs: tuple[JobInput, ...] = (), **changes: Any
) -> JobOrder:
    """An order for ``job_spec``; ``changes`` go into the specification."""
    digests = {item.name: jobspec.input_digest(item.data) for item in inputs}
    return JobOrder(
        namespace="local",
        name=name,
        owner={"apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema", "name": "o", "uid": "u"},
        annotations={"ptahk.dev/operation-id": "0" * 32, "ptahk.dev/intent": _DIGEST},
        spec=job_spec(name, inputs=digests, **changes),
        inputs=inputs,
        surroundings={},
        url_from={},
    )
