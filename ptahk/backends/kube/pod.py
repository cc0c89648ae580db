"""JobOrder → the Job document, exactly. Pure: equal orders and settings give equal documents.

Every field that an API server would fill in is written out, so that what is stored can be compared
with what was built (contract section 3, step 7). The tuples of names below say what such a Job,
its Pod and its container consist of and nothing else: admission is rendered from the same names.
"""

import copy
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from ptahk.engine.admission.review import NAME_PREFIX as NAME_PREFIX
from ptahk.engine.admission.review import OPERATION as OPERATION
from ptahk.engine.model.job import INTENT, POD_JOB_BYTES_MAX
from ptahk.engine.ports import Document, Invalid, JobOrder
from ptahk.wire import canonical, jobspec

NAME_MAX: Final = 57
"""Above it a Pod's name loses its dash (C-3.1)."""
CONTAINER: Final = "runner"
TTL_S: Final = 300
SHAPE: Final = "ptahk.dev/shape"
"""Annotation of the Job: digest of everything that was built (``shape_digest``)."""
CLAIM_ANNOTATIONS: Final = (
    OPERATION,
    "ptahk.dev/operation-id",
    "ptahk.dev/snapshot-digest",
)
"""Equal on Job and Pod template, always there (C-3.1)."""

JOB_FIELDS: Final = (
    "parallelism", "completions", "completionMode", "backoffLimit", "podReplacementPolicy",
    "suspend", "manualSelector", "activeDeadlineSeconds", "podFailurePolicy", "selector",
    "template",
)  # fmt: skip
POD_FIELDS: Final = (
    "restartPolicy", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "dnsPolicy",
    "schedulerName", "securityContext", "containers", "volumes", "serviceAccountName",
    "serviceAccount", "automountServiceAccountToken", "enableServiceLinks", "nodeSelector",
    "tolerations", "affinity", "runtimeClassName", "priorityClassName", "imagePullSecrets",
)  # fmt: skip
CONTAINER_FIELDS: Final = (
    "name", "image", "imagePullPolicy", "command", "args", "env", "resources", "volumeMounts",
    "securityContext", "terminationMessagePath", "terminationMessagePolicy",
)  # fmt: skip
VOLUME_KINDS: Final = ("emptyDir", "secret", "configMap")
JOB_CONSTANTS: Final[Mapping[str, Any]] = {
    "parallelism": 1,
    "completions": 1,
    "completionMode": "NonIndexed",
    "backoffLimit": 0,
    "podReplacementPolicy": "Failed",
    "suspend": False,
    "manualSelector": False,
}
"""One Pod, never a second one beside or after it (B2, B13, A18)."""
POD_CONSTANTS: Final[Mapping[str, Any]] = {
    "restartPolicy": "Never",
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
FAILURE_RULES: Final[tuple[Document, ...]] = (
    {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
    {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
)
"""Every failure is the Job's; a drain is one too."""
CONTAINER_SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
KEEP_ANNOTATIONS: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Whoever drains a node for its own ends leaves the Pod alone (B17)."""
RESERVED: Final = ("ptahk.dev/", "batch.kubernetes.io/", "app.kubernetes.io/managed-by")
"""Prefixes of labels and annotations that ``spec.execution.podMetadata`` cannot set."""
GENERATED_LABELS: Final = frozenset(
    {
        "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid",
        "job-name",
    }
)  # fmt: skip
"""The API server adds them to every Job's template."""

GRACE_S: Final = 60
"""C-3.7."""
JOB_DIRECTORY: Final = "/etc/ptahk/job"
TLS_DIRECTORY: Final = "/etc/ptahk/tls"
TERMINATION_PATH: Final = "/dev/termination-log"
TEMPORARY_SIZE: Final = "64Mi"
RUNNER_ARGV: Final = ("python", "-P", "-m", "ptahk.runner")
USER: Final = 65532

_EVERYONE_READS: Final = 0o444
_GROUP_READS: Final = 0o440
"""libpq takes a client key that belongs to root only where no others may read it."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What the installation says about every operation Pod.

    :ivar image: by digest: what a tag means may change between approval and start.
    :ivar user: numeric, so that the kubelet can prove that it is not root.
    :ivar argv: the container's command before ``--job DIRECTORY``.
    """

    image: str
    image_pull_policy: str = "IfNotPresent"
    user: int = USER
    argv: tuple[str, ...] = RUNNER_ARGV


def job(order: JobOrder, settings: PodSettings) -> Document:
    """The Job that is sent.

    :raises Invalid: the order names no database URL, or its name or document is too long; before
        anything is sent.
    """
    if len(order.name) > NAME_MAX:
        raise Invalid(f"a Job's name has at most {NAME_MAX} characters")
    annotations = {
        **order.annotations,
        OPERATION: f"{order.spec.family}/{order.spec.operation}",
    }
    labels = {
        "app.kubernetes.io/managed-by": "ptahk",
        "ptahk.dev/resource-uid": str(order.owner["uid"]),
    }
    document: Document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": order.name,
            "namespace": order.namespace,
            "labels": labels,
            "annotations": annotations,
            # Without blockOwnerDeletion no permission on the owner's finalizers is asked for:
            # the resource has a finalizer of its own (C-2.5).
            "ownerReferences": [
                {
                    "apiVersion": order.owner["apiVersion"],
                    "kind": order.owner["kind"],
                    "name": order.owner["name"],
                    "uid": order.owner["uid"],
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            **JOB_CONSTANTS,
            "activeDeadlineSeconds": backstop_s(order.spec.active_deadline_seconds),
            "podFailurePolicy": {"rules": copy.deepcopy(list(FAILURE_RULES))},
            "template": {
                "metadata": _template_metadata(order, labels, annotations),
                "spec": _pod(order, settings),
            },
        },
    }
    document["metadata"]["annotations"] = {**annotations, SHAPE: shape_digest(document)}
    return document


def backstop_s(active_deadline_s: int) -> int:
    """The Job's own deadline. It deletes the Pod and its log, so it strikes only long after the
    Pod's, for what never came to run (C-3.7)."""
    return active_deadline_s + min(300, active_deadline_s // 2) + 2 * GRACE_S


def _template_metadata(
    order: JobOrder, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Document:
    given = order.execution.get("podMetadata") or {}
    return {
        "labels": {**_allowed(given.get("labels")), **labels},
        "annotations": {
            **_allowed(given.get("annotations")),
            **KEEP_ANNOTATIONS,
            **annotations,
        },
    }


def _allowed(given: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (given or {}).items() if not reserved(key)}


def reserved(key: str) -> bool:
    """True for a label or an annotation that belongs to ptahk or to the Job controller."""
    return key.startswith(RESERVED) or key in GENERATED_LABELS or key in KEEP_ANNOTATIONS


def _pod(order: JobOrder, settings: PodSettings) -> Document:
    spec, execution = order.spec, order.execution
    volumes, mounts = _volumes(order)
    pod: Document = {
        **POD_CONSTANTS,
        "activeDeadlineSeconds": spec.active_deadline_seconds,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "serviceAccountName": execution.get("serviceAccountName") or "default",
        "securityContext": pod_security(settings.user),
        "containers": [_container(order, settings, mounts)],
        "volumes": volumes,
    }
    for name in (
        "nodeSelector", "tolerations", "affinity", "runtimeClassName", "priorityClassName",
        "imagePullSecrets",
    ):  # fmt: skip
        if execution.get(name):
            pod[name] = execution[name]
    return pod


def pod_security(user: int) -> Document:
    """Of every operation Pod: numeric, so that the kubelet can prove that it is not root."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _container(order: JobOrder, settings: PodSettings, mounts: list[Document]) -> Document:
    container: Document = {
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": [*settings.argv, "--job", JOB_DIRECTORY],
        "env": _environment(order),
        "volumeMounts": mounts,
        "securityContext": copy.deepcopy(dict(CONTAINER_SECURITY)),
        "terminationMessagePath": TERMINATION_PATH,
        "terminationMessagePolicy": "File",
    }
    resources = {
        name: dict(amounts)
        for name, amounts in (order.execution.get("resources") or {}).items()
        if amounts
    }
    if resources:
        container["resources"] = resources
    return container


def _environment(order: JobOrder) -> list[Document]:
    if not order.url_from:
        raise Invalid("spec.target.urlFrom is missing")
    uid = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    env: list[Document] = [
        {"name": jobspec.JOB, "value": job_value(order.spec)},
        {"name": jobspec.DATABASE_URL, "valueFrom": _secret(order.url_from)},
        {"name": jobspec.POD_UID, "valueFrom": uid},
        {"name": jobspec.TERMINATION_LOG, "value": TERMINATION_PATH},
        {"name": "HOME", "value": "/tmp"},
        {"name": "TMPDIR", "value": "/tmp"},
    ]
    if order.dev_url_from:
        env.append({"name": jobspec.DEV_DATABASE_URL, "valueFrom": _secret(order.dev_url_from)})
    return env


def job_value(spec: jobspec.JobSpec) -> str:
    """The job document as the container's environment holds it.

    :raises Invalid: it is longer than an environment string may be.
    """
    # A kubelet expands $(NAME) in values; without a dollar sign there is nothing to expand.
    text = jobspec.encode(spec).decode("ascii").replace("$", "\\u0024")
    if len(text) > POD_JOB_BYTES_MAX:
        raise Invalid(f"the job document is longer than {POD_JOB_BYTES_MAX} bytes")
    return text


def _secret(reference: Mapping[str, str]) -> Document:
    named = {"name": reference["name"], "key": reference["key"], "optional": False}
    return {"secretKeyRef": named}


def _volumes(order: JobOrder) -> tuple[list[Document], list[Document]]:
    volumes: list[Document] = [{"name": "tmp", "emptyDir": {"sizeLimit": TEMPORARY_SIZE}}]
    mounts: list[Document] = [{"name": "tmp", "mountPath": "/tmp"}]
    for index, item in enumerate(order.inputs):
        name = f"input-{index}"
        source = {
            "name": item.config_map,
            "items": [{"key": item.name, "path": item.name}],
            "defaultMode": _EVERYONE_READS,
            "optional": False,
        }
        volumes.append({"name": name, "configMap": source})
        path = f"{JOB_DIRECTORY}/{item.name}"
        mounts.append({"name": name, "mountPath": path, "subPath": item.name, "readOnly": True})
    if order.tls_from:
        volumes.append({"name": "tls", **_tls(order.tls_from)})
        mounts.append({"name": "tls", "mountPath": TLS_DIRECTORY, "readOnly": True})
    return volumes, mounts


def _tls(reference: Mapping[str, str]) -> Document:
    if reference.get("secret"):
        named = {"secretName": reference["secret"], "defaultMode": _GROUP_READS}
        return {"secret": {**named, "optional": False}}
    named_map = {"name": reference["configMap"], "defaultMode": _EVERYONE_READS}
    return {"configMap": {**named_map, "optional": False}}


def differs(document: Document) -> str | None:
    """What of a stored Job is not what was built, for a person; None: nothing (step 7).

    The job document must hash to the intent that the claim pinned, and everything else to the
    digest that its builder left on it.
    """
    annotations = document["metadata"].get("annotations") or {}
    try:
        container = document["spec"]["template"]["spec"]["containers"][0]
        values = {item["name"]: item.get("value", "") for item in container["env"]}
        spec = jobspec.decode(values[jobspec.JOB].encode("utf-8"))
        found = shape_digest(document)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return "it does not have the form of an operation's Job"
    if jobspec.input_digest(jobspec.encode(spec)) != annotations.get(INTENT):
        return "its job document is not the claim's"
    if found != annotations.get(SHAPE):
        return "its spec or owner was changed on the way (by a mutating webhook or policy?)"
    return None


def shape_digest(document: Document) -> str:
    """Digest of a Job's owner and spec, the same before and after an API server stored it.

    :raises ValueError: it is no document of ours at all.
    """
    spec = dict(document["spec"])
    for name in ("selector", "ttlSecondsAfterFinished"):
        spec.pop(name, None)
    template = dict(spec["template"])
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    labels = metadata.get("labels") or {}
    metadata["labels"] = {key: labels[key] for key in labels if key not in GENERATED_LABELS}
    pod = dict(template["spec"])
    if pod.get("serviceAccount") == pod.get("serviceAccountName"):
        pod.pop("serviceAccount", None)
    spec["template"] = {**template, "metadata": metadata, "spec": pod}
    owners = document["metadata"].get("ownerReferences")
    form = _form({"owners": owners, "spec": spec}, "")
    return "sha256:" + hashlib.sha256(canonical.encode(["ptahk.dev/shape/v1", form])).hexdigest()


def _form(value: Any, key: str) -> Any:
    """A value without what an API server leaves out, and with one spelling of a quantity."""
    if isinstance(value, Mapping):
        inner = {name: _form(item, _within(key, name)) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in (None, "", {}, [])}
    if isinstance(value, list | tuple):
        return [_form(item, key) for item in value]
    if key == "quantity":
        return str(quantity(value))
    return value


def _within(key: str, name: str) -> str:
    """What a value is, from the names that lead to it."""
    if key == "resources" and name in ("limits", "requests"):
        return "amounts"
    if key == "amounts" or (key == "emptyDir" and name == "sizeLimit"):
        return "quantity"
    return name


_QUANTITY: Final = re.compile(
    r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][-+]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?"
)
_SUFFIXES: Final[Mapping[str, Fraction]] = {
    **{f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Fraction(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", 1)},
    "": Fraction(1),
}


def quantity(text: Any) -> Fraction:
    """The number that a Kubernetes quantity means. :raises ValueError: it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError("not a quantity")
    number, suffix = match[1], match[2] or ""
    if suffix in _SUFFIXES:
        return Fraction(number) * _SUFFIXES[suffix]
    return Fraction(number + suffix)
