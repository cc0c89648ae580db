"""What a watch has told: objects by key, which writes it has seen, which objects are poison.

One thread writes (the informer's), any thread reads. Documents are shared: nobody changes one.
resourceVersions are compared for equality only.
"""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from ptahk.backends.kube.kinds import Kind
from ptahk.backends.kube.reading import fault_of, tidy
from ptahk.engine.model import lease as leases
from ptahk.engine.model.migration import MIGRATION, parse_migration_spec
from ptahk.engine.model.plan import parse_approval, parse_plan
from ptahk.engine.model.resource import APPROVAL, LEASE, PLAN, SCHEMA, parse_spec
from ptahk.engine.model.status import parse as parse_status
from ptahk.engine.ports import Document, Key

VERSIONS_KEPT = 32
"""Of each key, so many of the resourceVersions seen last are known by ``seen``."""

FORGOTTEN_AFTER = 2048
"""Keys of deleted objects whose last versions are still known."""

PENDING_MAX = 8192
"""Writes that are waited for at once; beyond it the oldest waits for two lists instead of one."""

Observer = Callable[[Document | None, Document | None], None]
"""Told of each change, in order: (before, after). None: there was, or is, no such object."""

_log = logging.getLogger(__name__)


def model_fault(document: Document) -> str | None:
    """Why this object cannot be read into the engine's model; None: it can.

    :raises Exception: any, which says that it cannot.
    """
    kind = document["kind"]
    if kind in (SCHEMA, MIGRATION):
        parse_status(document.get("status"), document["metadata"]["uid"])
        (parse_spec if kind == SCHEMA else parse_migration_spec)(document.get("spec"))
    elif kind == PLAN:
        parse_plan(document)
    elif kind == APPROVAL:
        parse_approval(document)
    elif kind == LEASE:
        found = leases.parse(document)
        return found.message if isinstance(found, leases.Malformed) else None
    return None


