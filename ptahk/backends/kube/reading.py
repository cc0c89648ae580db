"""Lists in pages and watches line by line, in raw JSON: shared by the port and the informer."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ptahk.backends.kube.answers import Expired, parse_event
from ptahk.backends.kube.client import TIMEOUT_S, Client, Stream
from ptahk.backends.kube.kinds import Kind
from ptahk.backends.kube.transport import Cancel
from ptahk.engine.ports import Document, Unavailable

PAGE = 100
"""Objects of one page. etcd stores at most 1.5 MiB of each, so a page stays below the largest
answer, and reading it as JSON does not stop the other threads for long."""

LIST_S = 60.0
"""A whole list takes no longer."""

RESTARTS_MAX = 5
"""A list whose continue token has expired begins again, so often."""

LINE_BYTES_MAX = 8 * 1024 * 1024
"""Longest event of a watch: an object of etcd's largest size, escaped."""

WATCH_BYTES_MAX = 1 << 30
"""A watch that brought more ends, and the next begins."""


GRACE_S = 10.0
"""The server ends a watch in time; after this much longer it is half-open (hazard F1)."""


class Unreadable(Unavailable):
    """What the server sent is no event: the state has to be listed again."""


def list_all(
    client: Client, kind: Kind, namespace: str | None = None,
    labels: Mapping[str, str] | None = None, *, page: int = PAGE, accept: str | None = None,
    within_s: float = LIST_S, timeout_s: float = TIMEOUT_S, cancel: Cancel | None = None,
) -> tuple[list[Any], str]:  # fmt: skip
    """All items as they are, and the resourceVersion that they are of: one consistent state.

    Read from etcd, not from a cache of the server: no resourceVersion is asked for (hazard F5).

    :param accept: another form of the items than the whole objects.
    :param within_s: the whole list; ``timeout_s``: each page of it.
    :raises Unavailable: it took too long, or the server said something odd.
    :raises PortError: as ``Client.request``.
    """
    deadline = time.monotonic() + within_s
    for _ in range(RESTARTS_MAX):
        try:
            return _pages(
                client, kind, namespace, labels, page, accept, deadline, timeout_s, cancel
            )
        except Expired:
            continue  # the state that the first page showed is compacted
    raise Unavailable(f"list of {kind.name}: every list expired before its last page")


def _pages(
    client: Client, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None,
    page: int, accept: str | None, deadline: float, timeout_s: float,
    cancel: Cancel | None,
) -> tuple[list[Any], str]:  # fmt: skip
    query = {"limit": str(page)} | _selector(labels)
    path = kind.path(namespace)
    items: list[Any] = []
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise Unavailable(f"list of {kind.name}: not whole in time")
        document = client.request(
            "GET", path, query=query, timeout_s=min(left_s, timeout_s), accept=accept,
            cancel=cancel,
        ).document()  # fmt: skip
        metadata, part = document.get("metadata"), document.get("items")
        part = [] if part is None and "items" in document else part
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(part, list) or not isinstance(version, str) or not version:
            raise Unavailable(f"list of {kind.name}: the answer is no list")
        items += part
        token = metadata.get("continue") if isinstance(metadata, dict) else None
        if not token:
            return items, version
        if not part:
            raise Unavailable(f"list of {kind.name}: a page is empty and not the last")
        query["continue"] = str(token)


def _selector(labels: Mapping[str, str] | None) -> dict[str, str]:
    if not labels:
        return {}
    return {"labelSelector": ",".join(f"{key}={value}" for key, value in sorted(labels.items()))}


def watch(
    client: Client, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None, *,
    since: str, timeout_s: int, idle_s: float | None = None, cancel: Cancel | None = None,
    accept: str | None = None,
) -> Stream:  # fmt: skip
    """What happens after ``since``, with bookmarks; the server ends it after ``timeout_s``.

    :param accept: another form of the objects than the whole ones.
    """
    query = {
        "watch": "true",
        "resourceVersion": since,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(timeout_s),
    }
    return client.stream(
        kind.path(namespace),
        query | _selector(labels),
        deadline_s=timeout_s + GRACE_S,
        bytes_max=WATCH_BYTES_MAX,
        idle_s=idle_s,
        cancel=cancel,
        accept=accept,
    )


def events(chunks: Iterable[bytes], what: str = "watch") -> Iterator[Document]:
    """The events in the bytes of a watch: ``{type, object}``, each checked to be that.

    :raises Unreadable: a line is none, is too long, or the last one has no end.
    """
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        if b"\n" in chunk:
            *lines, tail = bytes(rest).split(b"\n")
            rest = bytearray(tail)
            for line in lines:
                if line:
                    yield _event(line, what)
        if len(rest) > LINE_BYTES_MAX:
            raise Unreadable(f"{what}: an event is too long")
    if rest:
        raise Unreadable(f"{what}: the last event is cut")


def _event(line: bytes, what: str) -> Document:
    found = parse_event(line)
    if (
        found is None
        or not isinstance(found.get("type"), str)
        or not isinstance(found.get("object"), dict)
    ):
        raise Unreadable(f"{what}: an event cannot be read")
    return found


def tidy(document: Document, kind: Kind) -> Document:
    """The document as the port shows it; changed in place and returned.

    Items of a list carry no kind. Who wrote which field is the server's own account: it keeps it
    where a write does not mention it, and it is larger than many objects.
    """
    document["apiVersion"] = kind.api_version
    document["kind"] = kind.name
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return document


def fault_of(document: Any, kind: Kind) -> str | None:
    """Why this is no object of that kind; None: it is one."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return "metadata is missing"
    needed = ["name", "uid", "resourceVersion", *(["namespace"] if kind.namespaced else [])]
    for name in needed:
        if not isinstance(metadata.get(name), str) or not metadata[name]:
            return f"metadata.{name} is missing"
    return None
