"""One function per named digest (C-7.1), with its input tuple and contract version.

Each result has a type of its own, so that mypy refuses one digest where another is meant. A
digest is ``sha256:`` and 64 hex digits over canonical JSON of an array whose first element names
the digest and its version; a change of the inputs is a new version, never a new meaning.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NewType

from ptahk.errors import UsageError
from ptahk.wire import canonical

if TYPE_CHECKING:
    # Dataclasses are slow to make, and most digests need none of them.
    from ptahk.wire.binding import Binding, PolicyBinding

CoordinationDigest = NewType("CoordinationDigest", str)
LeaseName = NewType("LeaseName", str)
HolderIdentity = NewType("HolderIdentity", str)
TargetIdentityDigest = NewType("TargetIdentityDigest", str)
SourceDigest = NewType("SourceDigest", str)
PlanDigest = NewType("PlanDigest", str)
PlanFingerprint = NewType("PlanFingerprint", str)
PlanFileDigest = NewType("PlanFileDigest", str)
PolicyDigest = NewType("PolicyDigest", str)
StateFingerprint = NewType("StateFingerprint", str)
InputFingerprint = NewType("InputFingerprint", str)
SnapshotDigest = NewType("SnapshotDigest", str)
DriftDigest = NewType("DriftDigest", str)
ResultDigest = NewType("ResultDigest", str)
SequenceDigest = NewType("SequenceDigest", str)
HistoryFingerprint = NewType("HistoryFingerprint", str)
JobName = NewType("JobName", str)
ResourceUid = NewType("ResourceUid", str)

EngineFamily = Literal["postgresql", "mysql"]

JOB_NAME_MAX = 57
"""Above this a Pod name loses its dash (C-3.1)."""

_FAMILIES: dict[str, EngineFamily] = {
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
# Plain texts: compiled at their first use, which `ptahk digest` never comes to.
_DIGEST = r"sha256:[0-9a-f]{64}"
_OPERATION_WORD = r"[a-z]{1,12}"


def engine_family(engine: str) -> EngineFamily:
    """The family that an engine's name means, in any case (C-6.1).

    :raises UsageError: no engine of ours has this name.
    """
    family = _FAMILIES.get(engine.lower())
    if family is None:
        raise UsageError(
            f"unknown engine (engine={engine[:40]!r}): only {', '.join(_FAMILIES)} are known",
            reason="UnknownEngine",
            field="engine",
        )
    return family


def engine_make(engine: str) -> str | None:
    """``mysql`` or ``mariadb``, which differ inside their family; None for PostgreSQL.

    :raises UsageError: no engine of ours has this name.
    """
    return engine.lower() if engine_family(engine) == "mysql" else None


def is_digest(text: object) -> bool:
    """True for ``sha256:`` and 64 lower-case hex digits, and nothing else."""
    return isinstance(text, str) and re.fullmatch(_DIGEST, text) is not None


def coordination_digest(engine: str, key: str) -> CoordinationDigest:
    """Names the realm (C-6.1). The key's bytes are unchanged; the engine is only its family.

    :raises UsageError: unknown engine, or an empty key or one that is not text.
    """
    family = engine_family(engine)
    if not key:
        raise UsageError(
            "empty coordination key (key=''): a realm needs a name",
            reason="InvalidCoordinationKey",
            field="key",
        )
    try:
        return CoordinationDigest(_named("ptahk.dev/coordination/v1", family, key))
    except canonical.CanonicalError:
        raise UsageError(
            "coordination key is not text (key): it holds bytes that are not UTF-8",
            reason="InvalidCoordinationKey",
            field="key",
        ) from None


def lease_name(digest: CoordinationDigest) -> LeaseName:
    """The realm's Lease: ``ptahk-`` and the 64 hex digits (C-6.1)."""
    return LeaseName("ptahk-" + digest.removeprefix("sha256:"))


def holder(resource_uid: str, operation_id: str) -> HolderIdentity:
    """Who holds a realm Lease: the claim, never a replica (section 1 of the contract)."""
    return HolderIdentity(_named("ptahk.dev/holder/v1", resource_uid, operation_id))


def target_identity_digest(bound: dict[str, Any]) -> TargetIdentityDigest:
    """Names the route that a URL describes (C-8); ``bound`` is ``dsn.TargetIdentity.bound``."""
    return TargetIdentityDigest(_named("ptahk.dev/target-identity/v1", bound))


def source_digest(files: Iterable[tuple[str, str]]) -> SourceDigest:
    """The declaration: every file's name and text, in the order in which they are loaded."""
    return SourceDigest(_named("ptahk.dev/source/v1", [[name, text] for name, text in files]))


def plan_content_digest(plan_bytes: bytes) -> PlanDigest:
    """The plan bytes of C-7.3, exactly as published."""
    inner = hashlib.sha256(plan_bytes).hexdigest()
    return PlanDigest(_named("ptahk.dev/plan-content/v1", len(plan_bytes), inner))


def token_digest(statements: Sequence[Sequence[str]]) -> str:
    """SQL by its tokens alone, one list a statement: comments and white space do not count."""
    return _named("ptahk.dev/migration-tokens/v1", [list(tokens) for tokens in statements])


def sequence_digest(files: Sequence[dict[str, Any]]) -> SequenceDigest:
    """The files of a migration directory, in order: version, kind, checksums, transaction mode."""
    return SequenceDigest(_named("ptahk.dev/migration-sequence/v1", list(files)))


