"""What the engine asks of a world: documents, Jobs, clocks, dice, surroundings, a recorder.

Documents are plain Kubernetes-shaped JSON: ``{apiVersion, kind, metadata, spec, status}`` (a
ConfigMap has ``binaryData``/``data`` and ``immutable`` instead of ``spec``). ``metadata`` carries
``namespace, name, uid, resourceVersion, generation`` and, where they apply, ``labels,
annotations, finalizers, ownerReferences, creationTimestamp, deletionTimestamp``.

The seven errors below are all that an adapter may raise. ``Indeterminate`` may never be turned
into another: after it, or after ``Conflict``, the driver makes a new pass and the fresh snapshot
shows whether the write landed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from ptahk.engine.model.job import Collected as Collected
from ptahk.engine.model.job import JobInput as JobInput
from ptahk.engine.model.job import JobOrder as JobOrder
from ptahk.engine.model.job import JobView as JobView
from ptahk.engine.model.job import Lost as Lost
from ptahk.engine.model.job import NotYet as NotYet
from ptahk.engine.model.job import PodView as PodView
from ptahk.engine.model.job import Result as Result
from ptahk.engine.model.job import Store as Store
from ptahk.engine.model.outcome import Refusal as Refusal

Document = dict[str, Any]


class PortError(Exception):
    """Base of what a port may raise. Text without secrets."""


class NotFound(PortError):
    """No such object. Nothing was done."""


class AlreadyExists(PortError):
    """An object of that name exists. Nothing was done."""


class Conflict(PortError):
    """The uid or resourceVersion of the document passed is not the stored one. Nothing was done."""


class Invalid(PortError):
    """The store refuses the document itself. Nothing was done."""


class Forbidden(PortError):
    """Not permitted. Nothing was done."""


class Unavailable(PortError):
    """The store cannot be reached or is full. Nothing was done."""


class Indeterminate(PortError):
    """The request was sent and its answer was lost: it may have been done, or be done later."""


class Key(NamedTuple):
    """Address of one object."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch; ``document`` is the object as last seen."""

    type: Literal["Added", "Modified", "Deleted"]
    document: Document


class Objects(Protocol):
    """Seven verbs over documents, each at most one request and never retried inside.

    Every read answers what is stored now (C-6.4, invariant 20). ``list`` and ``watch`` without a
    namespace cover all namespaces. What is returned is the caller's own copy.
    """

    def get(self, key: Key) -> Document:
        """:raises NotFound: there is none."""

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        """All objects of a kind that carry these labels, by (namespace, name)."""

    def create(self, document: Document) -> Document:
        """Store a new object, without ``status``, as a subresource demands. ``uid`` is kept where
        given, else chosen by the store; ``generation`` starts at 1.

        :returns: the stored document.
        :raises AlreadyExists: the name is taken.
        """

    def replace(self, document: Document) -> Document:
        """Replace everything but ``status``; ``generation`` grows when ``spec`` changed.

        With a ``deletionTimestamp`` and no finalizer left, the object goes away.

        :raises Conflict: ``metadata.uid`` or ``metadata.resourceVersion`` is not the stored one.
        :raises NotFound: it is gone.
        """

    def replace_status(self, document: Document) -> Document:
        """Replace ``status`` alone. Errors as ``replace``."""

    def delete(self, document: Document) -> None:
        """Delete, with the document's uid and resourceVersion as precondition.

        An object with finalizers only gets its ``deletionTimestamp``. Errors as ``replace``.
        """

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        """Changes after resourceVersion ``since``, in order; ends after ``timeout_s`` without."""


