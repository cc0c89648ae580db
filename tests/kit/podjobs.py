"""Operation Jobs written by hand, in the shape that the engine's own have, for tests of the bed."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kit.controlplane import Cluster
from tests.kit.waiting import until

INPUTS = "/etc/ptahk/job"
_DEADLINE_S = 120
_ONCE = {
    "parallelism": 1,
    "completions": 1,
    "completionMode": "NonIndexed",
    "backoffLimit": 0,
    "podReplacementPolicy": "Failed",
    "suspend": False,
    "podFailurePolicy": {
        "rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
            {
                "action": "FailJob",
                "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        ]
    },
}
"""What keeps the Job controller from making a second Pod."""


def restricted_job(
    name: str,
    image: str,
    command: Sequence[str],
    *,
    url_secret: str | None = None,
    inputs: str | None = None,
) -> dict[str, Any]:
    """A Job of one Pod that the restricted Pod Security Standard lets in, tried exactly once.

    :param url_secret: a Secret whose key ``url`` is the database URL.
    :param inputs: a ConfigMap mounted at ``INPUTS``.
    """
    container: dict[str, Any] = {
        "name": "ptahk",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [
            {"name": "PTAHK_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "PTAHK_TERMINATION_LOG", "value": "/dev/termination-log"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}]
    if url_secret is not None:
        reference = {"secretKeyRef": {"name": url_secret, "key": "url"}}
        container["env"].append({"name": "PTAHK_DATABASE_URL", "valueFrom": reference})
    if inputs is not None:
        container["volumeMounts"].append({"name": "inputs", "mountPath": INPUTS, "readOnly": True})
        volumes.append({"name": "inputs", "configMap": {"name": inputs}})
    pod = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _DEADLINE_S,
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-{secrets.token_hex(4)}"},
        "spec": {**_ONCE, "template": {"spec": pod}},
    }


def config_map(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """An immutable ConfigMap of files."""
    data = {file: base64.b64encode(content).decode("ascii") for file, content in files.items()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "immutable": True,
        "binaryData": data,
    }


def secret(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    """A Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": dict(values),
    }


def create(cluster: Cluster, namespace: str, document: Mapping[str, Any]) -> str:
    """Create an object, and answer its name."""
    cluster.kubectl("create", "--namespace", namespace, "--filename=-", stdin=json.dumps(document))
    name: str = document["metadata"]["name"]
    return name


def wait_for(cluster: Cluster, namespace: str, job: str, condition: str) -> None:
    """Wait until the Job has ended with a condition, ``Complete`` or ``Failed``.

    :raises AssertionError: it ended with the other one, or not in time; shows its log.
    """
    ended = until(lambda: _ended(cluster, namespace, job), f"the Job {job} to end", 120)
    if ended["type"] != condition:
        raise AssertionError(f"{ended}: {log_of(cluster, namespace, job)}")


def _ended(cluster: Cluster, namespace: str, job: str) -> dict[str, Any] | None:
    told = cluster.kubectl("get", "job", job, "--namespace", namespace, "--output=json")
    for condition in json.loads(told)["status"].get("conditions", []):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            assert isinstance(condition, dict)
            return condition
    return None


def pod_of(cluster: Cluster, namespace: str, job: str) -> dict[str, Any]:
    """The one Pod of a Job."""
    selector = f"--selector=job-name={job}"
    told = cluster.kubectl("get", "pods", "--namespace", namespace, selector, "--output=json")
    [pod] = json.loads(told)["items"]
    assert isinstance(pod, dict)
    return pod


def log_of(cluster: Cluster, namespace: str, job: str) -> str:
    """The log of the Job's Pod."""
    return cluster.kubectl("logs", "--namespace", namespace, f"job/{job}")
