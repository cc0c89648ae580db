"""One request to create an operation's Job or Pod: allowed only if a live claim asked for it.

Pure: ``request`` reads the API server's bytes, ``asked`` says what must be read live, ``verdict``
compares. Whatever is doubtful is denied, with a reason that a person can act on and that quotes no
value of the object: it may hold somebody's secret.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ptahk.engine.admission import final
from ptahk.engine.lifecycle.claimed import identity
from ptahk.engine.model import job as jobs
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import API_VERSION, SCHEMA
from ptahk.engine.model.status import parse
from ptahk.engine.ports import Document
from ptahk.wire import canonical, digest

NAME_PREFIX: Final = "ptahk-op-"
"""Reserved: operation Jobs and Pods are told by it (C-12.1)."""
RESOURCE_LABEL: Final = "ptahk.dev/resource-uid"
"""On every operation's Job and Pod: who carries it pretends to be one."""
WEBHOOK: Final = "operations.ptahk.dev"
"""Name of the webhook, as the API server's refusals quote it."""
MATCH: Final = (
    f"object.?metadata.?name.orValue('').startsWith('{NAME_PREFIX}')"
    " || object.?metadata.?ownerReferences.orValue([]).exists(o,"
    f" o.kind == 'Job' && o.name.startsWith('{NAME_PREFIX}'))"
    f" || '{RESOURCE_LABEL}' in object.?metadata.?labels.orValue({{}})"
)
"""The webhook's one match condition: what ``guarded`` says, in CEL."""
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""An API server takes no object above 3 MiB."""
TEXT_MAX: Final = 600

RESOURCES: Final = (SCHEMA, MIGRATION)
_REVIEW: Final = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
_KINDS: Final = {"Pod": ("v1", "", "pods"), "Job": ("batch/v1", "batch", "jobs")}
_POD_NAME: Final = re.compile(r"[a-z0-9]{5}")
_LIMIT_RANGER_TEXT: Final = re.compile(r"LimitRanger plugin set: [A-Za-z0-9 ,;./_-]{1,2000}")
_TRACKING: Final = "batch.kubernetes.io/job-tracking"
_JOB_METADATA: Final = frozenset({
    "name", "namespace", "uid", "creationTimestamp", "generation", "labels", "annotations",
    "ownerReferences", "managedFields",
})  # fmt: skip
_OWN: Final = "ptahk.dev/"
OPERATION: Final = "ptahk.dev/operation"
"""Annotation: family and operation, as ``schema/Apply``."""
_BUILT: Final = (OPERATION, "ptahk.dev/shape", jobs.PLAN_DIGEST)
"""Annotations of ours beside a claim's identity; ``differs`` and the shape bind their content."""


class Malformed(ValueError):
    """The bytes are no review that can be answered, not even with a denial."""


