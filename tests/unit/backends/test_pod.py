"""The Job document: golden, of the restricted Pod Security Standard, and known again afterwards."""

import copy
import dataclasses
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.backends.kube import pod
from ptahk.backends.kube.pod import PodSettings
from ptahk.engine.ports import Document, Invalid, JobInput, JobOrder
from ptahk.wire import jobspec
from ptahk.wire.jobspec import JobPolicy
from tests.kit.orders import job_spec

GOLDEN = Path(__file__).with_name("golden")
IMAGE = "registry.example/ptahk@sha256:" + "e" * 64
NAME = "ptahk-op-apply-" + "0123456789abcdef" * 2
SETTINGS = PodSettings(IMAGE)
INPUT = JobInput("plan.json.gz", "ptahk-plan-1", b"plan")
EXECUTION: dict[str, Any] = {
    "activeDeadlineSeconds": 900,
    "serviceAccountName": "orders",
    "resources": {"requests": {"cpu": "0.5", "memory": "65536Ki"}, "limits": {"memory": "1Gi"}},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        }
    },
    "runtimeClassName": "gvisor",
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "pull"}],
    "podMetadata": {
        "labels": {"team": "orders", "job-name": "mine", "sizeLimit": "not a quantity"},
        "annotations": {
            "note": "x",
            "ptahk.dev/operation-id": "forged",
            "karpenter.sh/do-not-disrupt": "false",
        },
    },
}


def order(**changes: Any) -> JobOrder:
    """An Apply with everything that an order may have."""
    spec = job_spec(
        NAME,
        store_kind="cluster",
        active_deadline_seconds=900,
        termination_grace_period_seconds=30,
        policy=JobPolicy(exclude=("$(HOME)", "$$")),
        inputs={INPUT.name: jobspec.input_digest(INPUT.data)},
    )
    built = JobOrder(
        namespace="team",
        name=NAME,
        owner={
            "apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema", "name": "orders",
            "uid": "resource",
        },
        annotations={
            "ptahk.dev/operation-id": "0" * 32,
            "ptahk.dev/epoch": "7.0123456789abcdef",
            "ptahk.dev/dispatch-nonce": "1" * 32,
            "ptahk.dev/intent": jobspec.input_digest(jobspec.encode(spec)),
            "ptahk.dev/snapshot-digest": "sha256:" + "2" * 64,
        },
        spec=spec,
        inputs=(INPUT,),
        surroundings={},
        url_from={"name": "db", "key": "url"},
        execution=EXECUTION,
        dev_url_from={"name": "dev", "key": "dsn"},
        tls_from={"secret": "tls"},
    )  # fmt: skip
    return dataclasses.replace(built, **changes)


def plain(**changes: Any) -> JobOrder:
    """An order with nothing but what it must have."""
    return order(execution={}, inputs=(), dev_url_from={}, tls_from={}, **changes)


def text(document: Document) -> str:
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


@pytest.mark.parametrize(("name", "make"), [("job.json", order), ("job-plain.json", plain)])
def test_the_document_is_the_golden_one(name: str, make: Callable[[], JobOrder]) -> None:
    found = text(pod.job(make(), SETTINGS))
    assert found == (GOLDEN / name).read_text(), "rewrite the file if the change is meant"
    assert text(pod.job(make(), SETTINGS)) == found, "equal orders give equal bytes"


@pytest.mark.parametrize("make", [order, plain])
def test_the_document_has_the_fields_that_admission_will_know(
    make: Callable[[], JobOrder],
) -> None:
    job = pod.job(make(), SETTINGS)
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert set(job["spec"]) <= set(pod.JOB_FIELDS)
    assert set(template["spec"]) <= set(pod.POD_FIELDS)
    assert set(container) <= set(pod.CONTAINER_FIELDS)
    for volume in template["spec"]["volumes"]:
        (kind,) = set(volume) - {"name"}
        assert kind in pod.VOLUME_KINDS
    for key in pod.CLAIM_ANNOTATIONS:
        stated = job["metadata"]["annotations"][key]
        assert template["metadata"]["annotations"][key] == stated
    assert "generateName" not in job["metadata"]
    assert "ttlSecondsAfterFinished" not in job["spec"], "absent at create (C-3.4)"
    assert not any("finalizers" in item["metadata"] for item in (job, template)), "C-2.5"


def test_the_pod_is_of_the_restricted_standard() -> None:
    spec = pod.job(order(), SETTINGS)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    inner = container["securityContext"]
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["readOnlyRootFilesystem"] is True
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    writable = [
        mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")
    ]
    assert writable == ["/tmp"]
    (temporary,) = [item for item in spec["volumes"] if "emptyDir" in item]
    assert temporary["emptyDir"]["sizeLimit"], "bounded"


def test_credentials_come_by_reference_and_nothing_else_names_a_secret() -> None:
    (container,) = pod.job(order(), SETTINGS)["spec"]["template"]["spec"]["containers"]
    named = {item["name"]: item for item in container["env"]}
    for name, secret, key in (
        (jobspec.DATABASE_URL, "db", "url"),
        (jobspec.DEV_DATABASE_URL, "dev", "dsn"),
    ):
        reference = {"name": secret, "key": key, "optional": False}
        assert named[name] == {"name": name, "valueFrom": {"secretKeyRef": reference}}
    assert named[jobspec.POD_UID]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.uid"
    assert "$" not in json.dumps([item.get("value") for item in container["env"]])
    assert jobspec.decode(named[jobspec.JOB]["value"].encode()) == order().spec


