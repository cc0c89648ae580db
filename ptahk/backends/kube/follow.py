"""Follows one object, or the objects of a kind, for a command that waits: list, then watch.

The manager's informer keeps a cache and answers for its freshness. A command needs neither: it
is told what is stored now, and then each change, until it has seen what it waits for.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from ptahk.backends.kube.answers import Expired, refusal_of
from ptahk.backends.kube.client import Client, Stream
from ptahk.backends.kube.kinds import kind_of
from ptahk.backends.kube.reading import (
    GRACE_S,
    WATCH_BYTES_MAX,
    events,
    fault_of,
    list_all,
    tidy,
)
from ptahk.engine.ports import PortError, Unavailable

WATCH_S = 240
"""The server ends a watch after so long; the next goes on from where it ended."""
IDLE_S = 100.0
"""A watch that says nothing for so long is taken for dead: bookmarks come every minute."""
SHORT_S = 0.5
"""A watch that ends sooner and told nothing is a failure, or the next would follow at once."""
PAUSE_MIN_S = 0.2
PAUSE_MAX_S = 5.0


What = Literal["Listed", "Changed", "Gone", "Trouble"]
"""``Listed``: a tuple of what is stored now, and what is not in it is gone. ``Changed``: one
object as it is now. ``Gone``: one as it last was. ``Trouble``: the PortError of a request that
is made again."""

Tell = Callable[[What, Any], None]


class Follow:
    """A thread that tells what happens.

    :param name: only this object; then ``namespace`` is needed too.
    :param tell: is called from that thread with each event; must not wait.
    """

    def __init__(
        self,
        client: Client,
        kind: str,
        *,
        namespace: str | None,
        name: str | None,
        tell: Tell,
    ) -> None:
        self._client = client
        self._kind = kind_of(kind)
        self._namespace = namespace
        self._name = name
        self._tell = tell
        self._stopped = threading.Event()
        self._stream: Stream | None = None
        self._lively = False
        """A watch has told something since the last list."""
        self._thread = threading.Thread(target=self._run, name=f"follow-{kind}", daemon=True)

    def start(self) -> None:
        """Begin; what is stored now is told first."""
        self._thread.start()

    def close(self) -> None:
        """End. The thread may be in a request, which has a deadline of its own."""
        self._stopped.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        pause_s = PAUSE_MIN_S
        while not self._stopped.is_set():
            self._lively = False
            try:
                since = self._list()
                while not self._stopped.is_set():
                    since = self._watch(since)
                return
            except Expired:
                # What was watched from is forgotten: list again, but not without a pause.
                self._stopped.wait(PAUSE_MIN_S)
                continue
            except PortError as error:
                trouble = error
            except Exception as error:
                # A thread that ends unseen would leave its command waiting for nothing.
                trouble = Unavailable(f"what it tells cannot be read ({type(error).__name__})")
            if self._stopped.is_set():
                return
            self._tell("Trouble", trouble)
            pause_s = PAUSE_MIN_S if self._lively else pause_s
            self._stopped.wait(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(PAUSE_MAX_S, pause_s * 2)

    def _query(self) -> dict[str, str]:
        return {} if self._name is None else {"fieldSelector": f"metadata.name={self._name}"}

    def _list(self) -> str:
        items, version = self._stored()
        whole = [item for item in items if fault_of(item, self._kind) is None]
        self._tell("Listed", tuple(tidy(item, self._kind) for item in whole))
        return version

    def _stored(self) -> tuple[list[Any], str]:
        if self._name is None:
            return list_all(self._client, self._kind, self._namespace)
        path = self._kind.path(self._namespace)
        document = self._client.request("GET", path, query=self._query()).document()
        metadata, items = document.get("metadata"), document.get("items")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(items, list | None) or not isinstance(version, str):
            raise Unavailable(f"list of {self._kind.name}: the answer is no list")
        return items or [], version

    def _watch(self, since: str) -> str:
        query = self._query() | {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        stream = self._client.stream(
            self._kind.path(self._namespace),
            query,
            deadline_s=WATCH_S + GRACE_S,
            bytes_max=WATCH_BYTES_MAX,
            idle_s=IDLE_S,
        )
        self._stream = stream
        what, began, told = f"watch of {self._kind.name}", time.monotonic(), False
        with stream:
            if self._stopped.is_set():
                return since
            for event in events(stream, what):
                kind, document = event["type"], event["object"]
                if kind == "ERROR":
                    raise refusal_of(document, what)
                since = document["metadata"]["resourceVersion"]
                self._lively = told = True
                if kind == "BOOKMARK" or fault_of(document, self._kind) is not None:
                    continue
                self._tell("Gone" if kind == "DELETED" else "Changed", tidy(document, self._kind))
        if not told and time.monotonic() - began < SHORT_S:
            raise Unavailable(f"{what}: it ended at once")
        return since