@dataclass(frozen=True, slots=True)
class Request:
    """One review of an API server: what counts of it."""

    uid: str
    kind: str
    """``Pod``, ``Job``, or another that is none of ours."""
    operation: str
    part: str
    """The subresource; empty: the object itself."""
    namespace: str
    name: str
    object: Any


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a request names as its owner."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """Exactly what was asked for, or nothing that is guarded."""

    guarded: bool = True


@dataclass(frozen=True, slots=True)
class Denied:
    """``code`` is one of a few, for metrics and for the proof that the guard works."""

    code: str
    message: str


NOT_ASKED: Final = "NotAsked"
"""No live claim asked for it."""
CHANGED: Final = "Changed"
"""It is not what the claim asked for."""
MALFORMED: Final = "Malformed"
"""The request has not the form that an API server sends."""
UNREADABLE: Final = "Unreadable"
"""What it must be compared with could not be read."""

Verdict = Allowed | Denied


def request(body: bytes) -> Request:
    """Read a review: strict JSON, so no key that stands twice and no NaN.

    :raises Malformed: it cannot be answered.
    """
    try:
        document = canonical.decode(body, bytes_max=BODY_BYTES_MAX)
    except canonical.CanonicalError as error:
        raise Malformed(str(error)) from None
    if not isinstance(document, dict) or {key: document.get(key) for key in _REVIEW} != _REVIEW:
        raise Malformed("no AdmissionReview of admission.k8s.io/v1")
    if _deep(document):
        raise Malformed(f"nested deeper than {canonical.DEPTH_MAX}")
    asked = document.get("request")
    if not isinstance(asked, dict) or not _text(asked.get("uid")):
        raise Malformed("an AdmissionReview without request.uid")
    texts = {key: asked.get(key, "") for key in ("operation", "subResource", "namespace", "name")}
    if not all(isinstance(value, str) for value in texts.values()):
        raise Malformed("an AdmissionReview whose request has fields of other types")
    return Request(
        uid=asked["uid"],
        kind=_kind(asked),
        operation=texts["operation"],
        part=texts["subResource"],
        namespace=texts["namespace"],
        name=texts["name"],
        object=asked.get("object"),
    )


def _deep(document: Any) -> bool:
    level = [document]
    for _ in range(canonical.DEPTH_MAX):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _kind(asked: Mapping[str, Any]) -> str:
    """Of Job and Pod the one that anything in the request points to."""
    found = set()
    resource, kind = asked.get("resource"), asked.get("kind")
    stored = asked.get("object")
    for name, (version, group, plural) in _KINDS.items():
        if isinstance(resource, dict) and resource.get("resource") == plural:
            found.add(name if resource.get("group", "") == group else "?")
        if isinstance(kind, dict) and kind.get("kind") == name:
            found.add(name if kind.get("group", "") == group else "?")
        if isinstance(stored, dict) and stored.get("kind") == name:
            found.add(name if stored.get("apiVersion") == version else "?")
    return found.pop() if len(found) == 1 else "?" if found else ""


def guarded(document: Any) -> bool:
    """Whether it pretends to be an operation's Job or Pod: by name, owner or label (C-12.1)."""
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return False
    metadata = document["metadata"]
    labels, owners = metadata.get("labels"), metadata.get("ownerReferences")
    names = [metadata.get("name"), metadata.get("generateName")]
    if isinstance(owners, list):
        names += [
            owner.get("name")
            for owner in owners
            if isinstance(owner, dict) and owner.get("kind") == "Job"
        ]
    if isinstance(labels, dict) and RESOURCE_LABEL in labels:
        return True
    return any(isinstance(name, str) and name.startswith(NAME_PREFIX) for name in names)


def asked(found: Request) -> Reference | Verdict:
    """The one owner that has to be read live; a verdict where nothing has to.

    A Pod's is its Job, a Job's is its resource.
    """
    if not guarded(found.object):
        return Allowed(guarded=False)
    if found.kind not in _KINDS or found.operation != "CREATE" or found.part:
        return Denied(
            MALFORMED,
            "this webhook judges the create of operation Jobs and Pods alone: its configuration "
            "was changed",
        )
    metadata = found.object["metadata"]
    if metadata.get("namespace") != found.namespace or not _text(found.namespace):
        return Denied(MALFORMED, "metadata.namespace is not the request's")
    if found.name not in ("", metadata.get("name")) or not _text(metadata.get("name")):
        return Denied(MALFORMED, "metadata.name is not the request's")
    wanted = ("Job",) if found.kind == "Pod" else RESOURCES
    owner = owner_of(found.object, wanted)
    if owner is None:
        text = "no Job owns it" if found.kind == "Pod" else "no resource of ptahk owns it"
        return Denied(NOT_ASKED, f"{text}: names and labels of this kind are ptahk's own")
    return owner


def owner_of(document: Mapping[str, Any], kinds: tuple[str, ...]) -> Reference | None:
    """The one owner, if it is a controller of one of these kinds."""
    owners = document["metadata"].get("ownerReferences")
    if not isinstance(owners, list) or len(owners) != 1 or not isinstance(owners[0], dict):
        return None
    owner = owners[0]
    version = "batch/v1" if kinds == ("Job",) else API_VERSION
    fits = owner.get("kind") in kinds and owner.get("apiVersion") == version
    named = _text(owner.get("name")) and _text(owner.get("uid"))
    if not fits or not named or owner.get("controller") is not True:
        return None
    return Reference(owner["kind"], owner["name"], owner["uid"])


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


Differs = Callable[[Document], str | None]
"""What of a Job is not what its builder made, for a person; None: nothing."""