def history_fingerprint(document: dict[str, Any]) -> HistoryFingerprint:
    """What a database says was run, without times and users (C-11.15)."""
    return HistoryFingerprint(_named("ptahk.dev/migration-history/v1", document))


def foreign_history(tool: str, rows: Sequence[Sequence[Any]]) -> str:
    """What another tool's history table holds, without times and users (C-11.9)."""
    return _named("ptahk.dev/foreign-history/v1", tool, [list(row) for row in rows])


def plan_fingerprint(binding: "Binding") -> PlanFingerprint:
    """What a person approves (C-7.2)."""
    return PlanFingerprint(_named("ptahk.dev/plan-fingerprint/v1", binding.document()))


def plan_file_digest(document: dict[str, Any]) -> PlanFileDigest:
    """Everything in a plan file but the digest itself (C-7.3): finds an edit of any byte."""
    return PlanFileDigest(_named("ptahk.dev/plan-file/v1", document))


def policy_digest(policy: "PolicyBinding") -> PolicyDigest:
    """The planning policy alone, for noticing that it moved (C-3.6)."""
    return PolicyDigest(_named("ptahk.dev/policy/v1", policy.document()))


def state_fingerprint(facts: Any) -> StateFingerprint:
    """A schema's state, live or desired.

    One function for both on purpose: C-10.3 compares the live state with the plan's desired one.
    """
    return StateFingerprint(_named("ptahk.dev/schema-state/v1", facts))


def input_fingerprint(operation: str, inputs: Any) -> InputFingerprint:
    """What an operation was claimed for; a change discards an undispatched claim (C-3.6)."""
    return InputFingerprint(_named("ptahk.dev/operation-inputs/v1", operation, inputs))


def admission_snapshot_digest(document: dict[str, Any]) -> SnapshotDigest:
    """The cluster objects and settings that shape the final Pod."""
    return SnapshotDigest(_named("ptahk.dev/admission-snapshot/v1", document))


def local_snapshot_digest(document: dict[str, Any]) -> SnapshotDigest:
    """Interpreter, package version, user, host and environment of a local Job (C-14.3)."""
    return SnapshotDigest(_named("ptahk.dev/local-snapshot/v1", document))


def drift_digest(document: Any) -> DriftDigest:
    """What an observation found (C-10.1)."""
    return DriftDigest(_named("ptahk.dev/drift/v1", document))


def result_digest(document: Any) -> ResultDigest:
    """The result that the ledger's ``finished`` row names (C-6.11)."""
    return ResultDigest(_named("ptahk.dev/result/v1", document))


def job_name(
    operation: str,
    resource_uid: str,
    operation_id: str,
    inputs: InputFingerprint,
    attempt: int,
) -> JobName:
    """The name that no other claim can produce: ``ptahk-op-<operation>-<32 hex>`` (C-3.1).

    :param operation: ``Plan``, ``Apply``, … in any case.
    :param attempt: counted from 1.
    """
    word = operation.lower()
    assert re.fullmatch(_OPERATION_WORD, word), "an operation is one short word"
    folded = _named("ptahk.dev/job-name/v1", resource_uid, word, operation_id, inputs, attempt)
    name = f"ptahk-op-{word}-{_hex(folded)[:32]}"
    assert len(name) <= JOB_NAME_MAX, "bounded by the word's length"
    return JobName(name)


def advisory_lock_key() -> int:
    """PostgreSQL's lock key for "this database is being changed", a signed 64-bit integer.

    It names no realm: PostgreSQL's advisory locks are per database, so a mistyped coordination
    key cannot defeat it (C-9.8).
    """
    first = hashlib.sha256(b"ptahk/lock/1").digest()[:8]
    return int.from_bytes(first, "big", signed=True)


def advisory_lock_name(database: str) -> str:
    """MySQL's and MariaDB's lock name for "this database is being changed" (C-9.8).

    Their locks are per server, so it names the database. At most 64 characters and in lower case:
    one cuts off there, and only one of the two tells cases apart.

    :param database: as the server reports it.
    """
    return "ptahk:" + hashlib.sha256(database.encode("utf-8")).hexdigest()[:58]


_UID_NAMESPACE = bytes.fromhex("d8a9f1bb6fbb56a4a2e0f1c8c9d7e3b5")
"""Chosen once, for good: the UUID namespace of local resources."""


def local_resource_uid(digest: CoordinationDigest, family: str, name: str) -> ResourceUid:
    """The UID of a local resource: UUIDv5 of (coordination digest, family, name) (C-7.2).

    Computed by hand: the ``uuid`` module also rolls dice and reads the host, which ``wire`` may
    not; tests compare it with ``uuid.uuid5``.

    :param family: the resource's kind, ``PtahSchema`` or ``PtahMigration``.
    """
    # SHA-1 is what RFC 4122 says; the strength comes from the digest inside.
    text = canonical.encode([digest, family, name])
    raw = bytearray(hashlib.sha1(_UID_NAMESPACE + text, usedforsecurity=False).digest()[:16])
    raw[6] = (raw[6] & 0x0F) | 0x50
    raw[8] = (raw[8] & 0x3F) | 0x80
    text_hex = raw.hex()
    cuts = (0, 8, 12, 16, 20, 32)
    return ResourceUid("-".join(text_hex[a:b] for a, b in itertools.pairwise(cuts)))


def _named(name: str, *inputs: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical.encode([name, *inputs])).hexdigest()


def _hex(digest: str) -> str:
    assert is_digest(digest), "a digest of ours"
    return digest.removeprefix("sha256:")
