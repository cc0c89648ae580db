"""PtahSchema's spec (C-2.1), the names of our documents, and the request on a resource.

A resource document is ``{apiVersion: ptahk.dev/v1alpha1, kind: PtahSchema, metadata, spec,
status}``. A person writes ``spec`` and the annotations below; the engine owns ``status``
(``engine.model.status``) and the finalizer.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ptahk.engine.model.bounds import DataKey, Identifier, ObjectName
from ptahk.engine.model.execution import Execution
from ptahk.engine.model.fields import Duration, FieldError, Reads, read
from ptahk.engine.model.limits import MaxLen, MinLen
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
ACKNOWLEDGED_BY = "ptahk.dev/acknowledged-by"
"""Annotation: who wrote that word, as JSON; on a cluster the API server sees to it (C-12.3)."""
CHANGED_BY = "ptahk.dev/changed-by"
"""Annotation: the user who changed the spec last; written by the cluster alone."""
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

_HEX32 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One key of a Secret, by name; its value is never read here (C-8.2)."""

    name: ObjectName
    """Name of the Secret, in the resource's namespace."""
    key: DataKey = "url"
    """Key of the Secret whose value is the database URL."""


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """A ConfigMap of the resource's namespace. Without ``key``: all its ``*.sql`` keys by name."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: DataKey | None = None
    """Only this key."""


@dataclass(frozen=True, slots=True)
class OciReference:
    """An artifact in a registry, by digest."""

    reference: Annotated[str, MinLen(1), MaxLen(512)]
    """Registry, repository and digest."""


@dataclass(frozen=True, slots=True)
class TlsFrom:
    """A Secret or ConfigMap mounted read-only at ``/etc/ptahk/tls``."""

    secret: ObjectName | None = None
    """Name of the Secret."""
    config_map: ObjectName | None = None
    """Name of the ConfigMap."""

    def __post_init__(self) -> None:
        if (self.secret is None) == (self.config_map is None):
            raise FieldError("", "must have exactly one of secret and configMap")


@dataclass(frozen=True, slots=True)
class Target:
    """Which database."""

    engine: Annotated[str, MaxLen(16)]
    """postgresql (postgres is the same), mysql or mariadb."""
    coordination_key: Annotated[str, MinLen(1), MaxLen(1024)]
    """Names the physical database: the same text in every resource that works on it, whatever
    route or role reaches it. Two resources with one key are refused unless both share it."""
    shared_realm: bool = False
    """Takes turns with the other resources of this coordination key; all must declare it."""
    url_from: SecretKey | None = None
    """Where the operation's Pod has its database URL from. Without it nothing runs yet."""
    tls_from: TlsFrom | None = None
    """CA and client certificates, at the paths that the URL names."""
    coordination_digest: CoordinationDigest = field(init=False, repr=False, compare=False)
    """Names the realm (C-6.1); computed once."""

    def __post_init__(self) -> None:
        try:
            realm = digest.coordination_digest(self.engine, self.coordination_key)
            object.__setattr__(self, "coordination_digest", realm)
        except UsageError as error:
            raise FieldError(f".{_TARGET_FIELDS[error.field or '']}", error.message) from None

    @property
    def explicit_key(self) -> bool:
        """The key was given, so the ledger's binding row counts (C-6.15)."""
        return not self.coordination_key.startswith(IMPLICIT_KEY)


_TARGET_FIELDS = {"engine": "engine", "key": "coordinationKey"}


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename that a person declared (C-10.7)."""

    old: Identifier = field(metadata={"key": "from"})
    """The live name, qualified: schema.table, or schema.table.column."""
    new: Identifier = field(metadata={"key": "to"})
    """The declared name, qualified alike."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be planned and applied."""

    apply: ApplyPolicy = "OnApproval"
    """OnApproval: a person approves each plan. Always: plans that lose no data and change no
    privileges are applied without. Never: plans are only shown."""
    lock_timeout: Duration = 3.0
    """How long one statement waits for a relation lock."""
    coordination_timeout: Duration = 60.0
    """How long an operation waits for the database's advisory lock."""
    transaction_mode: Literal["auto", "none"] = "auto"
    """auto: one transaction wherever the statements allow it. none: each statement commits
    alone."""
    allow_destructive: bool = False
    """Lets an approved plan lose data."""
    schemas: Annotated[tuple[Identifier, ...], MaxLen(256)] = ()
    """Schemas to manage beside those that the declaration names."""
    exclude: Annotated[tuple[Identifier, ...], MaxLen(256)] = ()
    """Objects to leave alone, as globs over qualified names."""
    protected_tables: Annotated[tuple[Identifier, ...], MaxLen(256)] = ()
    """Tables that no plan may change."""
    privileges: Choice = "Declared"
    """Declared: owners and grants are compared where the declaration states them. Managed:
    always."""
    partitions: Choice = "Declared"
    """Declared: undeclared partitions of a declared table are left alone. Managed: they are
    planned."""
    renames: Annotated[tuple[Rename, ...], MaxLen(256)] = ()
    """Renames that the plan may use; ptahk never guesses one."""
    drift_severity: Literal["safe", "warning", "privilege", "destructive"] = "safe"
    """Drift below it does not count against Ready."""