def verdict(
    found: Request, job: Document | None, resource: Document | None, now: datetime, differs: Differs
) -> Verdict:
    """Judge a request with what was read live.

    :param job: the Pod's Job, or of a Job's request its object itself; None: there is none.
    :param resource: the Job's; None: there is none.
    """
    if job is None:
        return Denied(NOT_ASKED, "its Job does not exist")
    name = job["metadata"]["name"]
    if found.kind == "Pod":
        owner = owner_of(found.object, ("Job",))
        if owner is None or job["metadata"].get("uid") != owner.uid:
            return Denied(NOT_ASKED, f"Job {name} is another than the one that it names")
        if job["metadata"].get("deletionTimestamp") is not None:
            return Denied(NOT_ASKED, f"Job {name} is being deleted")
    claim = _claim(job, resource)
    if isinstance(claim, Denied):
        return claim
    late = _late(found, claim, now)
    if late is not None:
        return late
    try:
        fault = differs(job)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        fault = "it does not have the form of an operation's Job"
    if fault is not None:
        return Denied(CHANGED, f"Job {name} is not what its claim asked for: {fault}")
    told = _job(job, claim) if found.kind == "Job" else _pod(found.object, job, claim)
    if told:
        return Denied(CHANGED, f"it is not what its claim asked for: {told}"[:TEXT_MAX])
    return Allowed()


def _claim(job: Document, resource: Document | None) -> Claim | Denied:
    """The live claim that asked for this Job, undecided and dispatched."""
    name = job["metadata"]["name"]
    owner = owner_of(job, RESOURCES)
    if owner is None:
        return Denied(NOT_ASKED, f"no resource of ptahk owns Job {name}")
    where = f"{owner.kind} {owner.name}"
    if resource is None or resource["metadata"]["uid"] != owner.uid:
        return Denied(NOT_ASKED, f"{where}, which Job {name} names, does not exist")
    try:
        claim = parse(resource.get("status"), owner.uid).active_operation
    except FieldError as error:
        return Denied(UNREADABLE, f"the status of {where} cannot be read: {error}"[:TEXT_MAX])
    if claim is None or claim.job_name != name:
        return Denied(NOT_ASKED, f"{where} has no active operation with a Job {name}")
    if not claim.dispatch_started or claim.snapshot is None:
        return Denied(NOT_ASKED, f"the operation of Job {name} is not dispatched")
    if claim.outcome is not None:
        return Denied(NOT_ASKED, f"the operation of Job {name} is decided")
    given = job["metadata"].get("annotations")
    given = given if isinstance(given, dict) else {}
    family = "schema" if owner.kind == SCHEMA else "migration"
    wanted = {**identity(claim), OPERATION: f"{family}/{claim.type}"}
    for key, value in wanted.items():
        if given.get(key) != value:
            return Denied(NOT_ASKED, f"Job {name} is of another claim ({key})")
    if digest.admission_snapshot_digest(dict(claim.snapshot)) != claim.snapshot_digest:
        return Denied(UNREADABLE, f"the admission snapshot of {where} is damaged")
    return claim


def _late(found: Request, claim: Claim, now: datetime) -> Denied | None:
    """Whether the claim's time is over, or it has what it asked for."""
    name = claim.job_name
    if found.kind == "Job":
        assert claim.dispatch_not_after is not None, "goes with the dispatch mark"
        if now > claim.dispatch_not_after:
            return Denied(NOT_ASKED, f"Job {name} comes too late: its dispatch time is over")
        if claim.job_uid is not None:
            return Denied(NOT_ASKED, f"the operation of Job {name} has its Job already")
        return None
    assert claim.execution_not_after is not None, "goes with the dispatch mark"
    if now > claim.execution_not_after:
        return Denied(NOT_ASKED, f"a Pod of Job {name} comes too late: its time is over")
    owner = owner_of(found.object, ("Job",))
    if owner is not None and claim.job_uid not in (None, owner.uid):
        return Denied(NOT_ASKED, f"the operation of Job {name} has another Job of that name")
    if claim.pods.count:
        return Denied(NOT_ASKED, f"the operation of Job {name} has its one Pod already")
    return None


