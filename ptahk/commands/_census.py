"""The census of manifests: every realm with its claimants, conflicts first (C-6.3). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptahk.api.codec import Manifest
from ptahk.commands._render import document
from ptahk.engine import census
from ptahk.engine.model.migration import MigrationSpec
from ptahk.engine.model.resource import SchemaSpec
from ptahk.wire import digest

DEFAULT_NAMESPACE = "default"


def of_manifests(manifests: Iterable[Manifest], *, conflicts_only: bool) -> dict[str, Any]:
    """The ``Census`` document of what manifests declare: nothing of it runs yet."""
    realms: dict[str, list[dict[str, Any]]] = {}
    engines: dict[str, str] = {}
    for item in manifests:
        spec = item.spec
        if not isinstance(spec, SchemaSpec | MigrationSpec):
            continue
        realm = spec.target.coordination_digest
        engines[realm] = digest.engine_family(spec.target.engine)
        realms.setdefault(realm, []).append(_claimant(item, spec))
    found = [_realm(realm, engines[realm], claimants) for realm, claimants in realms.items()]
    found.sort(key=lambda realm: (not realm["conflict"], realm["digest"]))
    return document(
        "Census",
        realms=[realm for realm in found if realm["conflict"] or not conflicts_only],
        summary={
            "realms": len(found),
            "claimants": sum(len(realm["claimants"]) for realm in found),
            "conflicts": sum(1 for realm in found if realm["conflict"]),
        },
    )


def _claimant(item: Manifest, spec: SchemaSpec | MigrationSpec) -> dict[str, Any]:
    claims = census.claims(
        census.Claimant(
            shared=spec.target.shared_realm,
            suspended=spec.suspend,
            deleting=False,
            dormant=_dormant(spec),
            active=False,
            owing=False,
            automatic=True,
        )
    )
    return {
        "kind": item.kind,
        "namespace": item.namespace or DEFAULT_NAMESPACE,
        "name": item.name,
        "uid": None,
        "sharedRealm": spec.target.shared_realm,
        "suspended": spec.suspend,
        "claims": claims,
        "activeOperation": None,
        "pendingObservation": False,
    }


def _dormant(spec: SchemaSpec | MigrationSpec) -> bool:
    """No URL or source yet, or ``policy.apply: Never`` with ``interval: 0``."""
    source = spec.desired if isinstance(spec, SchemaSpec) else spec.artifact
    idle = spec.policy.apply == "Never" and spec.interval == 0
    return spec.target.url_from is None or source is None or idle


def _realm(realm: str, engine: str, claimants: list[dict[str, Any]]) -> dict[str, Any]:
    claiming = [item for item in claimants if item["claims"]]
    conflict = len(claiming) > 1 and not all(item["sharedRealm"] for item in claiming)
    return {
        "digest": realm,
        "engine": engine,
        "conflict": conflict,
        "reason": "RealmConflict" if conflict else None,
        "lease": None,
        "claimants": sorted(
            claimants, key=lambda item: (item["namespace"], item["kind"], item["name"])
        ),
    }
