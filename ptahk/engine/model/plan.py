"""PtahPlan, PtahApproval and source bundles: what they look like as documents.

PtahPlan (immutable evidence of one plan; its bytes are in an immutable ConfigMap of its name)::

    metadata: {namespace, name: ptahk-plan-<32 hex of the fingerprint>,
               labels: {ptahk.dev/resource-uid: UID}, ownerReferences: [resource]}
    spec: {resource: {kind, name, uid}, fingerprint, binding: {…C-7.2…}, digest, summary,
           serverIdentity, engine, operationId, time, source: {configMap, digest},
           statements, destructive, privileges}

    ConfigMap ptahk-plan-<32 hex>: binaryData {plan.json.gz}, immutable: true
    ConfigMap ptahk-source-<32 hex of the source digest>: binaryData {source.json.gz}, immutable

PtahApproval (immutable, by a person): an approval is looked up among the PtahApprovals of the
resource's namespace that carry the label; it binds by resource uid, plan uid and fingerprint::

    metadata: {namespace, name, labels: {ptahk.dev/resource-uid: UID}}
    spec: {resource: {kind, name, uid}, plan: {name, uid}, fingerprint,
           approver: {username, uid?, groups?}}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from ptahk.engine.model.bounds import Digest, ObjectName, Uid
from ptahk.engine.model.fields import FieldError, Matches, read, write
from ptahk.engine.model.limits import MaxLen, MinLen
from ptahk.engine.model.resource import API_VERSION, APPROVAL, CONFIG_MAP, PLAN, RESOURCE_UID
from ptahk.wire import digest

PLANS_KEPT = 10
PLAN_RAW_BYTES_MAX = 8 * 1024 * 1024
PLAN_STORED_BYTES_MAX = 900 * 1024


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """Which resource, by uid; the name is for people."""

    kind: Annotated[str, MaxLen(63), Matches("[A-Z][A-Za-z]*", "must be a kind")]
    """PtahSchema or PtahMigration."""
    name: ObjectName
    """Its name."""
    uid: Uid
    """Its uid, which is what counts."""


@dataclass(frozen=True, slots=True)
class SourceRef:
    """An immutable bundle in a ConfigMap."""

    config_map: ObjectName
    """Name of the ConfigMap."""
    digest: Digest
    """Digest of the declaration in it."""


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """What was planned, and for what."""

    resource: ResourceRef
    """Whose plan it is."""
    fingerprint: Digest
    """Digest of everything that the plan binds: what a person approves."""
    digest: Digest
    """Of the plan bytes, which are in the ConfigMap of the plan's name."""
    binding: Mapping[str, Any]
    """What the fingerprint binds (C-7.2), so that anyone can hash it again."""
    summary: Mapping[str, Any]
    """The executor's own summary of the plan; bound by nothing."""
    engine: str
    """Engine of the database."""
    server_identity: str
    """Server and database that it was made against."""
    source: SourceRef
    """The declaration that it leads to."""
    statements: int
    """How many statements it has; 0: nothing is left to change."""
    destructive: bool
    """It loses data."""
    privileges: bool
    """It changes who may do what."""
    operation_id: str
    """The operation that made it."""
    time: datetime
    """When it was made."""

    def __post_init__(self) -> None:
        if not digest.is_digest(self.fingerprint) or not digest.is_digest(self.digest):
            raise FieldError(".spec", "fingerprint and digest are digests")
        wanted = _BOUND | (_SEQUENCE if "sequenceDigest" in self.binding else _STATES)
        if wanted - self.binding.keys() or self.binding["planDigest"] != self.digest:
            raise FieldError(".spec.binding", "does not bind this plan")

    def bound(self, key: str) -> str:
        """One input of the fingerprint, as text."""
        return str(self.binding[key])


_BOUND = frozenset(
    {
        "resourceUID", "planDigest", "sourceDigest", "coordinationDigest",
        "targetIdentityDigest", "policy", "executorVersion", "protocolVersion",
    }
)  # fmt: skip
_STATES = frozenset({"observedState", "desiredState"})
_SEQUENCE = frozenset({"sequenceDigest", "historyFingerprint", "action", "approval", "change"})