class Jobs(Protocol):
    """Five verbs over Jobs."""

    @property
    def creation_certain(self) -> bool:
        """True where a create can be proved or disproved at once (local: a fork whose lock file
        proves it), so that nothing has to be waited for (C-6.9)."""

    def create(self, order: JobOrder) -> JobView:
        """Create the Job, once, never retried inside.

        :raises PortError: any; the caller treats every error as an uncertain outcome (C-3, 6).
        """

    def observe(self, namespace: str, name: str) -> JobView | None:
        """The Job of that name now; None where there is none. The caller compares the uid.

        :raises Unavailable: it cannot be told.
        """

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        """Read the result of a terminal Job; bounded in time and bytes."""

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        """Set the cleanup TTL, counted from the Job's end. Idempotent.

        :raises NotFound: no Job of that name and uid.
        """

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        """Pods whose controller is this Job (name and uid; ``uid`` None: any Job of that name),
        oldest first. A Job that is gone may still have Pods (C-4.2)."""


class Surroundings(Protocol):
    """What shapes a Job from outside (contract section 3, step 3; locally C-14.3)."""

    def snapshot(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any] | Refusal:
        """The admission snapshot now. Local: ``wire.jobspec.local_snapshot``.

        :returns: or, by name, what is absent or makes the final Pod unpredictable.
        """


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware, UTC. For records and for deadlines that others read."""

    def monotonic(self) -> float:
        """Seconds that never step back; the only clock that may expire a Lease (C-6.6)."""


class Entropy(Protocol):
    """Lower-case hex text of fresh random bits."""

    def operation_id(self) -> str:
        """32 digits."""

    def nonce(self) -> str:
        """32 digits; names this process's one dispatch (step 5)."""

    def epoch_bits(self) -> str:
        """16 digits (epoch ``NUMBER.HEX``)."""


class Recorder(Protocol):
    """Events for people and metrics. May never raise."""

    def event(self, key: Key, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        """One thing that happened; ``reason`` is one of ``engine.model.reasons`` or the name of
        the durable step just taken (``ClaimWritten``, ``LeaseAcquired``, …)."""


class Admission(Protocol):
    """Whether the guard on operation Pods is in force (C-12.4)."""

    def missing(self) -> str | None:
        """Why it is not, for a person; None: it is, or this store needs none (C-14.3).

        Asked in every pass that may claim or dispatch, so an adapter that has to probe remembers
        its answer for a while.
        """


class Census(Protocol):
    """Claimants by realm, kept from a watch (C-6.4). Live reads stand before every dispatch."""

    def claimants(self, realm: str) -> tuple[Document, ...] | None:
        """Every resource that names the realm in its spec or in a claim; None: read live."""


class NothingMissing:
    """An Admission for stores whose Jobs nothing guards, and nothing has to."""

    def missing(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Watched:
    """When this process first saw something stand as it stands, on its monotonic clock."""

    mark: str
    since_s: float


@dataclass(slots=True)
class Memory:
    """What one process remembers between passes. Losing it costs time, never safety (C-6.6)."""

    watched: dict[str, Watched] = field(default_factory=dict)
    results: dict[str, Collected] = field(default_factory=dict)
    """Job uid → its collected result, until its outcome is stored."""
    published: set[str] = field(default_factory=set)
    """Immutable documents that were seen stored: ``Kind/namespace/name``."""
    sources: dict[str, str] = field(default_factory=dict)
    """ConfigMap uid, resourceVersion and key → the digest of the declaration in it."""
    refused: dict[str, str] = field(default_factory=dict)
    """Job name → what its one create said instead of yes, until its outcome is stored."""
    faults: dict[Key, int] = field(default_factory=dict)
    """Passes in a row that ended in a fault (the driver's back-off)."""


@dataclass(frozen=True, slots=True)
class Ports:
    """One world."""

    store: Store
    objects: Objects
    jobs: Jobs
    surroundings: Surroundings
    clock: Clock
    entropy: Entropy
    recorder: Recorder
    memory: Memory = field(default_factory=Memory)
    admission: Admission = field(default_factory=NothingMissing)
    census: Census | None = None
    """None: every census is read live."""


def key_of(document: Document) -> Key:
    """The address of a stored document."""
    metadata = document["metadata"]
    return Key(document["kind"], metadata["namespace"], metadata["name"])


def object_reference(document: Document) -> Document:
    """``{apiVersion, kind, name, uid}``, as owner references and JobOrder.owner hold it."""
    metadata = document["metadata"]
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
