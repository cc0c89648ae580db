"""What a Job is told: operation, bindings, deadlines. Pure values and one strict JSON form.

The engine writes it, the runner checks it, the executor receives it inside its command document.
It never holds a secret: the database URL travels in the environment alone (C-9.1).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, Literal, cast, get_args

PROTOCOL_VERSION: Final = 1
"""Version of this document, of the command and result documents and of the frame's payload."""

Operation = Literal["Resolve", "Observe", "Plan", "Apply", "Prove", "History"]
Family = Literal["schema", "migration"]
Engine = Literal["postgresql", "mysql"]
StoreKind = Literal["local", "cluster"]
Choice = Literal["Declared", "Managed"]
TransactionMode = Literal["auto", "none", "file"]
"""``file`` is the migration family's."""

MUTATING: Final[frozenset[str]] = frozenset({"Apply"})
"""Operations that change user objects (C-1): only these pass the guard of C-9.2."""

SOURCE_FILE: Final = "source.json.gz"
"""Input: gzip of ``{"files": [{"name", "text"}]}``."""
PLAN_FILE: Final = "plan.json.gz"
"""Input: gzip of the plan bytes (C-7.3)."""
JOB_FILE: Final = "job.json"

JOB: Final = "PTAHK_JOB"
"""In a Pod: the job document itself, instead of a file in the Job's directory."""
DATABASE_URL: Final = "PTAHK_DATABASE_URL"
DEV_DATABASE_URL: Final = "PTAHK_DEV_DATABASE_URL"
CACHE_DIR: Final = "PTAHK_CACHE_DIR"
TERMINATION_LOG: Final = "PTAHK_TERMINATION_LOG"
POD_UID: Final = "PTAHK_POD_UID"
ALIVE_FD: Final = "PTAHK_ALIVE_FD"
"""Local Jobs only: number of the inherited descriptor that holds the lock on ``DIR/alive``. The
runner passes the descriptor on to the executor (and not the name), so that the lock is free
exactly when both have ended."""

CHILD_ENVIRONMENT: Final[frozenset[str]] = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", CACHE_DIR,
    }
)  # fmt: skip
"""Environment names a runner and its child may see beside the two URLs; all else is scrubbed
(C-8.1: every ``PG*`` and ``MYSQL*`` is gone)."""

NOTE_MAX: Final = 512
JOB_BYTES_MAX: Final = 256 * 1024
_HEX32 = re.compile(r"[0-9a-f]{32}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_EPOCH = re.compile(r"[1-9][0-9]{0,15}\.[0-9a-f]{16}\Z")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z\Z")
_INPUT_NAME = re.compile(r"[a-z][a-z0-9.-]{0,62}\Z")


class JobSpecError(ValueError):
    """The document is not a JobSpec of this protocol; names the field, never its value."""


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """The part of ``spec.policy``, ``spec.dev`` and ``spec.execution`` that an executor reads."""

    allow_destructive: bool = False
    schemas: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    protected_tables: tuple[str, ...] = ()
    privileges: Choice = "Declared"
    partitions: Choice = "Declared"
    renames: tuple[tuple[str, str], ...] = ()
    """Pairs (from, to), each ``schema.table`` or ``schema.table.column``; JSON ``{from, to}``."""
    transaction_mode: TransactionMode = "auto"
    """``none``: every statement commits alone."""
    lock_timeout_seconds: float = 3.0
    coordination_timeout_seconds: float = 60.0
    connect_timeout_seconds: float = 10.0
    deadline_explicit: bool = False
    """``activeDeadlineSeconds`` was set by hand (C-10.8)."""
    dev_template: str | None = None


@dataclass(frozen=True, slots=True)
class FencedAttempt:
    """The attempt that a proof fences (C-6.9): the tombstone goes under its own number."""

    operation_id: str
    epoch: str
    plan_digest: str
    not_after: str
    """The Apply's ``executionNotAfter``, RFC 3339 UTC."""
    note: str = ""
    """A person's name and reason, where a person forces the release; kept in the ledger's row."""

    def __post_init__(self) -> None:
        _need(len(self.note) <= NOTE_MAX, "fenced.note")
        _need(_HEX32.match(self.operation_id), "fenced.operationId")
        _need(_EPOCH.match(self.epoch), "fenced.epoch")
        _need(_DIGEST.match(self.plan_digest), "fenced.planDigest")
        _need(_TIME.match(self.not_after), "fenced.notAfter")


