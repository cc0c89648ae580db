"""PtahSchema's spec (C-2.1), the names of our documents, and the request on a resource.

A resource document is ``{apiVersion: ptahk.dev/v1alpha1, kind: PtahSchema, metadata, spec,
status}``. A person writes ``spec`` and the annotations below; the engine owns ``status``
(``engine.model.status``) and the finalizer.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ptahk.engine.model.fields import FieldError, read
from ptahk.errors import UsageError
from ptahk.wire import digest
from ptahk.wire.digest import CoordinationDigest

API_VERSION = "ptahk.dev/v1alpha1"
SCHEMA = "PtahSchema"
PLAN = "PtahPlan"
APPROVAL = "PtahApproval"
LEASE = "Lease"
CONFIG_MAP = "ConfigMap"

FINALIZER = "ptahk.dev/finalizer"
REQUEST = "ptahk.dev/request"
"""Annotation: a Request as JSON. One at a time; a new id replaces the one before."""
ACKNOWLEDGE = "ptahk.dev/acknowledge"
"""Annotation: an Acknowledge as JSON."""
RESOURCE_UID = "ptahk.dev/resource-uid"
"""Label of plans, approvals and bundles: for finding them, never for identity."""

SOURCE_KEY = "source.json.gz"
"""``binaryData`` key of a source bundle: gzip of ``{"files": [{"name", "text"}]}``."""
PLAN_KEY = "plan.json.gz"
"""``binaryData`` key of a plan's bytes: gzip of C-7.3's canonical JSON."""

INLINE_BYTES_MAX = 200 * 1024
IMPLICIT_KEY = "local:"
"""A coordination key with this prefix names no realm to the ledger's binding row (C-14.5)."""

ApplyPolicy = Literal["Never", "OnApproval", "Always"]
Choice = Literal["Declared", "Managed"]

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_HEX32 = re.compile(r"[0-9a-f]{32}")


def parse_duration(text: Any) -> float:
    """Seconds of ``10m``, ``1h30m``, ``3s``, ``500ms`` or ``0``. :raises FieldError: else."""
    if text == "0" or (type(text) is int and text == 0):
        return 0.0
    match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        raise FieldError("", "must be a duration as 3s, 10m or 1h30m")
    hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def _duration(seconds: float) -> float:
    return field(default=seconds, metadata={"read": parse_duration})


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One key of a Secret, by name; its value is never read here (C-8.2)."""

    name: str
    key: str = "url"


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """A ConfigMap. Without ``key``: its bundle, or all its ``*.sql`` keys by name."""

    name: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class OciReference:
    """An artifact in a registry, by digest."""

    reference: str


@dataclass(frozen=True, slots=True)
class TlsFrom:
    """A Secret or ConfigMap mounted read-only at ``/etc/ptahk/tls``."""

    secret: str | None = None
    config_map: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Which database."""

    engine: str
    coordination_key: str
    shared_realm: bool = False
    url_from: SecretKey | None = None
    """None only locally, where the URL never leaves the command's memory."""
    tls_from: TlsFrom | None = None
    coordination_digest: CoordinationDigest = field(init=False, repr=False, compare=False)
    """Names the realm (C-6.1); computed once."""

    def __post_init__(self) -> None:
        try:
            realm = digest.coordination_digest(self.engine, self.coordination_key)
            object.__setattr__(self, "coordination_digest", realm)
        except UsageError as error:
            raise FieldError("", error.message) from None

    @property
    def explicit_key(self) -> bool:
        """The key was given, so the ledger's binding row counts (C-6.15)."""
        return not self.coordination_key.startswith(IMPLICIT_KEY)


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename that a person declared (C-10.7)."""

    old: str = field(metadata={"key": "from"})
    new: str = field(metadata={"key": "to"})


@dataclass(frozen=True, slots=True)
class Policy:
    """``spec.policy`` of a PtahSchema."""

    apply: ApplyPolicy = "OnApproval"
    lock_timeout: float = _duration(3.0)
    """Seconds one statement waits for a relation lock."""
    coordination_timeout: float = _duration(60.0)
    """Seconds an operation waits for the database's advisory lock."""
    transaction_mode: Literal["auto", "none"] = "auto"
    allow_destructive: bool = False
    schemas: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    protected_tables: tuple[str, ...] = ()
    privileges: Choice = "Declared"
    partitions: Choice = "Declared"
    renames: tuple[Rename, ...] = ()
    drift_severity: Literal["safe", "warning", "privilege", "destructive"] = "safe"
    """Drift below it does not count against Ready."""


