"""Whether the admission guard is in force (C-12.4): tried, never assumed.

Objects that no claim asked for are sent with ``dryRun=All``, so nothing is ever stored: a Job and a
Pod that look like an operation's. The webhook must refuse both, and with its own words: a refusal
by another rule, or a webhook that cannot judge, proves nothing. A Job that the manager's identity
may not make must be refused by a policy's words, and every policy must be there as this version has
it (``inforce``). A Pod which pretends to nothing shows what the API server itself adds to one.
"""

import threading
from collections.abc import Mapping
from typing import Any, Final

from ptahk.backends.kube import pod
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.inforce import KubePolicies
from ptahk.backends.kube.kinds import KINDS
from ptahk.backends.kube.pod import PodSettings
from ptahk.backends.kube.surroundings import KubeSurroundings
from ptahk.engine.admission import final, review
from ptahk.engine.model import job as jobs
from ptahk.engine.model.resource import API_VERSION, SCHEMA
from ptahk.engine.ports import (
    Clock,
    Document,
    Forbidden,
    Invalid,
    JobOrder,
    PortError,
    Refusal,
)
from ptahk.wire import jobspec

REMEMBERED_S: Final = 2.0
"""How long an answer holds: a dispatch follows it within one pass."""
BUILT_IN_S: Final = 300.0
"""How long the finding holds that the API server does what was declared."""
TIMEOUT_S: Final = 8.0
"""One try; the webhook itself has five seconds."""
WEBHOOK_S: Final = 5
TEXT_MAX: Final = 400

_NOBODY: Final = "00000000-0000-0000-0000-000000000000"
_ZEROS: Final = "0" * 32
_DIGEST: Final = f"sha256:{_ZEROS}{_ZEROS}"
_NAME: Final = f"{review.NAME_PREFIX}probe-{_ZEROS}"
_PLAIN: Final = "ptahk-probe"
_THEN: Final = "2000-01-01T00:00:00Z"
_DRY: Final = {"dryRun": "All", "fieldManager": "ptahk", "fieldValidation": "Strict"}
_DENIAL: Final = f'admission webhook "{review.WEBHOOK}" denied the request: {review.NOT_ASKED}:'
_POLICY: Final = "ValidatingAdmissionPolicy 'ptahk-job-create'"
"""As the API server quotes it before the words of its rule."""
_BUILT_IN: Final = (
    "tolerations", "nodeSelector", "priority", "priorityClassName", "preemptionPolicy", "overhead",
    "imagePullSecrets", "serviceAccountName", "enableServiceLinks",
)  # fmt: skip
"""Fields that only built-in admission is declared for; a mesh's sidecar is no matter here."""


def configuration(client: Mapping[str, Any], name: str = "ptahk") -> Document:
    """The webhook's configuration: one condition, no selector, closed on failure (C-12.1).

    :param client: ``clientConfig``: a service or a URL, and the CA.
    """
    rules = [("", "v1", "pods"), ("batch", "v1", "jobs")]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": review.WEBHOOK,
                "clientConfig": dict(client),
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "operations": ["CREATE"],
                        "resources": [plural],
                        "scope": "Namespaced",
                    }
                    for group, version, plural in rules
                ],
                "matchConditions": [{"name": "operation", "expression": review.MATCH}],
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "sideEffects": "None",
                "timeoutSeconds": WEBHOOK_S,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