class Cache:
    """Objects of one kind.

    :param check: why an object cannot be read into the model; it is kept and shown all the same,
        for the engine has to tell a person so.
    :param on_change: told the key of every change, after the observers.
    """

    def __init__(
        self,
        kind: Kind,
        on_change: Callable[[Key], None],
        check: Callable[[Document], str | None] = model_fault,
    ) -> None:
        self._kind = kind
        self._on_change = on_change
        self._check = check
        self._observers: list[Observer] = []
        self._lock = threading.Lock()
        self._documents: dict[Key, Document] = {}
        self._poison: dict[Key, str] = {}
        self._versions: dict[Key, deque[str]] = {}
        self._gone: OrderedDict[Key, deque[str]] = OrderedDict()
        self._pending: OrderedDict[tuple[Key, str], int] = OrderedDict()
        self._lists_begun = 0
        self._listed = 0
        """The newest list that was taken over whole, by its number."""

    def subscribe(self, observer: Observer) -> None:
        """Tell ``observer`` of every change, in the informer's thread. Before the first list."""
        self._observers.append(observer)

    def get(self, key: Key) -> Document | None:
        """The object as last told, to be read only."""
        with self._lock:
            return self._documents.get(key)

    def list(self) -> tuple[Document, ...]:
        """All of them, by (namespace, name), to be read only."""
        with self._lock:
            return tuple(self._documents[key] for key in sorted(self._documents))

    def poison(self) -> tuple[tuple[Key, str], ...]:
        """Objects that cannot be read, and why."""
        with self._lock:
            return tuple(sorted(self._poison.items()))

    def seen(self, key: Key, version: str) -> bool:
        """Whether the state shown here is at or after the write that was answered ``version``.

        True once that version was told, or a list that began after the first asking came whole.
        Ask right after the write, then after each change of the key.
        """
        with self._lock:
            known = self._versions.get(key) or self._gone.get(key) or ()
            if version in known:
                self._pending.pop((key, version), None)
                return True
            since = self._pending.get((key, version))
            if since is None:
                self._pending[key, version] = self._lists_begun
                if len(self._pending) > PENDING_MAX:
                    self._pending.popitem(last=False)
                return False
            if self._listed > since:
                del self._pending[key, version]
                return True
            return False

    def begin_list(self) -> int:
        """A list is about to be asked for; its number."""
        with self._lock:
            self._lists_begun += 1
            return self._lists_begun

    def replace(self, items: Iterable[Any], number: int) -> None:
        """Take over a whole list: what it lacks is deleted, whatever events were lost."""
        found: dict[Key, Document] = {}
        poison: dict[Key, str] = {}
        for item in items:
            self._sort_in(item, found, poison)
        with self._lock:
            # A known object that came unreadable stands as it was last read.
            missing = [key for key in self._documents if key not in found and key not in poison]
            self._poison = poison
        for key in missing:
            self._remove(key)
        for key, document in found.items():
            self._put(key, document)
        with self._lock:
            self._listed = number

    def apply(self, type: str, item: Any) -> None:
        """Take over one event: ``ADDED``, ``MODIFIED`` or ``DELETED``."""
        found: dict[Key, Document] = {}
        poison: dict[Key, str] = {}
        self._sort_in(item, found, poison)
        with self._lock:
            for key in (*found, *poison):
                self._poison.pop(key, None)
            if type != "DELETED":
                self._poison.update(poison)
        for key, document in found.items():
            if type == "DELETED":
                self._deleted(key, document)
            else:
                self._put(key, document)

    def _sort_in(self, item: Any, found: dict[Key, Document], poison: dict[Key, str]) -> None:
        fault = fault_of(item, self._kind)
        if fault is not None:
            poison[self._key(item)] = fault
            return
        document = tidy(item, self._kind)
        key = self._key(document)
        found[key] = document
        reason = self._reason(document)
        if reason is not None:
            poison[key] = reason

    def _reason(self, document: Document) -> str | None:
        try:
            return self._check(document)
        except Exception as error:
            # Whatever one hostile object does to its reader, the others go on.
            return str(error)[:300] or type(error).__name__

    def _key(self, item: Any) -> Key:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        metadata = metadata if isinstance(metadata, dict) else {}
        namespace, name = metadata.get("namespace"), metadata.get("name")
        return Key(
            self._kind.name,
            namespace if isinstance(namespace, str) else "",
            name if isinstance(name, str) and name else "?",
        )

    def _put(self, key: Key, document: Document) -> None:
        new = document["metadata"]
        with self._lock:
            old = self._documents.get(key)
            held = old["metadata"] if old is not None else {}
            same = held.get("uid") == new["uid"]
            if old == document:
                return  # told before; a version alone may come again where a store was put back
            self._documents[key] = document
            self._version(key, new["resourceVersion"])
        if old is not None and not same:
            # The name was given again: the first one's end was not told.
            self._tell(key, old, None)
            old = None
        self._tell(key, old, document)

    def _deleted(self, key: Key, document: Document) -> None:
        with self._lock:
            old = self._documents.get(key)
            if old is None or old["metadata"]["uid"] != document["metadata"]["uid"]:
                return
            self._version(key, document["metadata"]["resourceVersion"])
        self._remove(key)

    def _remove(self, key: Key) -> None:
        with self._lock:
            old = self._documents.pop(key)
            versions = self._versions.pop(key, None)
            if versions is not None:
                self._gone[key] = versions
                self._gone.move_to_end(key)
                if len(self._gone) > FORGOTTEN_AFTER:
                    self._gone.popitem(last=False)
        self._tell(key, old, None)

    def _version(self, key: Key, version: str) -> None:
        held = self._versions.get(key)
        if held is None:
            held = self._gone.pop(key, None) or deque(maxlen=VERSIONS_KEPT)
            self._versions[key] = held
        held.append(version)

    def _tell(self, key: Key, old: Document | None, new: Document | None) -> None:
        for observer in self._observers:
            self._isolated(key, observer, old, new)
        self._isolated(key, self._on_change, key)

    def _isolated(self, key: Key, told: Callable[..., None], *what: Any) -> None:
        try:
            told(*what)
        except Exception:
            # Its own fault: the cache is right, and the others are told.
            _log.exception("telling a change of %s failed", key)
