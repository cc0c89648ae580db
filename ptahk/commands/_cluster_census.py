"""The census of a cluster: both families, all namespaces, and who holds each realm (C-6.3)."""

from __future__ import annotations

from typing import Any

from ptahk.commands import _documents, _wiring
from ptahk.commands._drive import store_faults
from ptahk.commands._options import Cluster
from ptahk.commands._render import document
from ptahk.engine import peers
from ptahk.engine.model import lease as leases
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import LEASE, SCHEMA
from ptahk.engine.model.status import Status, parse
from ptahk.engine.ports import Document
from ptahk.errors import UsageError
from ptahk.wire import digest


def of_cluster(cluster: Cluster, *, conflicts_only: bool) -> dict[str, Any]:
    """The ``Census`` document of what is stored now.

    :raises PtahkError: the cluster cannot be read.
    """
    with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader, store_faults():
        items = [*reader.objects.list(SCHEMA), *reader.objects.list(MIGRATION)]
        held = reader.objects.list(LEASE, cluster.coordination_namespace)
    by_realm: dict[str, list[Document]] = {}
    for item in items:
        for realm in peers.realms(item):
            by_realm.setdefault(realm, []).append(item)
    records = {item["metadata"]["name"]: leases.parse(item) for item in held}
    found = [_realm(realm, named, records) for realm, named in by_realm.items()]
    found.sort(key=lambda realm: (not realm["conflict"], realm["digest"]))
    return document(
        "Census",
        realms=[realm for realm in found if realm["conflict"] or not conflicts_only],
        summary={
            "realms": len(found),
            "claimants": len(items),
            "conflicts": sum(1 for realm in found if realm["conflict"]),
        },
    )


def _realm(realm: str, items: list[Document], records: dict[str, Any]) -> dict[str, Any]:
    counted = {peer.uid: peer for peer in peers.of_realm(items, realm, "", automatic=True)}
    claiming = [peer for peer in counted.values() if peer.claims]
    conflict = len(claiming) > 1 and not all(peer.shared for peer in claiming)
    claimants = [_claimant(item, realm, counted[item["metadata"]["uid"]]) for item in items]
    named = digest.lease_name(digest.CoordinationDigest(realm))
    return {
        "digest": realm,
        "engine": _engine(items),
        "conflict": conflict,
        "reason": "RealmConflict" if conflict else None,
        "lease": _lease(records.get(named)),
        "claimants": sorted(
            claimants, key=lambda item: (item["namespace"], item["kind"], item["name"])
        ),
    }


def _claimant(item: Document, realm: str, peer: Any) -> dict[str, Any]:
    spec = item.get("spec") or {}
    status = _status(item)
    claim = None if status is None else status.active_operation
    owed = None if status is None else status.pending_observation
    return {
        "kind": item["kind"],
        "namespace": item["metadata"]["namespace"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "sharedRealm": peer.shared,
        "suspended": spec.get("suspend") is True,
        "claims": peer.claims,
        "activeOperation": claim.type if claim is not None and claim.realm == realm else None,
        "pendingObservation": owed is not None and owed.realm == realm,
    }


def _status(item: Document) -> Status | None:
    try:
        return parse(item.get("status"), item["metadata"]["uid"])
    except FieldError:
        return None


def _engine(items: list[Document]) -> str:
    for item in items:
        try:
            return digest.engine_family(str(item["spec"]["target"]["engine"]))
        except (KeyError, TypeError, UsageError):
            continue
    return "unknown"


def _lease(record: Any) -> dict[str, Any] | None:
    if not isinstance(record, leases.LeaseRecord) or record.identity is None:
        return None
    return {
        "holder": record.identity,
        "epoch": str(record.epoch),
        "acquired": _documents.time(record.acquired),
        "renewed": _documents.time(record.renewed),
        "durationSeconds": record.duration_s,
    }
