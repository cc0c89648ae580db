"""The watches of a manager: which kinds, which of their objects, and the census over them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ptahk.backends.kube.census import CensusIndex
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.informer import Informer
from ptahk.engine.model.resource import APPROVAL, CONFIG_MAP, PLAN
from ptahk.engine.ports import Document, Key

JOB_LABELS: Final = {"app.kubernetes.io/managed-by": "ptahk"}
"""What every Job of ours carries. A watch only wakes: nothing is recognised by it (C-4.2)."""


class Watches:
    """Informers, made once their callback is known. Implements ``engine.ports.Census``.

    :param client: of its own: a watch holds a connection.
    :param resources: the kinds that are reconciled.
    """

    def __init__(self, client: Client, resources: Sequence[str]) -> None:
        self._client = client
        self._resources = tuple(resources)
        self._made: dict[str, Informer] = {}
        self._census: CensusIndex | None = None

    def make(self, changed: Callable[[Key], None]) -> Mapping[str, Informer]:
        """The informers by kind, not started."""
        for kind in (*self._resources, PLAN, APPROVAL):
            self._made[kind] = Informer(self._client, kind, on_change=changed)
        # People's ConfigMaps hold declarations, and much else that is none of ours to keep.
        self._made[CONFIG_MAP] = Informer(
            self._client, CONFIG_MAP, on_change=changed, metadata_only=True
        )
        self._made["Job"] = Informer(self._client, "Job", on_change=changed, labels=JOB_LABELS)
        self._census = CensusIndex(*(self._made[kind] for kind in self._resources))
        return self._made

    def claimants(self, realm: str) -> tuple[Document, ...] | None:
        """As the index says; None: read live."""
        return None if self._census is None else self._census.claimants(realm)

    def uid_of(self, key: Key) -> str | None:
        """The uid of an object as last seen."""
        informer = self._made.get(key.kind)
        document = None if informer is None else informer.get(key)
        return None if document is None else str(document["metadata"]["uid"])
