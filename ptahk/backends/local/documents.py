"""What an API server does to a document on the way into the store. Pure.

The rules are Kubernetes's own, so that the engine meets one set of semantics everywhere: the
server owns uid, resourceVersion, generation and the two times; spec and status are written
apart; an object with finalizers is only marked by a delete; what its last finalizer held goes
with the write that removes it.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from ptahk.engine.ports import Conflict, Document, Invalid, Key

NAME_LENGTH_MAX = 253
LABEL_VALUE_LENGTH_MAX = 63

WITHOUT_STATUS = frozenset({"ConfigMap", "Lease", "PtahApproval"})
"""Kinds that have no status of their own to write."""

IMMUTABLE_SPEC = frozenset({"PtahPlan", "PtahApproval"})
"""Kinds whose spec is evidence and never changes (C-2)."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")
_SERVER_OWNED = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
)  # fmt: skip


def copy(value: Any) -> Any:
    """A deep copy of a JSON value; several times faster than ``copy.deepcopy``.

    :raises Invalid: it is not JSON.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is dict:
        out = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise Invalid("a key of the document is not text")
            # Most values are text: asking here saves a call for each.
            out[key] = item if type(item) is str else copy(item)
        return out
    if isinstance(value, str | int):
        return value
    if isinstance(value, list | tuple):
        return [copy(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise Invalid(f"a {type(value).__name__} in the document is not JSON")


def key(document: Mapping[str, Any]) -> Key:
    """The document's address.

    :raises Invalid: it has none.
    """
    try:
        metadata = document["metadata"]
        return Key(document["kind"], metadata["namespace"], metadata["name"])
    except (KeyError, TypeError):
        raise Invalid("kind, metadata.namespace and metadata.name must be set") from None


def created(given: Mapping[str, Any], *, uid: str, rv: int, now: str) -> Document:
    """The document that a create stores.

    :param uid: used unless the document brings one, as local resources do (C-7.2).
    :param now: RFC 3339 UTC.
    :raises Invalid: the document is not one, or was stored before.
    """
    document: Document = copy(dict(given))
    _check_head(document)
    metadata = document["metadata"]
    if metadata.get("resourceVersion"):
        raise Invalid("metadata.resourceVersion must not be set on a create")
    chosen = metadata.get("uid") or uid
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
    metadata |= {
        "uid": chosen,
        "resourceVersion": str(rv),
        "generation": 1,
        "creationTimestamp": now,
    }
    return _tidy(document)


def replaced(old: Document, given: Mapping[str, Any], *, rv: int) -> Document | None:
    """The document after a replace of all but its status; ``old`` itself where nothing changes.

    None: the write removed the last finalizer of a deleted object, which so is gone.

    :raises Conflict: a precondition failed.
    :raises Invalid: the change is not allowed.
    """
    document: Document = copy(dict(given))
    _check_head(document)
    check_expected(old, document["metadata"], needed=True)
    metadata, stored = document["metadata"], old["metadata"]
    for name in _SERVER_OWNED:
        metadata.pop(name, None)
        if name in stored:
            metadata[name] = stored[name]
    document.pop("status", None)
    if "status" in old:
        document["status"] = old["status"]
    document = _tidy(document)
    _check_change(old, document)
    if document == old:
        return old
    if "deletionTimestamp" in stored and not metadata.get("finalizers"):
        return None
    if _content(document) != _content(old):
        metadata["generation"] = stored["generation"] + 1
    metadata["resourceVersion"] = str(rv)
    return document


def with_status(old: Document, given: Mapping[str, Any], *, rv: int) -> Document:
    """The document after a write of its status alone; ``old`` itself where nothing changes.

    :raises Conflict: a precondition failed.
    :raises Invalid: the kind has no status.
    """
    if old["kind"] in WITHOUT_STATUS:
        raise Invalid(f"{old['kind']} has no status")
    check_expected(old, given.get("metadata", {}), needed=True)
    status = copy(given.get("status"))
    if status == old.get("status"):
        return old
    document: Document = copy(old)
    if status is None:
        document.pop("status")
    else:
        document["status"] = status
    document["metadata"]["resourceVersion"] = str(rv)
    return document


def marked_deleted(old: Document, *, rv: int, now: str) -> Document | None:
    """The document after a delete: marked where a finalizer holds it, else None (gone)."""
    if not old["metadata"].get("finalizers"):
        return None
    if "deletionTimestamp" in old["metadata"]:
        return old
    document: Document = copy(old)
    metadata = document["metadata"]
    metadata["deletionTimestamp"] = now
    # The API server counts the mark as a change of what is wanted, so a watcher of
    # generations sees it.
    metadata["generation"] += 1
    metadata["resourceVersion"] = str(rv)
    return document


def check_expected(old: Document, expected: Mapping[str, Any], *, needed: bool) -> None:
    """Compare-and-swap: the uid and resourceVersion that the writer last saw must still stand.

    :param needed: a resourceVersion must be there (invariant 21).
    :raises Conflict: they differ.
    """
    metadata = old["metadata"]
    if needed and not expected.get("resourceVersion"):
        raise Invalid("metadata.resourceVersion must be set")
    for name in ("uid", "resourceVersion"):
        wanted = expected.get(name)
        if wanted and wanted != metadata[name]:
            raise Conflict(f"{describe(old)}: metadata.{name} is no longer {wanted}")


def matches(document: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    """Whether the document's labels carry every pair of the selector."""
    labels = document["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in selector.items())


def owners(document: Mapping[str, Any]) -> frozenset[str]:
    """UIDs of the objects whose end is this one's end."""
    references = document["metadata"].get("ownerReferences", ())
    return frozenset(reference["uid"] for reference in references)


def describe(document: Mapping[str, Any]) -> str:
    """``Kind namespace/name``, for messages."""
    metadata = document["metadata"]
    return f"{document['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def _check_head(document: Document) -> None:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise Invalid("metadata is missing")
    for name in ("apiVersion", "kind"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise Invalid(f"{name} is missing")
    for name in ("namespace", "name"):
        value = metadata.get(name)
        if not isinstance(value, str) or len(value) > NAME_LENGTH_MAX or not _NAME.match(value):
            raise Invalid(f"metadata.{name} is not a DNS name")
    for value in metadata.get("labels", {}).values():
        if not isinstance(value, str) or len(value) > LABEL_VALUE_LENGTH_MAX:
            raise Invalid("metadata.labels: a value is not a label")


def _check_change(old: Document, document: Document) -> None:
    held, wanted = old["metadata"], document["metadata"]
    for name in ("apiVersion", "kind"):
        if document[name] != old[name]:
            raise Invalid(f"{describe(old)}: {name} is immutable")
    if "deletionTimestamp" in held and set(wanted.get("finalizers", ())) - set(
        held.get("finalizers", ())
    ):
        raise Invalid(f"{describe(old)}: no new finalizers on a deleted object")
    frozen = old["kind"] in IMMUTABLE_SPEC or old.get("immutable") is True
    if frozen and _content(document) != _content(old):
        raise Invalid(f"{describe(old)} is immutable")


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}


def _tidy(document: Document) -> Document:
    """Without the empty collections that an API server does not store either."""
    metadata = document["metadata"]
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]
    return document