@dataclass(frozen=True, slots=True)
class SequenceJob:
    """What a migration's Job is told beside what every Job is (C-9.3)."""

    stream: str = "default"
    layout: str | None = None
    """Layout of the directory; None: it is detected."""
    placeholders: Mapping[str, str] = field(default_factory=dict)
    placeholders_off: bool = False
    """Flyway's ``${name}`` stays as it is."""
    history_table: str | None = None
    foreign_key_checks: bool = True
    ahead: str = "Refuse"
    to: str | None = None
    """The last version to run; None: the newest."""
    limit: int = 0
    """At most so many files; 0: all."""
    change: Mapping[str, str] = field(default_factory=dict)
    """Rows to plan instead of files (C-11.17); empty: none."""
    sequence_digest: str | None = None
    """Of the approved sequence; required for Apply."""
    history_fingerprint: str | None = None
    """Of the history that the approved plan was made against; required for Apply."""
    replay: str = ""
    """History only. ``drift``: run the applied files again in scratch and compare what they give
    with the live schema. ``check``: run the directory again, and look at no history."""

    def __post_init__(self) -> None:
        _need(0 < len(self.stream) <= 64, "migration.stream")
        _need(self.ahead in ("Refuse", "Accept"), "migration.ahead")
        _need(0 <= self.limit < 1_000_000, "migration.limit")
        _need(self.replay in ("", "drift", "check"), "migration.replay")
        for name in ("sequence_digest", "history_fingerprint"):
            value = getattr(self, name)
            _need(value is None or _DIGEST.match(value), f"migration.{_camel(name)}")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One Job. Built by the engine from a claim; immutable; equal claims give equal bytes.

    Times are RFC 3339 UTC ending in ``Z``; digests ``sha256:`` and 64 hex; an epoch is
    ``NUMBER.HEX`` with 16 hex digits (C-1).
    """

    operation: Operation
    family: Family
    engine: Engine
    operation_id: str
    attempt: int
    job_name: str
    holder: str
    store_uid: str
    store_kind: StoreKind
    resource_uid: str
    coordination_digest: str
    dispatch_not_after: str
    execution_not_after: str
    active_deadline_seconds: int
    termination_grace_period_seconds: int
    make: str | None = None
    """``mysql`` or ``mariadb``: which of its family the target says the server is."""
    epoch: str | None = None
    """None where the operation holds no Lease (Observe)."""
    explicit_key: bool = False
    """A coordination key was given: the ledger's binding row counts (C-6.15, C-14.5)."""
    shared_realm: bool = False
    target_identity: str | None = None
    """The approved plan's; required for Apply and Prove (C-9.2)."""
    server_identity: str | None = None
    """The approved plan's; required for Apply and Prove (C-9.3, C-9.7)."""
    plan_digest: str | None = None
    plan_coordination_digest: str | None = None
    """The approved plan's own; the guard compares it with ``coordination_digest`` (C-9.2)."""
    source_digest: str | None = None
    observed_fingerprint: str | None = None
    desired_fingerprint: str | None = None
    scope: tuple[str, ...] = ()
    """Schemas that the plan covers (C-10.6), as its result named them; Apply reads these."""
    policy: JobPolicy = field(default_factory=JobPolicy)
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Input file name → ``input_digest`` of its bytes as stored."""
    local_snapshot_digest: str | None = None
    """C-14.3; None on a cluster."""
    fenced: FencedAttempt | None = None
    """Required for Prove, absent elsewhere."""
    known_number: int = 0
    """Highest epoch number this store knows for the realm (C-6.14)."""
    thawed: tuple[str, ...] = ()
    """Operation ids of other stores' attempts that a person acknowledged: they freeze nothing
    any more (C-6.14). An acknowledged number of this store is in ``known_number``."""
    rebind: bool = False
    """Apply only: replace the binding row's coordination digest, run nothing (C-11.17)."""
    declaration: bool = False
    """Observe only: return the live schema as SQL (``observe -o sql``)."""
    migration: SequenceJob | None = None
    """Exactly where ``family`` is ``migration``."""
    protocol_version: int = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        _check_head(self)
        _check_bindings(self)

    @property
    def number(self) -> int | None:
        """The epoch's monotone number (C-6.14); None without an epoch."""
        return None if self.epoch is None else int(self.epoch.split(".", 1)[0])

    @property
    def mutates(self) -> bool:
        return self.operation in MUTATING

    @property
    def application_name(self) -> str:
        """``ptahk/<operation>/<12 hex>`` (C-9.8), so that anyone can see who holds the lock."""
        return f"ptahk/{self.operation.lower()}/{self.operation_id[:12]}"