@dataclass(frozen=True, slots=True)
class Plan:
    """A stored PtahPlan."""

    name: str
    uid: str
    created: str
    spec: PlanSpec


@dataclass(frozen=True, slots=True)
class PlanRef:
    """A plan by name and uid."""

    name: ObjectName
    """Its name."""
    uid: Uid
    """Its uid, which is what counts."""


@dataclass(frozen=True, slots=True)
class Approver:
    """Who approved; stamped by admission on a cluster (C-12.3)."""

    username: Annotated[str, MinLen(1), MaxLen(1024)]
    """The user, as the cluster knows them."""
    uid: Annotated[str, MaxLen(1024)] = ""
    """The user's uid, where the cluster has one."""
    groups: Annotated[tuple[Annotated[str, MaxLen(1024)], ...], MaxLen(1000)] = ()
    """The user's groups."""


@dataclass(frozen=True, slots=True)
class ApprovalSpec:
    """Exactly one plan, by uid and fingerprint, and who approved it."""

    resource: ResourceRef
    """Whose plan it is."""
    plan: PlanRef
    """The plan."""
    fingerprint: Digest
    """The plan's fingerprint."""
    approver: Approver
    """Who approved."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A stored PtahApproval."""

    name: str
    uid: str
    created: str
    spec: ApprovalSpec


def plan_name(fingerprint: str) -> str:
    """Name of the PtahPlan and of the ConfigMap with its bytes."""
    return f"ptahk-plan-{fingerprint.removeprefix('sha256:')[:32]}"


def source_name(source_digest: str) -> str:
    """Name of the ConfigMap with a source bundle."""
    return f"ptahk-source-{source_digest.removeprefix('sha256:')[:32]}"


def parse_plan(document: dict[str, Any]) -> Plan:
    """A stored PtahPlan. :raises FieldError: it is not one."""
    metadata = document["metadata"]
    spec = read(PlanSpec, document.get("spec"), ".spec")
    created = str(metadata.get("creationTimestamp", ""))
    return Plan(metadata["name"], metadata["uid"], created, spec)


def parse_approval(document: dict[str, Any]) -> Approval:
    """A stored PtahApproval. :raises FieldError: it is not one."""
    metadata = document["metadata"]
    spec = read(ApprovalSpec, document.get("spec"), ".spec")
    created = str(metadata.get("creationTimestamp", ""))
    return Approval(metadata["name"], metadata["uid"], created, spec)


def plan_document(namespace: str, spec: PlanSpec, owner: dict[str, Any]) -> dict[str, Any]:
    """The PtahPlan to create."""
    return {
        "apiVersion": API_VERSION,
        "kind": PLAN,
        "metadata": _metadata(namespace, plan_name(spec.fingerprint), owner),
        "spec": write(spec),
    }


def approval_document(namespace: str, name: str, plan: Plan, approver: Approver) -> dict[str, Any]:
    """The PtahApproval that a person's command creates for exactly this plan.

    :param name: any fresh name; an approval is used once.
    """
    spec = ApprovalSpec(
        plan.spec.resource, PlanRef(plan.name, plan.uid), plan.spec.fingerprint, approver
    )
    return {
        "apiVersion": API_VERSION,
        "kind": APPROVAL,
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {RESOURCE_UID: plan.spec.resource.uid},
        },
        "spec": write(spec),
    }


def bundle_document(
    namespace: str, name: str, key: str, data: str, owner: dict[str, Any]
) -> dict[str, Any]:
    """An immutable ConfigMap with one file.

    :param key: ``source.json.gz`` or ``plan.json.gz``.
    :param data: base64 text.
    """
    return {
        "apiVersion": "v1",
        "kind": CONFIG_MAP,
        "metadata": _metadata(namespace, name, owner),
        "immutable": True,
        "binaryData": {key: data},
    }


def _metadata(namespace: str, name: str, owner: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "name": name,
        "labels": {RESOURCE_UID: owner["uid"]},
        "ownerReferences": [owner],
    }