def test_the_pods_deadline_strikes_long_before_the_jobs() -> None:
    for seconds in (30, 900, 86400):
        spec = dataclasses.replace(order().spec, active_deadline_seconds=seconds)
        job = pod.job(order(spec=spec), SETTINGS)
        inner = job["spec"]["template"]["spec"]["activeDeadlineSeconds"]
        latest_start = min(300, seconds // 2)
        assert inner == seconds
        assert job["spec"]["activeDeadlineSeconds"] > latest_start + seconds + 45


def test_what_people_set_never_overrides_what_we_set() -> None:
    template = pod.job(order(), SETTINGS)["spec"]["template"]["metadata"]
    assert template["labels"]["team"] == "orders"
    assert "job-name" not in template["labels"]
    assert template["annotations"]["note"] == "x"
    assert template["annotations"]["ptahk.dev/operation-id"] == "0" * 32
    assert template["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"url_from": {}}, "urlFrom"),
        ({"name": "x" * 58}, "57"),
        ({"spec": job_spec(policy=JobPolicy(exclude=("x" * 130_000,)))}, "longer"),
    ],
    ids=["no-url", "long-name", "long-document"],
)
def test_an_order_that_makes_no_job_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(Invalid, match=word):
        pod.job(order(**changes), SETTINGS)


# -- known again -------------------------------------------------------------------------------


def stored(document: Document) -> Document:
    """The document as an API server 1.36 keeps it."""
    kept = copy.deepcopy(document)
    kept["metadata"] |= {
        "uid": "job-uid", "resourceVersion": "7", "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [],
    }  # fmt: skip
    spec, template = kept["spec"], kept["spec"]["template"]
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "job-uid"}}
    template["metadata"]["creationTimestamp"] = None
    template["metadata"]["labels"] |= dict.fromkeys(pod.GENERATED_LABELS, "job-uid")
    template["spec"]["serviceAccount"] = template["spec"]["serviceAccountName"]
    (container,) = template["spec"]["containers"]
    container.setdefault("resources", {})
    requests = container["resources"].get("requests", {})
    if "cpu" in requests:
        requests |= {"cpu": "500m", "memory": "64Mi"}
    kept["status"] = {}
    return kept


@pytest.mark.parametrize("make", [order, plain])
def test_a_stored_job_is_known_again(make: Callable[[], JobOrder]) -> None:
    kept = stored(pod.job(make(), SETTINGS))
    assert pod.differs(kept) is None
    kept["spec"]["ttlSecondsAfterFinished"] = 300
    assert pod.differs(kept) is None, "the one field that is added later"


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every leaf of a document."""
    if isinstance(value, dict):
        return [path for key, item in value.items() for path in paths(item, (*at, key))]
    if isinstance(value, list):
        return [path for index, item in enumerate(value) for path in paths(item, (*at, index))]
    return [at]


BUILT = pod.job(order(), SETTINGS)


@pytest.mark.parametrize("path", paths(BUILT["spec"]), ids=str)
def test_every_change_of_the_spec_is_seen(path: tuple[Any, ...]) -> None:
    kept = stored(BUILT)
    holder = kept["spec"]
    for step in path[:-1]:
        holder = holder[step]
    before = holder[path[-1]]
    changed = {bool: lambda: not before, int: lambda: before + 1}.get(
        type(before), lambda: f"{before}1"
    )
    holder[path[-1]] = changed()
    assert pod.differs(kept) is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda job: job["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"}),
        lambda job: job["spec"]["template"]["spec"].update(initContainers=[{"name": "x"}]),
        lambda job: job["spec"]["template"]["spec"].update(hostNetwork=True),
        lambda job: job["spec"]["template"]["spec"].update(serviceAccount="other"),
        lambda job: job["spec"]["template"]["metadata"]["labels"].update(injected="x"),
        lambda job: job["spec"].update(managedBy="example.com/other"),
        lambda job: job["metadata"].update(ownerReferences=[]),
        lambda job: job["metadata"]["annotations"].update({"ptahk.dev/intent": "sha256:0"}),
        lambda job: job["metadata"]["annotations"].pop("ptahk.dev/shape"),
        lambda job: job["metadata"].update(annotations=None),
        lambda job: job.update(spec={}),
        lambda job: job["spec"].update(template=[]),
        lambda job: job["spec"]["template"]["spec"].update(containers=["x"]),
    ],
)
def test_what_is_added_or_taken_away_is_seen(change: Callable[[Any], Any]) -> None:
    kept = stored(BUILT)
    change(kept)
    assert pod.differs(kept) is not None


@given(st.integers(0, 10**9), st.sampled_from(["", "k", "M", "Ki", "Mi", "m", "n", "e3", "E2"]))
def test_a_quantity_has_one_value_however_it_is_written(number: int, suffix: str) -> None:
    factor = {
        "": 1, "k": 1000, "M": 10**6, "Ki": 1024, "Mi": 1024**2, "m": Fraction(1, 1000),
        "n": Fraction(1, 10**9), "e3": 1000, "E2": 100,
    }[suffix]  # fmt: skip
    assert pod.quantity(f"{number}{suffix}") == number * factor
    assert pod.quantity(f"{number}.0{suffix}") == number * factor


@given(st.text(max_size=40))
def test_anything_else_is_no_quantity_and_costs_nothing(given_text: str) -> None:
    try:
        assert pod.quantity(given_text) >= 0
    except ValueError as error:
        assert str(error) == "not a quantity"
