"""The port suite's Kubernetes column: a real API server, beside whatever else is on it.

The suite writes documents that no real resource would hold (``spec: {n: 1}``), lists all
namespaces and expects to be alone. So its kinds live in an API group of the test run, with a
loose schema, and every test has namespaces of its own: this translates between the two.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS, Kind, table
from ptahk.backends.kube.objects import KubeObjects
from ptahk.engine.model.resource import API_VERSION, APPROVAL, PLAN, SCHEMA
from ptahk.engine.ports import Change, Document, Key, Unavailable
from tests.kit.controlplane import Cluster
from tests.kit.waiting import until

MASTERS = "system:masters"
FROZEN = [{"rule": "self == oldSelf", "message": "is immutable"}]


def loose_crd(group: str, kind: Kind) -> Document:
    """A CRD that takes any spec and status; evidence is immutable, as in the real one."""
    anything: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = anything | ({"x-kubernetes-validations": FROZEN} if kind.name == PLAN else {})
    version: Document = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": anything}}
        },
    }
    if kind.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "listKind": f"{kind.name}List",
            },
            "versions": [version],
        },
    }


class Group:
    """An API group of this run with loose copies of our kinds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"t{secrets.token_hex(5)}.ptahk.test"
        self.api_version = f"{self.name}/v1alpha1"
        self.kubeconfig: Path = cluster.kubeconfig("ptahk-ports", [MASTERS])
        own = [
            Kind(k.name, self.api_version, k.plural, status=k.status)
            for k in (KINDS[SCHEMA], KINDS[PLAN], KINDS[APPROVAL])
        ]
        self.kinds: Mapping[str, Kind] = {**KINDS, **table(*own)}
        crds = {
            "apiVersion": "v1", "kind": "List", "items": [loose_crd(self.name, k) for k in own],
        }  # fmt: skip
        cluster.kubectl("create", "--filename=-", stdin=json.dumps(crds))
        for kind in own:
            cluster.kubectl(
                "wait", "--for=condition=Established", "--timeout=60s",
                f"crd/{kind.plural}.{self.name}",
            )  # fmt: skip
        client = self.client()
        for kind in own:
            until(partial(_served, client, kind.path()), f"{kind.name} to be served")
        client.close()

    def client(self) -> Client:
        """A client with every right."""
        return Client.load(self.kubeconfig, None)

    def remove(self) -> None:
        """Take the kinds away again, with every object of theirs."""
        for name in (SCHEMA, PLAN, APPROVAL):
            crd = f"{self.kinds[name].plural}.{self.name}"
            self.cluster.kubectl("delete", "crd", crd, "--wait=false")


def _served(client: Client, path: str) -> bool:
    try:
        return client.request("GET", path).status == 200
    except Unavailable:  # not there yet, or "storage is (re)initializing"
        return False


class Column:
    """The Objects port of one test: its own namespaces, the suite's own names."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.prefix = f"p{secrets.token_hex(5)}-"
        self.client = group.client()
        self.objects = KubeObjects(self.client, kinds=group.kinds)
        self.namespaces: set[str] = set()

    def namespace(self, name: str) -> str:
        """The real namespace of that name, made where there is none."""
        real = self.prefix + name
        if real not in self.namespaces:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": real}}
            self.client.request("POST", KINDS["Namespace"].path(), body=body)
            self.namespaces.add(real)
        return real

    def newest(self) -> str:
        """The newest resourceVersion."""
        path = self.group.kinds[SCHEMA].path()
        found = self.client.request("GET", path, query={"limit": "1"}).document()
        return str(found["metadata"]["resourceVersion"])

    def reopen(self) -> Column:
        """The same, as another process finds it."""
        other = Column(self.group)
        other.prefix, other.namespaces = self.prefix, self.namespaces
        return other

    def close(self) -> None:
        for real in sorted(self.namespaces):
            self.group.cluster.kubectl("delete", "namespace", real, "--wait=false")
        self.client.close()

    def get(self, key: Key) -> Document:
        return self._in(self.objects.get(key._replace(namespace=self.namespace(key.namespace))))

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        real = None if namespace is None else self.namespace(namespace)
        found = self.objects.list(kind, real, labels)
        return tuple(self._in(item) for item in found if self._ours(item))

    def create(self, document: Document) -> Document:
        return self._in(self.objects.create(self._out(document)))

    def replace(self, document: Document) -> Document:
        return self._in(self.objects.replace(self._out(document)))

    def replace_status(self, document: Document) -> Document:
        return self._in(self.objects.replace_status(self._out(document)))

    def delete(self, document: Document) -> None:
        self.objects.delete(self._out(document))

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        real = None if namespace is None else self.namespace(namespace)
        for change in self.objects.watch(kind, real, since, timeout_s):
            if self._ours(change.document):
                yield Change(change.type, self._in(change.document))

    def _ours(self, document: Document) -> bool:
        return str(document["metadata"]["namespace"]).startswith(self.prefix)

    def _out(self, document: Document) -> Document:
        return self._translated(document, API_VERSION, self.group.api_version, outwards=True)

    def _in(self, document: Document) -> Document:
        return self._translated(document, self.group.api_version, API_VERSION, outwards=False)

    def _translated(self, document: Document, old: str, new: str, *, outwards: bool) -> Document:
        found: dict[str, Any] = dict(document)
        if found.get("apiVersion") == old:
            found["apiVersion"] = new
        if isinstance(found.get("metadata"), dict):
            metadata = found["metadata"] = dict(found["metadata"])
            name = metadata.get("namespace")
            if isinstance(name, str) and name:
                metadata["namespace"] = (
                    self.namespace(name) if outwards else name.removeprefix(self.prefix)
                )
            if "ownerReferences" in metadata:
                metadata["ownerReferences"] = [
                    reference
                    | {"apiVersion": new if reference["apiVersion"] == old else
                       reference["apiVersion"]}
                    for reference in metadata["ownerReferences"]
                ]  # fmt: skip
        return found
