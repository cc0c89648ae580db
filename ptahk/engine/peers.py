"""The census of one realm out of resource documents: live, or kept by an index (C-6.3, C-6.4)."""

from collections.abc import Iterable, Mapping
from typing import Any

from ptahk.engine.census import Claimant, claims, settling
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.snapshot import Peer
from ptahk.engine.model.status import Status, parse
from ptahk.engine.ports import Document
from ptahk.errors import UsageError
from ptahk.wire import digest


def of_realm(
    documents: Iterable[Document], realm: str, uid: str, *, automatic: bool
) -> tuple[Peer, ...]:
    """Every other resource that names this realm in its spec or in a claim.

    :param uid: the resource that asks.
    :param automatic: resources of this store claim their realm while idle (C-14.4).
    """
    found = (
        _peer(document, realm, automatic=automatic)
        for document in documents
        if document["metadata"]["uid"] != uid
    )
    return tuple(peer for peer in found if peer is not None)


def realms(document: Document) -> frozenset[str]:
    """Coordination digests that a resource names: what an index has to keep it under."""
    named = {_realm_of(_object(document.get("spec")))}
    named |= _debts(_status(document))
    return frozenset(realm for realm in named if realm is not None)


def _status(document: Document) -> Status | None:
    try:
        return parse(document.get("status"), document["metadata"]["uid"])
    except FieldError:
        return None


def _debts(status: Status | None) -> set[str | None]:
    if status is None:
        return set()
    debts = (status.active_operation, status.pending_observation, status.pending_lock_release)
    return {debt.realm for debt in debts if debt is not None}


def _peer(document: Document, realm: str, *, automatic: bool) -> Peer | None:
    metadata = document["metadata"]
    spec = _object(document.get("spec"))
    # Where nobody can tell what it does, it counts as settling where its spec names the realm.
    status = _status(document)
    if realm not in {_realm_of(spec)} | _debts(status):
        return None
    claim = owed = released = None
    if status is not None:
        claim, owed = status.active_operation, status.pending_observation
        released = status.pending_lock_release
    item = Claimant(
        shared=bool(_object(spec.get("target")).get("sharedRealm")),
        suspended=bool(spec.get("suspend")),
        deleting=metadata.get("deletionTimestamp") is not None,
        dormant=_dormant(spec, automatic=automatic),
        active=claim is not None and claim.realm == realm and claim.outcome is None,
        owing=status is None
        or owed is not None
        or released is not None
        or (claim is not None and claim.dispatch_started),
        automatic=automatic,
    )
    waits = claim is not None and claim.lease and not claim.dispatch_started
    return Peer(
        kind=document["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        shared=item.shared,
        claims=claims(item),
        settling=settling(item),
        since=claim.start_time if claim is not None and waits else None,
    )


def _object(value: Any) -> Mapping[str, Any]:
    """What somebody wrote, where it is an object at all: nothing raises for another's mistake."""
    return value if isinstance(value, dict) else {}


def _realm_of(spec: Mapping[str, Any]) -> str | None:
    target = _object(spec.get("target"))
    try:
        return digest.coordination_digest(target["engine"], target["coordinationKey"])
    except (KeyError, TypeError, AttributeError, UsageError):
        return None


def _dormant(spec: Mapping[str, Any], *, automatic: bool) -> bool:
    if automatic and not _object(spec.get("target")).get("urlFrom"):
        return True
    policy = _object(spec.get("policy"))
    never = policy.get("apply") == "Never" and str(spec.get("interval", "10m")) in ("0", "0s")
    return never or not (spec.get("desired") or spec.get("artifact"))
