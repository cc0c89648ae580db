"""What a plan's fingerprint binds, and its written form (C-7.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptahk.wire import canonical
from ptahk.wire.digest import (
    CoordinationDigest,
    HistoryFingerprint,
    PlanDigest,
    SequenceDigest,
    SourceDigest,
    StateFingerprint,
    TargetIdentityDigest,
)


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """The policy that a plan was made under, as C-7.2 lists it.

    The lists of names are sets to the planner, so their order and repetitions do not count.
    """

    apply: str = "OnApproval"
    allow_destructive: bool = False
    schemas: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    protected_tables: tuple[str, ...] = ()
    privileges: str = "Declared"
    partitions: str = "Declared"
    renames: tuple[tuple[str, str], ...] = ()
    transaction_mode: str = ""

    def document(self) -> dict[str, Any]:
        """The canonical JSON form, camelCase as in the resources."""
        return {
            "apply": self.apply,
            "allowDestructive": self.allow_destructive,
            "schemas": sorted(set(self.schemas)),
            "exclude": sorted(set(self.exclude)),
            "protectedTables": sorted(set(self.protected_tables)),
            "privileges": self.privileges,
            "partitions": self.partitions,
            "renames": [{"from": a, "to": b} for a, b in sorted(set(self.renames))],
            "transactionMode": self.transaction_mode,
        }

    @classmethod
    def of_document(cls, policy: Mapping[str, Any]) -> "PolicyBinding":
        """The inverse of ``document``; other keys are left alone.

        :raises KeyError, TypeError: one of its keys is missing, or holds something else.
        """
        return cls(
            apply=policy["apply"],
            allow_destructive=policy["allowDestructive"],
            schemas=tuple(policy["schemas"]),
            exclude=tuple(policy["exclude"]),
            protected_tables=tuple(policy["protectedTables"]),
            privileges=policy["privileges"],
            partitions=policy["partitions"],
            renames=tuple((pair["from"], pair["to"]) for pair in policy["renames"]),
            transaction_mode=policy["transactionMode"],
        )


@dataclass(frozen=True, slots=True)
class PlanBinding:
    """Everything that a plan's fingerprint binds (C-7.2, schema family)."""

    resource_uid: str
    plan_digest: PlanDigest
    source_digest: SourceDigest
    coordination_digest: CoordinationDigest
    target_identity_digest: TargetIdentityDigest
    observed_state: StateFingerprint
    desired_state: StateFingerprint
    policy: PolicyBinding
    executor_version: str
    protocol_version: int

    def document(self) -> dict[str, Any]:
        """The canonical JSON form; a plan file carries it so that anyone can hash it again."""
        return {
            "resourceUID": self.resource_uid,
            "planDigest": self.plan_digest,
            "sourceDigest": self.source_digest,
            "coordinationDigest": self.coordination_digest,
            "targetIdentityDigest": self.target_identity_digest,
            "observedState": self.observed_state,
            "desiredState": self.desired_state,
            "policy": self.policy.document(),
            "executorVersion": self.executor_version,
            "protocolVersion": self.protocol_version,
        }

    @classmethod
    def of_document(cls, document: Any) -> "PlanBinding":
        """The inverse of ``document``; exactly its form is accepted.

        :raises ValueError: anything else.
        """
        try:
            binding = cls(
                resource_uid=document["resourceUID"],
                plan_digest=PlanDigest(document["planDigest"]),
                source_digest=SourceDigest(document["sourceDigest"]),
                coordination_digest=CoordinationDigest(document["coordinationDigest"]),
                target_identity_digest=TargetIdentityDigest(document["targetIdentityDigest"]),
                observed_state=StateFingerprint(document["observedState"]),
                desired_state=StateFingerprint(document["desiredState"]),
                policy=PolicyBinding.of_document(document["policy"]),
                executor_version=document["executorVersion"],
                protocol_version=document["protocolVersion"],
            )
            same = canonical.encode(binding.document()) == canonical.encode(document)
        except (KeyError, TypeError, canonical.CanonicalError):
            same = False
        if not same:
            raise ValueError("not the inputs of a plan's fingerprint")
        return binding


@dataclass(frozen=True, slots=True)
class SequenceBinding:
    """Everything that the fingerprint of a migration's plan binds (C-7.2, C-9.3)."""

    resource_uid: str
    plan_digest: PlanDigest
    source_digest: SourceDigest
    coordination_digest: CoordinationDigest
    target_identity_digest: TargetIdentityDigest
    sequence_digest: SequenceDigest
    """Of the files that run, in order."""
    history_fingerprint: HistoryFingerprint
    """Of the history that they were chosen by."""
    action: str
    """``run``, ``resume``, or what the plan only records (C-11.17)."""
    approval: bool
    """A person must approve it under every policy (C-11.3, C-11.14)."""
    change: Mapping[str, str]
    """What was asked for: how far to run, or what to record."""
    policy: Mapping[str, Any]
    executor_version: str
    protocol_version: int

    def document(self) -> dict[str, Any]:
        """The canonical JSON form."""
        return {
            "resourceUID": self.resource_uid,
            "planDigest": self.plan_digest,
            "sourceDigest": self.source_digest,
            "coordinationDigest": self.coordination_digest,
            "targetIdentityDigest": self.target_identity_digest,
            "sequenceDigest": self.sequence_digest,
            "historyFingerprint": self.history_fingerprint,
            "action": self.action,
            "approval": self.approval,
            "change": dict(self.change),
            "policy": dict(self.policy),
            "executorVersion": self.executor_version,
            "protocolVersion": self.protocol_version,
        }

    @classmethod
    def of_document(cls, document: Any) -> "SequenceBinding":
        """The inverse of ``document``; exactly its form is accepted.

        :raises ValueError: anything else.
        """
        try:
            binding = cls(
                resource_uid=document["resourceUID"],
                plan_digest=PlanDigest(document["planDigest"]),
                source_digest=SourceDigest(document["sourceDigest"]),
                coordination_digest=CoordinationDigest(document["coordinationDigest"]),
                target_identity_digest=TargetIdentityDigest(document["targetIdentityDigest"]),
                sequence_digest=SequenceDigest(document["sequenceDigest"]),
                history_fingerprint=HistoryFingerprint(document["historyFingerprint"]),
                action=document["action"],
                approval=document["approval"],
                change=dict(document["change"]),
                policy=dict(document["policy"]),
                executor_version=document["executorVersion"],
                protocol_version=document["protocolVersion"],
            )
            same = canonical.encode(binding.document()) == canonical.encode(document)
        except (KeyError, TypeError, ValueError, canonical.CanonicalError):
            same = False
        if not same:
            raise ValueError("not the inputs of a plan's fingerprint")
        return binding


Binding = PlanBinding | SequenceBinding


def read_binding(document: Any) -> Binding:
    """The inputs of a fingerprint, of either family. :raises ValueError: they are none."""
    if isinstance(document, Mapping) and "sequenceDigest" in document:
        return SequenceBinding.of_document(document)
    return PlanBinding.of_document(document)
