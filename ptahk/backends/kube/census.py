"""Coordination digest → the resources that name it, kept from the watches (C-6.4).

What an event costs does not grow with the number of resources: one resource is taken out of the
few realms that it named and put into those that it names. The judgement stays the engine's
(``engine.peers``, ``engine.census``); before a dispatch it reads live whatever this says.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from ptahk.engine import peers
from ptahk.engine.ports import Document, Key, key_of

AGE_MAX_S = 180.0
"""An index that has had no proof of freshness for so long answers nothing: the census is then
read live. Bookmarks come every minute."""


class Watch(Protocol):
    """What the index asks of an informer."""

    @property
    def synced(self) -> threading.Event: ...

    def subscribe(self, observer: Callable[[Document | None, Document | None], None]) -> None: ...

    def age_s(self) -> float: ...


class CensusIndex:
    """Implements ``engine.ports.Census`` over the informers of all resource kinds.

    :param age_max_s: seconds; see ``AGE_MAX_S``.
    """

    def __init__(self, *watches: Watch, age_max_s: float = AGE_MAX_S) -> None:
        """Follow these watches, which have not started yet."""
        self._watches = watches
        self._age_max_s = age_max_s
        self._lock = threading.Lock()
        self._realms: dict[str, dict[Key, Document]] = {}
        self._named: dict[Key, frozenset[str]] = {}
        for watch in watches:
            watch.subscribe(self.update)

    def update(self, old: Document | None, new: Document | None) -> None:
        """Take over one change of a resource; None: there was, or is, none."""
        shown = new if new is not None else old
        if shown is None:
            return
        key = key_of(shown)
        named = peers.realms(new) if new is not None else frozenset()
        with self._lock:
            for realm in self._named.pop(key, frozenset()) - named:
                held = self._realms[realm]
                del held[key]
                if not held:
                    del self._realms[realm]
            if new is None or not named:
                return
            self._named[key] = named
            for realm in named:
                self._realms.setdefault(realm, {})[key] = new

    def claimants(self, realm: str) -> tuple[Document, ...] | None:
        """Every resource that names the realm in its spec or in a claim, by key; to be read only.

        None: a watch is not whole or not fresh, so the census has to be read live.
        """
        for watch in self._watches:
            if not watch.synced.is_set() or watch.age_s() > self._age_max_s:
                return None
        with self._lock:
            held = self._realms.get(realm, {})
            return tuple(held[key] for key in sorted(held))

    def realms(self) -> frozenset[str]:
        """Every realm that a resource names."""
        with self._lock:
            return frozenset(self._realms)