@dataclass(frozen=True, slots=True)
class Desired:
    """Exactly one source of the declaration."""

    inline: str | None = None
    config_map_ref: ConfigMapKey | None = None
    oci_ref: OciReference | None = None

    def __post_init__(self) -> None:
        given = (self.inline, self.config_map_ref, self.oci_ref)
        if sum(item is not None for item in given) != 1:
            raise FieldError("", "must have exactly one of inline, configMapRef and ociRef")
        if self.inline is not None and len(self.inline.encode()) > INLINE_BYTES_MAX:
            raise FieldError(".inline", f"must be at most {INLINE_BYTES_MAX} bytes")


@dataclass(frozen=True, slots=True)
class Dev:
    """Where a scratch database may be made."""

    url_from: SecretKey | None = None
    template: str | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """How Jobs run. What only a cluster reads is kept as written."""

    active_deadline_seconds: int | None = None
    """30..86400; None: 900, and C-10.8's refusal of long work applies."""
    failure_retry_interval: float = _duration(60.0)
    connect_timeout: float = _duration(10.0)
    service_account_name: str | None = None
    resources: Mapping[str, Any] | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: tuple[Any, ...] | None = None
    affinity: Mapping[str, Any] | None = None
    runtime_class_name: str | None = None
    priority_class_name: str | None = None
    image_pull_secrets: tuple[Any, ...] | None = None
    pod_metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.active_deadline_seconds is not None and not (
            30 <= self.active_deadline_seconds <= 86400
        ):
            raise FieldError(".activeDeadlineSeconds", "must be between 30 and 86400")

    @property
    def deadline_s(self) -> int:
        """Seconds an operation may run."""
        return 900 if self.active_deadline_seconds is None else self.active_deadline_seconds


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """``spec`` of a PtahSchema."""

    target: Target
    desired: Desired | None = None
    """None: nothing declared; only ``observe`` with a declaration works."""
    policy: Policy = field(default_factory=Policy)
    interval: float = _duration(600.0)
    """Seconds between observations; 0: none."""
    suspend: bool = False
    execution: Execution = field(default_factory=Execution)
    dev: Dev = field(default_factory=Dev)

    @property
    def apply_policy(self) -> ApplyPolicy:
        return self.policy.apply

    @property
    def coordination_timeout_s(self) -> float:
        return self.policy.coordination_timeout


RequestType = Literal["observe", "plan", "apply", "rebind"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asks of a resource: annotation ``ptahk.dev/request``.

    ``plan`` and ``observe`` run that operation anew. ``apply`` applies the published plan whose
    fingerprint is ``plan``, where an approval binds it or policy is ``Always``. ``rebind`` accepts
    the spec's coordination digest for this database (C-6.15); the request is its approval
    (C-11.17). The answer is
    ``status.request`` with the same ``id`` and ``state: Done``.
    """

    id: str
    """32 hex digits, fresh for each request."""
    type: RequestType
    plan: str | None = None
    """Fingerprint; ``apply`` only."""
    declaration: bool = False
    """``observe`` only: also return the live schema as SQL."""

    def __post_init__(self) -> None:
        if not _HEX32.fullmatch(self.id):
            raise FieldError(".id", "must be 32 hex digits")
        if (self.plan is not None) != (self.type == "apply"):
            raise FieldError(".plan", "goes with apply, and with nothing else")
        if self.plan is not None and not digest.is_digest(self.plan):
            raise FieldError(".plan", "must be a plan's fingerprint")


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A person's word: annotation ``ptahk.dev/acknowledge``."""

    reason: str
    frozen: int | None = None
    """Thaw the realm that was frozen over this ledger number (C-6.14)."""
    user: str = ""


def parse_spec(document: Any) -> SchemaSpec:
    """``spec`` of a PtahSchema document. :raises FieldError: path and rule."""
    return read(SchemaSpec, document, ".spec")


def parse_annotation(cls: type[Any], text: str, name: str) -> Any:
    """A Request or an Acknowledge from an annotation's text. :raises FieldError: path and rule."""
    if len(text) > 4096:
        raise FieldError(name, "must be at most 4096 characters")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise FieldError(name, "must be JSON") from None
    return read(cls, value, name)


def request_text(request: Request) -> str:
    """The annotation's text."""
    value: dict[str, Any] = {"id": request.id, "type": request.type}
    if request.plan is not None:
        value["plan"] = request.plan
    if request.declaration:
        value["declaration"] = True
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
