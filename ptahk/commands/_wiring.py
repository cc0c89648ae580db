"""The one place that chooses a backend: a state directory's store, a memory, or a cluster.

A command asks for a :class:`World`; whatever it does afterwards goes through the engine's ports.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import quote

from ptahk.backends.system import SystemClock, SystemEntropy
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import (
    Admission,
    Clock,
    Document,
    Entropy,
    Objects,
    Ports,
    Recorder,
    Store,
)
from ptahk.errors import PtahkError, Refused, UsageError

if TYPE_CHECKING:
    from ptahk.backends.kube.client import Client
    from ptahk.backends.kube.surroundings import Declared
    from ptahk.backends.local.jobs import LocalJobs
    from ptahk.backends.local.objects import LocalObjects
    from ptahk.engine.model.plan import Approver
    from ptahk.serve.manager import World as ManagerWorld
    from ptahk.serve.webhook import Certificates

COORDINATION_NAMESPACE = "ptahk-system"
WATCH_SLICE_S = 0.25
NO_CLUSTER = (
    "Name one with --kubeconfig or --context; or, to run here, add --local (with -f), "
    "--schema FILE, --schema-dir DIR, --url-env NAME or --url-file FILE."
)
NOT_USABLE = frozenset({"StoreNotWritable", "StoreNotPrivate"})
"""Why a read-only command goes on without the directory (C-14.6). A damaged, full or newer one
is never passed over: something is kept there."""

Durability = Literal["required", "preferred", "unless absent"]


@dataclass(frozen=True, slots=True)
class World:
    """One open store with its Jobs."""

    ports: Ports
    jobs: LocalJobs
    objects: LocalObjects | None
    """None: the documents are a cluster's."""
    state: Path | None
    """None: in memory; nothing outlives the command."""
    why_not_durable: str = ""


@contextlib.contextmanager
def local_world(
    state: Path,
    durability: Durability,
    recorder: Recorder,
    *,
    url: str | None = None,
    dev_url: str | None = None,
) -> Iterator[World]:
    """The world of one command.

    :param durability: ``preferred`` falls back to memory where the directory cannot be used;
        ``unless absent`` only where there is none: who asks what is kept is not told "nothing".
    :param url: for child processes alone; None in commands that start none.
    :raises PtahkError: the store cannot be used; nothing was changed.
    """
    # Imported late: a command on a cluster needs none of it.
    from ptahk.backends.local.jobs import (
        DIRECTORY,
        LocalJobs,
        LocalSurroundings,
        child_environment,
    )
    from ptahk.backends.local.objects import LocalObjects

    clock = SystemClock()
    with contextlib.ExitStack() as stack:
        why = ""
        try:
            objects = LocalObjects.open(state, clock)
        except PtahkError as error:
            if durability == "required" or error.reason not in NOT_USABLE:
                raise
            if durability == "unless absent" and os.path.lexists(state):
                raise
            objects, why = LocalObjects.in_memory(clock), error.message
        stack.callback(objects.close)
        cache = None if why else _cache(state)
        environment = child_environment(os.environ, cache)
        if why:
            jobs = stack.enter_context(
                LocalJobs.temporary(clock, url=url, dev_url=dev_url, environment=environment)
            )
        else:
            jobs = LocalJobs(
                state / DIRECTORY, clock, url=url, dev_url=dev_url, environment=environment
            )
            stack.callback(jobs.close)
        ports = Ports(
            store=Store(objects.uid, "local", COORDINATION_NAMESPACE, automatic=False),
            objects=objects,
            jobs=jobs,
            surroundings=LocalSurroundings(environment),
            clock=clock,
            entropy=SystemEntropy(),
            recorder=recorder,
        )
        yield World(ports, jobs, objects, None if why else state, why)


def _cache(state: Path) -> Path | None:
    """Where executors keep desired facts. Losing it costs time only."""
    path = state / "cache"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return path


