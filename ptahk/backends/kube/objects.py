"""The Objects port over an API server: each verb one request, never sent again.

Every write carries ``uid`` and ``resourceVersion`` of what its writer last saw. The uid matters:
a PUT of a Lease that is gone would create it anew (hazard D6), and with the uid it is refused.
"""

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ptahk.backends.kube.answers import Answer, refusal_of, unreadable
from ptahk.backends.kube.client import TIMEOUT_S, Client
from ptahk.backends.kube.kinds import KINDS, Kind, kind_of
from ptahk.backends.kube.reading import events, fault_of, list_all, tidy, watch
from ptahk.engine.ports import Change, Document, Invalid, Key

_SERVER_OWNED = frozenset({
    "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
    "selfLink", "managedFields",
})  # fmt: skip
_NEVER_SET = _SERVER_OWNED | {"uid", "resourceVersion"}
_CHANGES: Mapping[str, Literal["Added", "Modified", "Deleted"]] = {
    "ADDED": "Added",
    "MODIFIED": "Modified",
    "DELETED": "Deleted",
}


class KubeObjects:
    """Documents of one cluster.

    :param kinds: which API serves a kind; another table serves tests beside real resources.
    :param timeout_s: outer deadline of one request.
    """

    def __init__(
        self,
        client: Client,
        *,
        kinds: Mapping[str, Kind] = KINDS,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._timeout_s = timeout_s

    def get(self, key: Key) -> Document:
        """The object now, read from etcd."""
        kind = kind_of(key.kind, self._kinds)
        path = kind.path(key.namespace, key.name)
        return _stored(self._request("GET", path), kind, key.namespace, key.name)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        """One consistent state, in pages. :raises Unavailable: an item is no object."""
        served = kind_of(kind, self._kinds)
        items, _ = list_all(self._client, served, namespace, labels, timeout_s=self._timeout_s)
        for item in items:
            fault = fault_of(item, served)
            if fault is not None:
                unreadable(False, f"list of {kind}: {fault}")
        found = [tidy(item, served) for item in items]
        found.sort(key=lambda d: (d["metadata"].get("namespace", ""), d["metadata"]["name"]))
        return tuple(found)

    def create(self, document: Document) -> Document:
        """Store a new object. Its uid is the server's choice, always.

        :raises Invalid: also where its namespace does not exist.
        """
        kind, metadata = self._head(document)
        for field in ("resourceVersion", "generateName"):
            if metadata.get(field):
                raise Invalid(f"metadata.{field} must not be set on a create")
        kept = {key: value for key, value in metadata.items() if key not in _NEVER_SET}
        body = {key: value for key, value in document.items() if key != "status"}
        namespace, name = metadata.get("namespace"), metadata.get("name")
        kind.path(namespace, name)  # checks the name, which stands in the body alone
        path = kind.path(namespace)
        return _stored(
            self._request("POST", path, body | {"metadata": kept}), kind, namespace, name
        )

    def replace(self, document: Document) -> Document:
        """Replace all but the status."""
        _, metadata = self._head(document)
        kept = {key: value for key, value in metadata.items() if key not in _SERVER_OWNED}
        body = {key: value for key, value in document.items() if key != "status"}
        return self._put(document, body | {"metadata": kept}, "")

    def replace_status(self, document: Document) -> Document:
        """Replace the status alone. :raises Invalid: the kind has none."""
        kind, metadata = self._head(document)
        if not kind.status:
            raise Invalid(f"{kind.name} has no status")
        head = {
            name: metadata[name]
            for name in ("namespace", "name", "uid", "resourceVersion")
            if name in metadata
        }
        body: Document = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": head,
        }
        if document.get("status") is not None:
            body["status"] = document["status"]
        return self._put(document, body, "status")

    def delete(self, document: Document) -> None:
        """Delete what the document shows; what it owned goes afterwards, by the cluster's hand."""
        kind, metadata = self._head(document)
        uid, version = _expected(metadata)
        options: Document = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
            "propagationPolicy": "Background",
        }
        path = kind.path(metadata.get("namespace"), metadata.get("name"))
        self._request("DELETE", path, options).document()

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        """Changes after ``since``; ends when ``timeout_s`` (at least a second) brought none.

        :raises Invalid: ``since`` is malformed, or older than what the server remembers: list
            again.
        """
        if not since.isdecimal() or since == "0":
            raise Invalid("since is not a resourceVersion")
        served = kind_of(kind, self._kinds)
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(1, math.ceil(deadline - time.monotonic()))
            with watch(
                self._client, served, namespace, None, since=since, timeout_s=left_s
            ) as stream:
                for event in events(stream, f"watch of {kind}"):
                    document = event["object"]
                    if event["type"] == "ERROR":
                        raise refusal_of(document, f"watch of {kind}")
                    since = document.get("metadata", {}).get("resourceVersion") or since
                    change = _CHANGES.get(event["type"])
                    if change is not None:
                        yield Change(change, tidy(document, served))
                        deadline = time.monotonic() + timeout_s
            if time.monotonic() >= deadline:
                return

    def _put(self, document: Document, body: Document, sub: str) -> Document:
        kind, metadata = self._head(document)
        _expected(metadata)
        namespace, name = metadata.get("namespace"), metadata.get("name")
        path = kind.path(namespace, name, sub)
        return _stored(self._request("PUT", path, body), kind, namespace, name)

    def _request(self, method: str, path: str, body: Document | None = None) -> Answer:
        return self._client.request(method, path, body=body, timeout_s=self._timeout_s)

    def _head(self, document: Document) -> tuple[Kind, dict[str, Any]]:
        metadata = document.get("metadata")
        if not isinstance(metadata, dict):
            raise Invalid("metadata is missing")
        kind = kind_of(document.get("kind", ""), self._kinds)
        if document.get("apiVersion") != kind.api_version:
            raise Invalid(f"apiVersion of a {kind.name} must be {kind.api_version}")
        return kind, metadata


def _expected(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """uid and resourceVersion that the writer last saw (invariant 21)."""
    found = []
    for name in ("uid", "resourceVersion"):
        value = metadata.get(name)
        if not isinstance(value, str) or not value:
            raise Invalid(f"metadata.{name} must be set")
        found.append(value)
    return found[0], found[1]


def _stored(answer: Answer, kind: Kind, namespace: str | None, name: str | None) -> Document:
    """The object in an answer; it must be the one that was asked for."""
    document = answer.document()
    fault = fault_of(document, kind)
    if fault is None:
        metadata = document["metadata"]
        if metadata["name"] != name or (kind.namespaced and metadata["namespace"] != namespace):
            fault = "it is another object"
    if fault is not None:
        unreadable(answer.write, f"{answer.what}: the answer is no such object: {fault}")
    return tidy(document, kind)
