"""A realm Lease, stored part. Expiry uses only what this process watched itself (C-6.6).

The document is ``coordination.k8s.io/v1`` shaped, named ``ptahk-<64 hex>``, in the coordination
namespace::

    metadata.annotations:
      ptahk.dev/realm: sha256:…          the coordination digest
      ptahk.dev/epoch: NUMBER.HEX        the epoch of the holder, kept after release for its number
      ptahk.dev/holder: {"kind","namespace","name","uid","operationId","operation"}
    spec: {holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions}

A release clears ``holderIdentity`` and the holder annotation and keeps object and number (C-6.2).
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptahk.engine.model.fields import FieldError, format_time, parse_time, read
from ptahk.wire.digest import CoordinationDigest, HolderIdentity, lease_name
from ptahk.wire.epoch import Epoch

LEASE_API = "coordination.k8s.io/v1"
REALM = "ptahk.dev/realm"
EPOCH = "ptahk.dev/epoch"
HOLDER = "ptahk.dev/holder"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose claim holds it, for people and for the live read of that claim (D19)."""

    kind: str
    namespace: str
    name: str
    uid: str
    operation_id: str
    operation: str


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One stored Lease."""

    uid: str
    resource_version: str
    epoch: Epoch
    identity: HolderIdentity | None
    """None: released."""
    holder: Holder | None
    duration_s: int
    acquired: datetime | None
    renewed: datetime | None
    transitions: int

    def __post_init__(self) -> None:
        if self.identity is not None and (self.duration_s < 1 or self.renewed is None):
            raise FieldError(".spec", "a held Lease has a duration and a renewal time")


@dataclass(frozen=True, slots=True)
class Malformed:
    """A Lease that is not one of ours: never taken (C-6.6)."""

    resource_version: str
    message: str


def parse(document: dict[str, Any]) -> LeaseRecord | Malformed:
    """A stored Lease. Never raises on what somebody else wrote."""
    metadata = document.get("metadata") or {}
    version = str(metadata.get("resourceVersion", ""))
    try:
        return _parse(document, metadata, version)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return Malformed(version, str(error)[:200])


def _parse(document: dict[str, Any], metadata: dict[str, Any], version: str) -> LeaseRecord:
    annotations = metadata.get("annotations") or {}
    spec = document.get("spec") or {}
    identity = spec.get("holderIdentity") or None
    holder = annotations.get(HOLDER) if identity else None
    if identity is not None and not isinstance(identity, str):
        raise FieldError(".spec.holderIdentity", "must be text")
    duration = spec.get("leaseDurationSeconds", 0)
    transitions = spec.get("leaseTransitions", 0)
    if type(duration) is not int or type(transitions) is not int:
        raise FieldError(".spec", "durations and transitions are whole numbers")
    return LeaseRecord(
        uid=str(metadata["uid"]) if "uid" in metadata else "",
        resource_version=version,
        epoch=Epoch.parse(annotations.get(EPOCH, "")),
        identity=None if identity is None else HolderIdentity(identity),
        holder=None if holder is None else read(Holder, json.loads(holder), HOLDER),
        duration_s=duration,
        acquired=_time(spec.get("acquireTime")),
        renewed=_time(spec.get("renewTime")),
        transitions=transitions,
    )


def _time(text: Any) -> datetime | None:
    return None if text is None else parse_time(text)


def new_document(namespace: str, realm: CoordinationDigest) -> dict[str, Any]:
    """A Lease that nobody holds and that was never stored."""
    return {
        "apiVersion": LEASE_API,
        "kind": "Lease",
        "metadata": {
            "namespace": namespace,
            "name": lease_name(realm),
            "annotations": {REALM: realm},
        },
        "spec": {},
    }


def held(
    document: dict[str, Any], epoch: Epoch, identity: str, holder: Holder, duration_s: int,
    now: datetime,
) -> dict[str, Any]:  # fmt: skip
    """The document as acquired at ``now`` under a new epoch; unknown fields stay (F9)."""
    spec = dict(document.get("spec") or {})
    moment = format_time(now)
    spec.update(
        holderIdentity=identity,
        leaseDurationSeconds=duration_s,
        acquireTime=moment,
        renewTime=moment,
        leaseTransitions=int(spec.get("leaseTransitions") or 0) + 1,
    )
    text = json.dumps(
        {
            "kind": holder.kind,
            "namespace": holder.namespace,
            "name": holder.name,
            "uid": holder.uid,
            "operationId": holder.operation_id,
            "operation": holder.operation,
        },
        sort_keys=True,
    )
    return _annotated(document, {EPOCH: str(epoch), HOLDER: text}) | {"spec": spec}


def renewed(document: dict[str, Any], duration_s: int, now: datetime) -> dict[str, Any]:
    """The document as renewed: same holder, same epoch (C-6.7)."""
    spec = dict(document["spec"])
    spec.update(leaseDurationSeconds=duration_s, renewTime=format_time(now))
    return document | {"spec": spec}


def released(document: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The document without a holder; object and number stay (C-6.2)."""
    spec = dict(document["spec"])
    spec.update(holderIdentity=None, renewTime=format_time(now))
    spec.pop("acquireTime", None)
    return _annotated(document, {HOLDER: None}) | {"spec": spec}


def _annotated(document: dict[str, Any], changes: dict[str, str | None]) -> dict[str, Any]:
    metadata = dict(document["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    for key, value in changes.items():
        if value is None:
            annotations.pop(key, None)
        else:
            annotations[key] = value
    metadata["annotations"] = annotations
    return document | {"metadata": metadata}