def _job(job: Document, claim: Claim) -> str:
    """What of a Job to be created its builder did not make, beyond what ``differs`` sees."""
    metadata, spec = job["metadata"], job["spec"]
    found = [f"metadata.{key} was added" for key in sorted({*metadata} - _JOB_METADATA)]
    found += [f"{key} was added" for key in sorted({*job} - _TOP)]
    if (job.get("apiVersion"), job.get("kind")) != ("batch/v1", "Job"):
        found.append("kind was changed")
    found += [
        f"metadata.annotations.{key} was added"
        for key in sorted(metadata["annotations"])
        if key.startswith(_OWN) and key not in identity(claim) and key not in _BUILT
    ]
    uid, name = metadata.get("uid"), metadata["name"]
    labels = {"batch.kubernetes.io/controller-uid": uid}
    found += final.differences({"matchLabels": labels}, spec.get("selector"), "spec.selector")
    # The shape knows nothing of what the API server writes itself.
    labels |= {"controller-uid": uid, "job-name": name, "batch.kubernetes.io/job-name": name}
    given = spec["template"]["metadata"]["labels"]
    written = {key: given[key] for key in labels if key in given}
    found += final.differences(labels, written, "spec.template.metadata.labels")
    if "ttlSecondsAfterFinished" in spec:
        found.append("spec.ttlSecondsAfterFinished was added")
    return final.told(found)


_TOP: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def _pod(pod: Document, job: Document, claim: Claim) -> str:
    """Every difference of a Pod from what the API server makes of the Job's template."""
    assert claim.snapshot is not None, "a dispatched claim has one"
    try:
        template = job["spec"]["template"]
        metadata = _metadata(template, job, claim.snapshot)
        spec = final.spec(template, claim.snapshot)
        status = {"phase": "Pending", "qosClass": final.quality(spec)}
    except (final.Unforeseen, KeyError, TypeError, AttributeError) as error:
        return f"its final form cannot be foretold ({type(error).__name__})"
    wanted = {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip
    found = dict(pod)
    faults, found["metadata"] = _stamps(pod["metadata"], job["metadata"]["name"])
    if len(claim.snapshot["limitRanges"]) > 1:
        # The one that the API server meets last writes the text.
        faults += _limit_ranger(metadata["annotations"], found["metadata"])
    found.setdefault("status", status)
    return final.told([*faults, *final.differences(wanted, found)])


def _metadata(
    template: Mapping[str, Any], job: Document, snapshot: Mapping[str, Any]
) -> dict[str, Any]:
    given = template.get("metadata") or {}
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {
        "namespace": job["metadata"]["namespace"],
        "labels": given["labels"],
        "annotations": final.annotations(template, snapshot),
        "ownerReferences": [owner],
        "finalizers": [*(given.get("finalizers") or []), _TRACKING],
    }


def _stamps(metadata: Mapping[str, Any], job: str) -> tuple[list[str], dict[str, Any]]:
    """Take off what the API server writes into every object; faults of it, and the rest."""
    rest = dict(metadata)
    name, stem = rest.pop("name", None), f"{job[:57]}-"
    faults = []
    tail = name.removeprefix(stem) if isinstance(name, str) and name.startswith(stem) else ""
    if not _POD_NAME.fullmatch(tail):
        faults.append("metadata.name is not one that the Job controller gives")
    if rest.pop("generateName", None) != stem:
        faults.append("metadata.generateName is not the Job's name")
    if not _text(rest.pop("uid", None)):
        faults.append("metadata.uid is missing")
    if type(generation := rest.pop("generation", 1)) is not int or generation != 1:
        faults.append("metadata.generation was changed")
    if not isinstance(rest.pop("creationTimestamp", ""), str):
        faults.append("metadata.creationTimestamp was changed")
    if not isinstance(rest.pop("managedFields", []), list):
        faults.append("metadata.managedFields was changed")
    return faults, rest


def _limit_ranger(wanted: dict[str, str], found: dict[str, Any]) -> list[str]:
    """With several LimitRanges: that there is a text of theirs, and not which."""
    annotations = found.get("annotations")
    if not isinstance(annotations, dict) or final.LIMIT_RANGER not in wanted:
        return []
    found["annotations"] = dict(annotations)
    text = found["annotations"].pop(final.LIMIT_RANGER, None)
    del wanted[final.LIMIT_RANGER]
    if isinstance(text, str) and _LIMIT_RANGER_TEXT.fullmatch(text):
        return []
    return [f"metadata.annotations.{final.LIMIT_RANGER} was changed"]


def answer(uid: str, found: Verdict) -> Document:
    """The AdmissionReview to send back."""
    response: Document = {"uid": uid, "allowed": isinstance(found, Allowed)}
    if isinstance(found, Denied):
        response["status"] = {"code": 403, "message": f"{found.code}: {found.message}"}
    return {**_REVIEW, "response": response}