class KubeAdmission:
    """The Admission port over one cluster. Threads may ask at once; one of them tries.

    :param namespace: where it is tried: the release's own, where the manager may create Pods.
    """

    def __init__(
        self, client: Client, namespace: str, settings: PodSettings,
        surroundings: KubeSurroundings, clock: Clock,
    ) -> None:  # fmt: skip
        self._client = client
        self._namespace = namespace
        self._surroundings = surroundings
        self._clock = clock
        self._policies = KubePolicies(client, namespace, TIMEOUT_S)
        self._job = probe(namespace, settings)
        self._trying = threading.Lock()
        self._answer: tuple[float, str | None] | None = None
        self._built_in_s: float | None = None

    def missing(self) -> str | None:
        """Why the guard is not in force; None: it was, a moment ago."""
        with self._trying:
            now_s = self._clock.monotonic()
            if self._answer is None or now_s - self._answer[0] >= REMEMBERED_S:
                found = self._try()
                self._answer = (self._clock.monotonic(), found)
            return self._answer[1]

    def _try(self) -> str | None:
        return (
            self._admitted("Job", self._job)
            or self._admitted("Pod", _owned(self._job))
            or self._unruled()
            or self._otherwise()
        )

    def _admitted(self, kind: str, document: Document) -> str | None:
        """What speaks against the webhook, from the way that it treats this."""
        path = KINDS[kind].path(self._namespace)
        try:
            self._client.request("POST", path, query=_DRY, body=document, timeout_s=TIMEOUT_S)
        except Forbidden as error:
            if _DENIAL in str(error):
                return None
            return f"the webhook did not refuse a {kind} that no claim asked for: {_cut(error)}"
        except PortError as error:
            return f"the webhook cannot be tried with a {kind}: {_cut(error)}"
        return f"a {kind} that no claim asked for is admitted: the webhook is not in force"

    def _unruled(self) -> str | None:
        """What speaks against the policies: the webhook never sees the Job that is sent."""
        path = KINDS["Job"].path(self._namespace)
        try:
            self._client.request(
                "POST", path, query=_DRY, body=_foreign(self._job), timeout_s=TIMEOUT_S
            )
        except (Forbidden, Invalid) as error:
            if _POLICY not in str(error):
                return f"no policy refused a Job that the manager may not make: {_cut(error)}"
        except PortError as error:
            return f"the policies cannot be tried with a Job: {_cut(error)}"
        else:
            return "a Job that the manager may not make is admitted: the policies are not in force"
        try:
            return self._policies.missing()
        except PortError as error:
            return f"the policies cannot be read: {_cut(error)}"

    def _otherwise(self) -> str | None:
        """What the API server itself does to a Pod otherwise than declared; looked at rarely."""
        now_s = self._clock.monotonic()
        if self._built_in_s is not None and now_s - self._built_in_s < BUILT_IN_S:
            return None
        self._built_in_s = None
        try:
            snapshot = self._surroundings.snapshot(self._namespace, {})
            if isinstance(snapshot, Refusal):
                return f"namespace {self._namespace}: {snapshot.message}"
            sent = _plain(self._job)
            path = KINDS["Pod"].path(self._namespace)
            answer = self._client.request("POST", path, query=_DRY, body=sent, timeout_s=TIMEOUT_S)
            told = undeclared(sent, snapshot, answer.document())
        except PortError as error:
            return f"what the API server adds to a Pod cannot be tried: {_cut(error)}"
        if told:
            return f"the API server changes Pods otherwise than was declared: {told}"
        self._built_in_s = now_s
        return None


def undeclared(sent: Document, snapshot: Mapping[str, Any], made: Document) -> str:
    """Differences of a Pod as made from what the declared admission makes of it, by path."""
    try:
        wanted = final.spec({"spec": sent["spec"]}, snapshot)
        found = made["spec"]
        (container,) = (
            item for item in found["containers"] if item["name"] == wanted["containers"][0]["name"]
        )
    except (final.Unforeseen, KeyError, TypeError, ValueError) as error:
        return f"it cannot be read ({type(error).__name__})"
    seen = {key: found[key] for key in _BUILT_IN if key in found}
    due = {key: wanted[key] for key in _BUILT_IN if key in wanted}
    differing = list(final.differences(due, seen, "spec"))
    for key in ("imagePullPolicy", "resources"):
        differing += final.differences(
            wanted["containers"][0].get(key), container.get(key), f"spec.containers[0].{key}"
        )
    return final.told(differing)


def probe(namespace: str, settings: PodSettings) -> Document:
    """A Job that is whole in every way, but that no claim asked for."""
    spec = jobspec.JobSpec(
        operation="Observe",
        family="schema",
        engine="postgresql",
        operation_id=_ZEROS,
        attempt=1,
        job_name=_NAME,
        holder=_DIGEST,
        store_uid=_NOBODY,
        store_kind="cluster",
        resource_uid=_NOBODY,
        coordination_digest=_DIGEST,
        dispatch_not_after=_THEN,
        execution_not_after=_THEN,
        active_deadline_seconds=30,
        termination_grace_period_seconds=30,
    )
    named = (jobs.OPERATION_ID, jobs.EPOCH, jobs.NONCE, jobs.INTENT, jobs.SNAPSHOT)
    order = JobOrder(
        namespace=namespace,
        name=_NAME,
        owner={"apiVersion": API_VERSION, "kind": SCHEMA, "name": _PLAIN, "uid": _NOBODY},
        annotations=dict.fromkeys(named, _ZEROS),
        spec=spec,
        inputs=(),
        surroundings={},
        url_from={"name": _PLAIN, "key": _PLAIN},
    )
    return pod.job(order, settings)


def _owned(job: Document) -> Document:
    """A Pod that says that it is this Job's."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": _NOBODY,
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata = {**template["metadata"], "name": f"{name}-probe", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _foreign(job: Document) -> Document:
    """A Job of another name, without what the webhook goes by; only its name is wrong."""
    labels = {
        key: value for key, value in job["metadata"]["labels"].items()
        if key != review.RESOURCE_LABEL
    }  # fmt: skip
    return {**job, "metadata": {**job["metadata"], "name": _PLAIN, "labels": labels}}


def _plain(job: Document) -> Document:
    """A Pod of the same form that pretends to nothing."""
    spec = dict(job["spec"]["template"]["spec"])
    spec["containers"] = [{"resources": {}, **container} for container in spec["containers"]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _PLAIN}, "spec": spec}


def _cut(error: PortError) -> str:
    return str(error)[:TEXT_MAX]