def input_digest(data: bytes) -> str:
    """SHA-256 of an input file's stored bytes, as ``inputs`` names it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _need(condition: object, name: str) -> None:
    if not condition:
        raise JobSpecError(f"job field {name} is missing or malformed")


def _check_head(spec: JobSpec) -> None:
    _need(spec.protocol_version == PROTOCOL_VERSION, "protocolVersion")
    _need(spec.operation in get_args(Operation), "operation")
    _need(spec.family in get_args(Family), "family")
    _need(spec.engine in get_args(Engine), "engine")
    _need(spec.make in (None, "mysql", "mariadb"), "make")
    _need(spec.make is None or spec.engine == "mysql", "make")
    _need(_HEX32.match(spec.operation_id), "operationId")
    _need(1 <= spec.attempt < 1_000_000, "attempt")
    _need(0 < len(spec.job_name) <= 57, "jobName")
    _need(0 < len(spec.holder) <= 80, "holder")
    _need(spec.epoch is None or _EPOCH.match(spec.epoch), "epoch")
    _need(0 < len(spec.store_uid) <= 64, "storeUid")
    _need(spec.store_kind in get_args(StoreKind), "storeKind")
    _need(0 < len(spec.resource_uid) <= 64, "resourceUid")
    _need(_TIME.match(spec.dispatch_not_after), "dispatchNotAfter")
    _need(_TIME.match(spec.execution_not_after), "executionNotAfter")
    _need(1 <= spec.active_deadline_seconds <= 86_400, "activeDeadlineSeconds")
    _need(1 <= spec.termination_grace_period_seconds <= 45, "terminationGracePeriodSeconds")
    _need(spec.known_number >= 0, "knownNumber")
    _need(len(spec.thawed) <= 100 and all(map(_HEX32.match, spec.thawed)), "thawed")


def _check_bindings(spec: JobSpec) -> None:
    _need(_DIGEST.match(spec.coordination_digest), "coordinationDigest")
    for name in (
        "target_identity", "plan_digest", "plan_coordination_digest", "source_digest",
        "observed_fingerprint", "desired_fingerprint", "local_snapshot_digest",
    ):  # fmt: skip
        value = getattr(spec, name)
        _need(value is None or _DIGEST.match(value), _camel(name))
    for name, digest in spec.inputs.items():
        _need(_INPUT_NAME.match(name) and name != JOB_FILE, "inputs")
        _need(_DIGEST.match(digest), f"inputs.{name}")
    if spec.operation in ("Apply", "Prove"):
        _need(spec.epoch, "epoch")
        _need(spec.target_identity, "targetIdentity")
        _need(spec.server_identity, "serverIdentity")
    sequence = spec.migration
    _need((sequence is not None) == (spec.family == "migration"), "migration")
    if spec.operation == "Apply" and not spec.rebind:
        _need(spec.plan_digest and PLAN_FILE in spec.inputs, "planDigest")
    if sequence is not None:
        _need(not sequence.replay or spec.operation == "History", "migration.replay")
    if sequence is not None and spec.operation == "Apply":
        _need(not spec.rebind, "rebind")
        _need(sequence.sequence_digest, "migration.sequenceDigest")
        _need(sequence.history_fingerprint, "migration.historyFingerprint")
    elif spec.operation == "Apply" and not spec.rebind:
        _need(spec.observed_fingerprint, "observedFingerprint")
        _need(spec.desired_fingerprint, "desiredFingerprint")
        _need(spec.scope, "scope")
    _need((spec.fenced is not None) == (spec.operation == "Prove"), "fenced")
    _need(spec.operation == "Apply" or not spec.rebind, "rebind")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def to_document(spec: JobSpec) -> dict[str, Any]:
    """The JSON value; every field present, None as null, but for ``make`` and ``migration``.

    Where there is none it is left out: what was written before there was one stays the same.
    """
    out = cast("dict[str, Any]", _plain(spec))
    for name in ("make", "migration"):
        if out[name] is None:
            del out[name]
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, JobPolicy):
        out = {_camel(f.name): _plain(getattr(value, f.name)) for f in fields(value)}
        out["renames"] = [{"from": old, "to": new} for old, new in value.renames]
        return out
    if isinstance(value, JobSpec | FencedAttempt | SequenceJob):
        return {_camel(f.name): _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value


def encode(spec: JobSpec) -> bytes:
    """``job.json``: sorted keys, no spaces, ASCII."""
    return json.dumps(to_document(spec), sort_keys=True, separators=(",", ":")).encode("ascii")


def decode(data: bytes) -> JobSpec:
    """Read ``job.json``.

    :raises JobSpecError: on anything but an exact document of this protocol version.
    """
    if len(data) > JOB_BYTES_MAX:
        raise JobSpecError("job document is too large")
    try:
        value = json.loads(data, object_pairs_hook=_no_duplicates, parse_constant=_no_constants)
    except (ValueError, RecursionError) as error:
        raise JobSpecError("job document is not JSON") from error
    return from_document(value)


def from_document(value: object) -> JobSpec:
    """A JobSpec of its JSON value. :raises JobSpecError: unknown, missing or mistyped fields."""
    document = _read(value, JobSpec, "job")
    document["policy"] = JobPolicy(**_policy(document["policy"]))
    if document["fenced"] is not None:
        document["fenced"] = FencedAttempt(**_read(document["fenced"], FencedAttempt, "fenced"))
    if document["migration"] is not None:
        sequence = _read(document["migration"], SequenceJob, "migration")
        document["migration"] = SequenceJob(**sequence)
    return JobSpec(**document)


def _policy(value: object) -> dict[str, Any]:
    out = _read(value, JobPolicy, "policy")
    renames = []
    for item in out["renames"]:
        _need(isinstance(item, dict) and set(item) == {"from", "to"}, "policy.renames")
        _need(all(isinstance(text, str) for text in item.values()), "policy.renames")
        renames.append((item["from"], item["to"]))
    out["renames"] = tuple(renames)
    _need(out["privileges"] in get_args(Choice), "policy.privileges")
    _need(out["partitions"] in get_args(Choice), "policy.partitions")
    _need(out["transaction_mode"] in get_args(TransactionMode), "policy.transactionMode")
    return out


_LIST = ("tuple[str, ...]", "tuple[tuple[str, str], ...]")
_SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,), "int": (int,), "bool": (bool,), "float": (int, float),
    "Operation": (str,), "Family": (str,), "Engine": (str,), "StoreKind": (str,),
    "Choice": (str,), "TransactionMode": (str,),
    "str | None": (str, type(None)), "JobPolicy": (dict,),
    "FencedAttempt | None": (dict, type(None)), "SequenceJob | None": (dict, type(None)),
    "Mapping[str, str]": (dict,),
}  # fmt: skip


def _read(value: object, shape: type, where: str) -> dict[str, Any]:
    _need(isinstance(value, dict), where)
    given = cast("dict[str, Any]", value)
    names = {_camel(f.name): f for f in fields(shape)}
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise JobSpecError(f"job field {where}.{unknown[0][:64]} is unknown")
    out: dict[str, Any] = {}
    for key, item in names.items():
        optional = item.default is not MISSING or item.default_factory is not MISSING
        _need(key in given or optional, f"{where}.{key}")
        if key not in given:
            continue
        out[item.name] = _typed(given[key], str(item.type), f"{where}.{key}")
    for item in names.values():
        if item.name not in out:
            default = item.default_factory
            out[item.name] = item.default if default is MISSING else _plain(default())
    return out


def _typed(value: Any, kind: str, where: str) -> Any:
    if kind in _LIST:
        _need(isinstance(value, list) and len(value) <= 10_000, where)
        if kind == _LIST[0]:
            _need(all(isinstance(item, str) for item in value), where)
        return tuple(value)
    allowed = _SCALARS[kind]
    _need(isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool)), where)
    if kind == "Mapping[str, str]":
        _need(all(isinstance(item, str) for item in value.values()), where)
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate key")
    return out


def _no_constants(name: str) -> Any:
    raise ValueError(name)


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment a runner or an executor child may inherit (C-8.1, C-14.3)."""
    return {name: environment[name] for name in sorted(CHILD_ENVIRONMENT & set(environment))}


def local_snapshot(
    *, interpreter: str, version: str, user: str, host: str, environment: Mapping[str, str]
) -> dict[str, Any]:
    """The local admission snapshot (C-14.3): what shapes a local Job's process.

    ``digest.local_snapshot`` hashes it; the runner computes it again before the child starts.

    :param interpreter: absolute path of the Python interpreter.
    :param environment: any environment; only its scrubbed part counts.
    """
    return {
        "interpreter": interpreter,
        "version": version,
        "user": user,
        "host": host,
        "environment": scrubbed(environment),
    }
