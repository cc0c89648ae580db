"""Which API serves a kind, and the paths of its objects."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from ptahk.engine.model.migration import MIGRATION as MIGRATION
from ptahk.engine.model.resource import API_VERSION, APPROVAL, CONFIG_MAP, LEASE, PLAN, SCHEMA
from ptahk.engine.ports import Invalid

GROUP = API_VERSION.partition("/")[0]
NAME_LENGTH_MAX = 253
_NAME = re.compile(r"[a-z0-9]([a-z0-9.:-]*[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as an API server serves it."""

    name: str
    api_version: str
    plural: str
    namespaced: bool = True
    status: bool = True
    """It has a status of its own to write."""

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """The path of one object, of its subresource, or of the collection.

        :param namespace: None or empty: all namespaces, or a kind without.
        :param sub: for example ``status``.
        :raises Invalid: a name that no object can have; a path never leaves its collection.
        """
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", _checked(namespace, "namespace")]
        elif name is not None and self.namespaced:
            raise Invalid(f"{self.name} {name}: metadata.namespace is missing")
        parts.append(self.plural)
        if name is not None:
            parts.append(_checked(name, "name"))
        if sub:
            parts.append(sub)
        return "/".join(parts)


def _checked(value: str, what: str) -> str:
    if not isinstance(value, str) or len(value) > NAME_LENGTH_MAX or not _NAME.match(value):
        raise Invalid(f"metadata.{what} is not a DNS name")
    return quote(value, safe="")


def table(*kinds: Kind) -> Mapping[str, Kind]:
    """Kinds by name."""
    return {kind.name: kind for kind in kinds}


KINDS = table(
    Kind(SCHEMA, API_VERSION, "ptahschemas"),
    Kind(MIGRATION, API_VERSION, "ptahmigrations"),
    Kind(PLAN, API_VERSION, "ptahplans", status=False),
    Kind(APPROVAL, API_VERSION, "ptahapprovals", status=False),
    Kind(CONFIG_MAP, "v1", "configmaps", status=False),
    Kind(LEASE, "coordination.k8s.io/v1", "leases", status=False),
    Kind("Job", "batch/v1", "jobs"),
    Kind("Pod", "v1", "pods"),
    Kind("ServiceAccount", "v1", "serviceaccounts", status=False),
    Kind("LimitRange", "v1", "limitranges", status=False),
    Kind("Node", "v1", "nodes", namespaced=False),
    Kind("Namespace", "v1", "namespaces", namespaced=False),
    Kind("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", namespaced=False),
    Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    Kind(
        "CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions",
        namespaced=False,
    ),
)  # fmt: skip
"""What this backend reads and writes. Secrets are not among it: nobody but the kubelet reads one
(C-8.2)."""


def kind_of(name: str, kinds: Mapping[str, Kind] = KINDS) -> Kind:
    """:raises Invalid: the kind is none of ours."""
    try:
        return kinds[name]
    except (KeyError, TypeError):
        raise Invalid(f"kind {name!r} is not one that ptahk stores") from None