@dataclass(frozen=True, slots=True)
class Desired:
    """Exactly one source of the declaration."""

    inline: Annotated[str, MaxLen(INLINE_BYTES_MAX)] | None = None
    """The declaration itself, as SQL; at most 200 KiB."""
    config_map_ref: ConfigMapKey | None = None
    """The declaration in a ConfigMap."""
    oci_ref: OciReference | None = None
    """The declaration in a registry."""

    def __post_init__(self) -> None:
        given = (self.inline, self.config_map_ref, self.oci_ref)
        if sum(item is not None for item in given) != 1:
            raise FieldError("", "must have exactly one of inline, configMapRef and ociRef")
        if self.inline is not None and len(self.inline.encode()) > INLINE_BYTES_MAX:
            raise FieldError(".inline", f"must be at most {INLINE_BYTES_MAX} bytes")


@dataclass(frozen=True, slots=True)
class Declared:
    """Where a spec's files are, whatever its family calls them."""

    field: str
    """Of the spec."""
    inline: str | None
    config_map_ref: ConfigMapKey | None
    oci_ref: OciReference | None
    suffixes: tuple[str, ...] = (".sql",)
    """Ends of the names that count in a ConfigMap."""


@dataclass(frozen=True, slots=True)
class Dev:
    """Where a scratch database may be made. Without it: on the target server."""

    url_from: SecretKey | None = None
    """Another server of the same major version."""
    template: Identifier | None = None
    """The database that the scratch database is a copy of."""


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """What is wanted of one database: its declared schema, and how to get there."""

    target: Target
    """Which database."""
    desired: Desired | None = None
    """The declared schema. Without it nothing runs yet."""
    policy: Policy = field(default_factory=Policy)
    """What may be planned and applied."""
    interval: Duration = 600.0
    """Time between observations; 0: none."""
    suspend: bool = False
    """Starts nothing new; what runs or is owed is brought to its end."""
    execution: Execution = field(default_factory=Execution)
    """How operations run."""
    dev: Dev = field(default_factory=Dev)
    """Where a scratch database may be made."""

    @property
    def apply_policy(self) -> ApplyPolicy:
        return self.policy.apply

    @property
    def coordination_timeout_s(self) -> float:
        return self.policy.coordination_timeout

    @property
    def declared(self) -> Declared | None:
        if self.desired is None:
            return None
        desired = self.desired
        return Declared("desired", desired.inline, desired.config_map_ref, desired.oci_ref)


RequestType = Literal["observe", "plan", "apply", "rebind"]


CHANGE_MAX = 8


def parse_change(value: Any) -> Any:
    """A few words and their values. :raises FieldError: anything else."""
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise FieldError("", "must be a map of texts")
    if len(value) > CHANGE_MAX or any(len(item) > 1024 for item in value.values()):
        raise FieldError("", "is too large")
    return value


Change = Annotated[Mapping[str, str] | None, Reads(parse_change)]


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
    change: Change = None
    """``plan`` of a migration only: how far to run, or what to record (C-11.17)."""

    def __post_init__(self) -> None:
        if not _HEX32.fullmatch(self.id):
            raise FieldError(".id", "must be 32 hex digits")
        if (self.plan is not None) != (self.type == "apply"):
            raise FieldError(".plan", "goes with apply, and with nothing else")
        if self.plan is not None and not digest.is_digest(self.plan):
            raise FieldError(".plan", "must be a plan's fingerprint")
        if self.change is not None and self.type != "plan":
            raise FieldError(".change", "goes with plan, and with nothing else")


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A person's word: annotation ``ptahk.dev/acknowledge``."""

    reason: str
    frozen: int | None = None
    """Thaw the realm that was frozen over this ledger number (C-6.14)."""
    user: str = ""
    """Whose; on a cluster what the API server stamped stands above what the client wrote."""


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


def person_text(username: str, uid: str, groups: Iterable[str]) -> str:
    """Who writes a word, as the annotation ``ptahk.dev/acknowledged-by`` has it."""
    told = {"username": username, "uid": uid, "groups": list(groups)}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def stamped_user(text: str | None) -> str | None:
    """The user of such an annotation; None: there is none, or it cannot be read."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    user = found.get("username") if isinstance(found, dict) else None
    return user if isinstance(user, str) else None


def request_text(request: Request) -> str:
    """The annotation's text."""
    value: dict[str, Any] = {"id": request.id, "type": request.type}
    if request.plan is not None:
        value["plan"] = request.plan
    if request.declaration:
        value["declaration"] = True
    if request.change is not None:
        value["change"] = dict(request.change)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
