"""Faults around any port: refused before, answer lost after, applied late, process killed.

A wrapper asks its ``fate`` once per call. So a crash test can stop a process at every durable
step of a pass, over the memory backend or the local one, without a hook in the product.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ptahk.backends.local import documents
from ptahk.engine.ports import (
    Change,
    Collected,
    Document,
    Indeterminate,
    JobOrder,
    Jobs,
    JobView,
    Key,
    Objects,
    PodView,
    PortError,
    key_of,
)

T = TypeVar("T")

WRITES = frozenset({"create", "replace", "replace_status", "delete", "create_job", "expire"})


class Killed(BaseException):
    """The process ends here. Not an ``Exception``: no handler of the engine may see it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a port."""

    number: int
    """Counts from 1 over every port that shares a ``Faults``."""
    verb: str
    """A verb of Objects, or ``create_job``, ``observe``, ``collect``, ``expire``, ``pods``."""
    key: Key
    document: Document | None = None

    @property
    def writes(self) -> bool:
        return self.verb in WRITES


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to a call. All empty: it is answered."""

    before: BaseException | None = None
    """Raised; nothing is done."""
    after: BaseException | None = None
    """Done, then raised: the answer is lost."""
    late: bool = False
    """Not done now; ``Indeterminate`` is raised; ``Faults.settle`` does it later."""


class Faults:
    """Decides the fate of every call and keeps what is still under way.

    :param fate: asked once per call; None or an empty Fate lets it pass. May be replaced.
    """

    def __init__(self, fate: Callable[[Call], Fate | None] = lambda call: None) -> None:
        self.fate = fate
        self.calls: list[Call] = []
        self._late: list[Callable[[], Any]] = []

    def run(self, verb: str, key: Key, action: Callable[[], T], document: Any = None) -> T:
        call = Call(len(self.calls) + 1, verb, key, documents.copy(document))
        self.calls.append(call)
        fate = self.fate(call) or Fate()
        if fate.before is not None:
            raise fate.before
        if fate.late:
            self._late.append(action)
            raise Indeterminate(f"{verb} {key}: the answer was lost")
        answer = action()
        if fate.after is not None:
            raise fate.after
        return answer

    def settle(self) -> list[PortError | None]:
        """Let every late request arrive, in order; what each was answered (None: done)."""
        arrived, self._late = self._late, []
        answers: list[PortError | None] = []
        for action in arrived:
            try:
                action()
            except PortError as error:
                answers.append(error)
            else:
                answers.append(None)
        return answers


class FaultyObjects:
    """An Objects port whose calls may fail."""

    def __init__(self, inner: Objects, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def get(self, key: Key) -> Document:
        return self._faults.run("get", key, lambda: self._inner.get(key))

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        key = Key(kind, namespace or "", "")
        return self._faults.run("list", key, lambda: self._inner.list(kind, namespace, labels))

    def create(self, document: Document) -> Document:
        return self._write("create", document, self._inner.create)

    def replace(self, document: Document) -> Document:
        return self._write("replace", document, self._inner.replace)

    def replace_status(self, document: Document) -> Document:
        return self._write("replace_status", document, self._inner.replace_status)

    def delete(self, document: Document) -> None:
        return self._write("delete", document, self._inner.delete)

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        return self._faults.run(
            "watch",
            Key(kind, namespace or "", ""),
            lambda: self._inner.watch(kind, namespace, since, timeout_s),
        )

    def _write(self, verb: str, document: Document, action: Callable[[Document], T]) -> T:
        # A late request carries the bytes that were sent, whatever the caller does to its copy.
        sent: Document = documents.copy(document)
        return self._faults.run(verb, key_of(sent), lambda: action(sent), sent)


class FaultyJobs:
    """A Jobs port whose calls may fail."""

    def __init__(self, inner: Jobs, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    @property
    def creation_certain(self) -> bool:
        return self._inner.creation_certain

    def create(self, order: JobOrder) -> JobView:
        key = Key("Job", order.namespace, order.name)
        return self._faults.run("create_job", key, lambda: self._inner.create(order))

    def observe(self, namespace: str, name: str) -> JobView | None:
        key = Key("Job", namespace, name)
        return self._faults.run("observe", key, lambda: self._inner.observe(namespace, name))

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        key = Key("Job", namespace, name)
        return self._faults.run("collect", key, lambda: self._inner.collect(namespace, name, uid))

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        key = Key("Job", namespace, name)
        return self._faults.run(
            "expire", key, lambda: self._inner.expire(namespace, name, uid, ttl_s)
        )

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        key = Key("Job", namespace, name)
        return self._faults.run("pods", key, lambda: self._inner.pods(namespace, name, uid))


def kill_at(number: int, *, after: bool) -> Callable[[Call], Fate | None]:
    """The process is killed at its n-th write: right before it, or right after it was done."""
    seen = 0

    def fate(call: Call) -> Fate | None:
        nonlocal seen
        if not call.writes:
            return None
        seen += 1
        if seen != number:
            return None
        return Fate(after=Killed()) if after else Fate(before=Killed())

    return fate