@contextlib.contextmanager
def one_command_at_a_time(state: Path | None, uid: str, ref: str) -> Iterator[None]:
    """Hold a resource of a state directory against a second command on it.

    A request on a resource replaces the one before, so the first command would wait for an answer
    that never comes. The kernel frees the lock with the process, however it ends.

    :raises Refused: another command holds it; names its process.
    """
    if state is None:
        yield
        return
    from ptahk.backends.local.statefile import os_fault

    directory = state / "locks"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(directory / uid, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise os_fault(error, str(directory)) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            raise Refused(
                f"another command works on {ref} (pid={holder})",
                reason="ResourceBusy",
                hint="Wait for it, or follow it with ptahk status --local --watch.",
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def busy(state: Path | None, uid: str) -> bool:
    """Whether a command is working on the resource now."""
    if state is None:
        return False
    try:
        handle = os.open(state / "locks" / uid, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def wait_for_change(world: World, timeout_s: float) -> None:
    """Return as soon as a resource changed, or after ``timeout_s``."""
    assert world.objects is not None, "only a local store is watched so"
    since = world.objects.resource_version
    clock = world.ports.clock
    end_s = clock.monotonic() + timeout_s
    while (left_s := end_s - clock.monotonic()) > 0:
        # One is waited for, a moment at a time; the other is looked at meanwhile.
        for kind, wait_s in ((SCHEMA, min(left_s, WATCH_SLICE_S)), (MIGRATION, 0.0)):
            for _ in world.objects.watch(kind, None, since, wait_s):
                return


class Following(Protocol):
    """A thread that tells what happens to one object, or to the objects of a kind."""

    def start(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Reader:
    """A cluster as a person's command sees it: it reads, approves, asks and waits (C-14.1)."""

    objects: Objects
    clock: Clock
    entropy: Entropy
    namespace: str
    """The context's."""
    follow: Callable[[str, str | None, str | None, Callable[[Any, Any], None]], Following]
    """Kind, namespace, name (None: all) and whom to tell; see ``backends.kube.follow``."""
    person: Callable[[], Approver]
    """Who the cluster says that we are."""
    uid: Callable[[], str]
    """The store's identity: the uid of namespace kube-system."""
    event: Callable[[Document], None]
    """Stores one Event (core/v1)."""


@contextlib.contextmanager
def cluster_reader(kubeconfig: str | None, context: str | None) -> Iterator[Reader]:
    """The cluster that the options name, by kubectl's rules.

    :raises PtahkError: the kubeconfig or its credentials cannot be used.
    """
    # Imported late: the official client costs more than a whole local command. Nothing of it
    # becomes garbage, so the collector only costs time meanwhile.
    gc.disable()
    try:
        from ptahk.backends.kube.client import Client
        from ptahk.backends.kube.follow import Follow
        from ptahk.backends.kube.objects import KubeObjects

        client = Client.load(None if kubeconfig is None else Path(kubeconfig), context)
    except UsageError as error:
        raise UsageError(error.message, field=error.field, hint=NO_CLUSTER) from None
    finally:
        gc.enable()

    def follow(
        kind: str, namespace: str | None, name: str | None, tell: Callable[[Any, Any], None]
    ) -> Following:
        return Follow(client, kind, namespace=namespace, name=name, tell=tell)

    try:
        yield Reader(
            objects=KubeObjects(client),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            namespace=client.namespace,
            follow=follow,
            person=lambda: _person(client),
            uid=client.cluster_uid,
            event=lambda document: _post_event(client, document),
        )
    finally:
        client.close()


def _person(client: Client) -> Approver:
    """Who asks, as the cluster knows them: what admission demands of an approval (C-12.3)."""
    from ptahk.engine.model.plan import Approver

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    found = client.request("POST", path, body=review).document()
    user = (found.get("status") or {}).get("userInfo") or {}
    groups = tuple(str(group) for group in user.get("groups") or ())
    return Approver(str(user.get("username") or ""), str(user.get("uid") or ""), groups)


def _post_event(client: Client, document: Document) -> None:
    namespace = quote(document["metadata"]["namespace"], safe="")
    client.request("POST", f"/api/v1/namespaces/{namespace}/events", body=document)


@contextlib.contextmanager
def fencing_world(
    reader: Reader, coordination_namespace: str, url: str, recorder: Recorder
) -> Iterator[World]:
    """A cluster's documents with local Jobs: for the fence of ``release-lock`` (C-14.1).

    The Jobs leave nothing behind, and speak to the ledger as the cluster's store.
    """
    from ptahk.backends.local.jobs import LocalJobs, LocalSurroundings, child_environment

    clock = SystemClock()
    environment = child_environment(os.environ, None)
    with LocalJobs.temporary(clock, url=url, dev_url=None, environment=environment) as jobs:
        ports = Ports(
            store=Store(reader.uid(), "cluster", coordination_namespace, automatic=False),
            objects=reader.objects,
            jobs=jobs,
            surroundings=LocalSurroundings(environment),
            clock=clock,
            entropy=reader.entropy,
            recorder=recorder,
        )
        yield World(ports, jobs, None, None)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the manager is told about its cluster."""

    kubeconfig: str | None
    context: str | None
    coordination_namespace: str
    image: str
    """Of operation Pods, by digest."""
    image_pull_policy: str
    call_s: float
    """Longest request of a pass, in seconds."""
    election_call_s: float
    """Longest request of the election."""
    default_tolerations: tuple[int, int] | None = (300, 300)
    """Seconds of not-ready and unreachable, as the API server adds them; None: it adds none."""
    plugins: frozenset[str] = frozenset()
    """Admission plugins of the API server that change Pods and were switched on."""
    certificates: str | None = None
    """Of the webhook: ``own``, a folder, or None: no webhook is served."""


@contextlib.contextmanager
def manager_world(cluster: Cluster, identity: str) -> Iterator[ManagerWorld]:
    """A cluster as the manager sees it. Passes, results, renewals, election, watches and Events
    have connections of their own: what hangs in one delays no other (C-5.4, C-6.10).

    :raises PtahkError: the cluster's credentials cannot be used.
    :raises PortError: the cluster cannot be asked who it is.
    """
    from ptahk.backends.kube import pod
    from ptahk.backends.kube.client import Client
    from ptahk.backends.kube.events import KubeRecorder
    from ptahk.backends.kube.jobs import KubeJobs
    from ptahk.backends.kube.objects import KubeObjects
    from ptahk.backends.kube.surroundings import KubeSurroundings
    from ptahk.backends.kube.watches import Watches
    from ptahk.engine.driver import FAMILIES
    from ptahk.serve.logs import LoggedRecorder
    from ptahk.serve.manager import World as ManagerWorld
    from ptahk.serve.webhook import READ_S, Guard

    path = None if cluster.kubeconfig is None else Path(cluster.kubeconfig)
    clock = SystemClock()
    with contextlib.ExitStack() as stack:

        def client() -> Client:
            made = Client.load(path, cluster.context)
            stack.callback(made.close)
            return made

        def jobs(over: Client) -> KubeJobs:
            policy = cluster.image_pull_policy
            return KubeJobs(
                over,
                image=cluster.image,
                image_pull_policy=policy,
                clock=clock,
                timeout_s=cluster.call_s,
            )

        declared = _declared(cluster)
        passes = client()
        watches = Watches(client(), tuple(FAMILIES))
        recorder = KubeRecorder(client(), clock, identity, uid_of=watches.uid_of)
        recorder.start()
        stack.callback(recorder.stop)
        ports = Ports(
            store=Store(
                passes.cluster_uid(), "cluster", cluster.coordination_namespace, automatic=True
            ),
            objects=KubeObjects(passes, timeout_s=cluster.call_s),
            jobs=jobs(passes),
            surroundings=KubeSurroundings(passes, declared=declared),
            clock=clock,
            entropy=SystemEntropy(),
            recorder=LoggedRecorder(recorder),
            admission=_admission(cluster, client(), declared),
            census=watches,
        )
        yield ManagerWorld(
            ports=ports,
            result_jobs=jobs(client()),
            renewals=KubeObjects(client(), timeout_s=cluster.call_s / 2),
            elections=KubeObjects(client(), timeout_s=cluster.election_call_s),
            watches=watches.make,
            identity=identity,
            events_dropped=lambda: recorder.dropped,
            guard=Guard(KubeObjects(client(), timeout_s=READ_S), pod.differs, clock),
            certificates=_certificates(cluster, client, stack),
        )


def _admission(cluster: Cluster, over: Client, declared: Declared) -> Admission:
    """The proof that the guard is in force, over a connection of its own."""
    from ptahk.backends.kube.admission import KubeAdmission
    from ptahk.backends.kube.pod import PodSettings
    from ptahk.backends.kube.surroundings import KubeSurroundings

    return KubeAdmission(
        over,
        cluster.coordination_namespace,
        PodSettings(cluster.image, cluster.image_pull_policy),
        KubeSurroundings(over, declared=declared),
        SystemClock(),
    )


def _certificates(
    cluster: Cluster, client: Callable[[], Client], stack: contextlib.ExitStack
) -> Certificates | None:
    """The webhook's, looked after by a thread of their own until the stack ends."""
    from ptahk.backends.kube.vault import KubeVault, names
    from ptahk.serve.certs import MountedCertificates, OwnCertificates

    kept: OwnCertificates | MountedCertificates
    if cluster.certificates is None:
        return None
    if cluster.certificates == "own":
        namespace = cluster.coordination_namespace
        vault = KubeVault(client(), namespace, timeout_s=cluster.call_s)
        kept = OwnCertificates(vault, names(namespace), SystemClock())
    else:
        kept = MountedCertificates(Path(cluster.certificates), SystemClock())
    kept.start()
    stack.callback(kept.stop)
    return kept


def _declared(cluster: Cluster) -> Declared:
    """What the installation says about its API server."""
    from ptahk.backends.kube.surroundings import Declared

    not_ready_s, unreachable_s = cluster.default_tolerations or (None, None)
    return Declared(not_ready_s, unreachable_s, cluster.plugins)
