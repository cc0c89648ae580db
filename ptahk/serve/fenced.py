"""Ports that send no write unless this process leads: losing the lead stops all writes (C-13.1)."""

from collections.abc import Callable, Iterator, Mapping

from ptahk.engine.ports import (
    Change,
    Collected,
    Document,
    JobOrder,
    Jobs,
    JobView,
    Key,
    Objects,
    PodView,
    Unavailable,
)

Leading = Callable[[], bool]


def _check(leading: Leading) -> None:
    if not leading():
        raise Unavailable("this replica does not lead")


class FencedObjects:
    """Objects whose writes ask first."""

    def __init__(self, inner: Objects, leading: Leading) -> None:
        self._inner = inner
        self._leading = leading

    def get(self, key: Key) -> Document:
        return self._inner.get(key)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        return self._inner.list(kind, namespace, labels)

    def create(self, document: Document) -> Document:
        _check(self._leading)
        return self._inner.create(document)

    def replace(self, document: Document) -> Document:
        _check(self._leading)
        return self._inner.replace(document)

    def replace_status(self, document: Document) -> Document:
        _check(self._leading)
        return self._inner.replace_status(document)

    def delete(self, document: Document) -> None:
        _check(self._leading)
        self._inner.delete(document)

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        return self._inner.watch(kind, namespace, since, timeout_s)


class FencedJobs:
    """Jobs whose writes ask first."""

    def __init__(self, inner: Jobs, leading: Leading) -> None:
        self._inner = inner
        self._leading = leading

    @property
    def creation_certain(self) -> bool:
        return self._inner.creation_certain

    def create(self, order: JobOrder) -> JobView:
        _check(self._leading)
        return self._inner.create(order)

    def observe(self, namespace: str, name: str) -> JobView | None:
        return self._inner.observe(namespace, name)

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        return self._inner.collect(namespace, name, uid)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        _check(self._leading)
        self._inner.expire(namespace, name, uid, ttl_s)

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        return self._inner.pods(namespace, name, uid)
