"""Which resources a changed object wakes. Waking only costs a pass; every pass reads live."""

import threading
from collections.abc import Callable, Collection
from typing import Any

from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import APPROVAL, CONFIG_MAP, SCHEMA
from ptahk.engine.ports import Document, Key

JOB = "Job"
_SOURCES = {SCHEMA: "desired", MIGRATION: "artifact"}
"""Kind of a resource → the field of its spec that names what it reads."""

Wake = Callable[[Key], None]


class Wakes:
    """From an object's key to the resources that want a look.

    :param kinds: the kinds of resources that are reconciled.
    """

    def __init__(self, kinds: Collection[str]) -> None:
        self._kinds = frozenset(kinds)
        self._lock = threading.Lock()
        self._owned: dict[Key, tuple[Key, ...]] = {}
        """Object → resources, as last seen: what is deleted still wakes its owner."""
        self._reads: dict[Key, Key] = {}
        """Resource → the ConfigMap that it reads."""
        self._readers: dict[Key, set[Key]] = {}

    def resource(self, key: Key, document: Document | None) -> None:
        """A resource as last seen: which ConfigMap it reads."""
        wanted = None if document is None else _config_map(key.kind, document)
        with self._lock:
            known = self._reads.pop(key, None)
            if known is not None:
                readers = self._readers[known]
                readers.discard(key)
                if not readers:
                    del self._readers[known]
            if wanted is not None:
                self._reads[key] = wanted
                self._readers.setdefault(wanted, set()).add(key)

    def of(self, key: Key, document: Document | None) -> tuple[Key, ...]:
        """Resources that a change of this object wakes.

        :param document: as last seen; None: it is gone.
        """
        if key.kind in self._kinds:
            return (key,)
        with self._lock:
            if key.kind == CONFIG_MAP:
                return tuple(sorted(self._readers.get(key, ())))
            before = self._owned.pop(key, ())
            if document is None:
                return before
            now = self._owners(document)
            if now:
                self._owned[key] = now
            return tuple(dict.fromkeys((*before, *now)))

    def _owners(self, document: Document) -> tuple[Key, ...]:
        metadata = document["metadata"]
        namespace = metadata.get("namespace", "")
        named: list[Any] = list(metadata.get("ownerReferences") or ())
        if document.get("kind") == APPROVAL:
            named.append((document.get("spec") or {}).get("resource"))
        return tuple(
            Key(item["kind"], namespace, item["name"])
            for item in named
            if isinstance(item, dict)
            and item.get("kind") in self._kinds
            and isinstance(item.get("name"), str)
        )


def _config_map(kind: str, document: Document) -> Key | None:
    spec = document.get("spec")
    source = spec.get(_SOURCES.get(kind)) if isinstance(spec, dict) else None
    named = source.get("configMapRef") if isinstance(source, dict) else None
    name = named.get("name") if isinstance(named, dict) else None
    if not isinstance(name, str):
        return None
    return Key(CONFIG_MAP, document["metadata"].get("namespace", ""), name)
