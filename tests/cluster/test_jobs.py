"""Operation Jobs as the port makes them, run by a real kubelet: results, losses, and waits."""

from __future__ import annotations

import contextlib
import gzip
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.jobs import EVIDENCE_S, KubeJobs
from ptahk.backends.kube.objects import KubeObjects
from ptahk.backends.kube.pod import JOB_DIRECTORY, TLS_DIRECTORY
from ptahk.backends.system import SystemClock, SystemEntropy
from ptahk.engine import driver
from ptahk.engine.model.resource import API_VERSION, SCHEMA
from ptahk.engine.model.status import Status, parse
from ptahk.engine.ports import (
    Indeterminate,
    Key,
    Lost,
    NotYet,
    PodView,
    Ports,
    Result,
    Store,
)
from ptahk.wire import frame, jobspec
from ptahk.wire.jobspec import JobPolicy
from tests.kit import kubejobs
from tests.kit.apifaults import LOG_GONE, Action, Cut, Drip, Hang, LoseAnswer, Refuse, Reply
from tests.kit.apiproxy import ApiProxy
from tests.kit.clusters import PodCluster
from tests.kit.databases import Database
from tests.kit.kubejobs import Gate, Place
from tests.kit.memory import MemoryRecorder
from tests.kit.rawapi import install_crds
from tests.kit.waiting import until

PAUSE_S = 0.2
HELLO = ("python", "-c", "print('hello')")


@pytest.fixture
def place(cluster: PodCluster, namespace: str) -> Iterator[Place]:
    with kubejobs.place(cluster, namespace) as made:
        yield made


@pytest.fixture
def gate(cluster: PodCluster) -> Iterator[Gate]:
    with contextlib.closing(Gate(cluster.guests.address)) as made:
        yield made


def bundle(place: Place) -> Any:
    """A declaration of nothing, as an input."""
    document = {"files": [{"name": "a.sql", "text": ""}]}
    data = gzip.compress(json.dumps(document).encode(), mtime=0)
    return place.bundle("source", jobspec.SOURCE_FILE, data)


# -- results -----------------------------------------------------------------------------------


def test_an_operation_reads_a_real_database_and_its_frame_is_collected(
    place: Place, pod_database: Database
) -> None:
    owner = pod_database.role(owns=("app",), create_database=True)
    pod_database.run("CREATE TABLE app.t (id int PRIMARY KEY)", owner)
    place.secret("db", url=pod_database.url(owner, host=place.cluster.guests.address))
    jobs = place.jobs()
    policy = JobPolicy(schemas=("app",), exclude=("app.$(HOME)$$",))
    order = place.order(inputs=(bundle(place),), policy=policy)
    made = jobs.create(order)
    seen = jobs.observe(place.namespace, order.name)
    assert seen is not None and (seen.uid, seen.differs) == (made.uid, None)
    place.ended(jobs, order.name)
    found = jobs.collect(place.namespace, order.name, made.uid)
    assert isinstance(found, Result), found
    decoder = frame.Decoder(order.spec.operation_id, order.spec.epoch)
    decoder.feed(found.output)
    framed = decoder.finish()
    assert isinstance(framed, frame.Frame), framed
    assert framed.document["error"] is None
    assert framed.document["podUid"] == found.pod_uid
    assert jobs.pods(place.namespace, order.name, made.uid) == (PodView(found.pod_uid),)
    assert found.termination is not None
    said = frame.decode_summary(found.termination, order.spec.operation_id)
    assert isinstance(said, frame.Summary) and said.frame_digest == framed.digest
    shown = json.dumps(place.get("pods,jobs"))
    assert owner.password not in shown + found.output.decode("ascii", "replace")


def test_the_engine_takes_a_resource_from_nothing_to_in_sync(
    place: Place, pod_database: Database
) -> None:
    """Every port is the cluster's own; only who calls ``run_pass`` is the test."""
    install_crds(place.cluster.plane)
    owner = pod_database.role(owns=("app",), create_database=True, create_schema=True)
    place.secret("db", url=pod_database.url(owner, host=place.cluster.guests.address))
    masters = Client.load(place.cluster.plane.kubeconfig("engine", ["system:masters"]), None)
    recorder = MemoryRecorder()
    with contextlib.closing(masters):
        ports = Ports(
            store=Store(masters.cluster_uid(), "cluster", place.namespace, automatic=True),
            objects=KubeObjects(masters),
            jobs=place.jobs(),
            surroundings=place.surroundings(),
            clock=SystemClock(),
            entropy=SystemEntropy(),
            recorder=recorder,
        )
        resource = {
            "apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": "orders"},
            "spec": {
                "target": {
                    "engine": "postgresql", "coordinationKey": place.namespace,
                    "urlFrom": {"name": "db", "key": "url"},
                },
                "desired": {"inline": "CREATE SCHEMA app; CREATE TABLE app.t (id int);"},
                "policy": {"apply": "Always", "schemas": ["app"]},
                "execution": {"podMetadata": {"labels": {"team": "orders"}}},
            },
        }  # fmt: skip
        place.make(resource)
        status = settle(ports, Key(SCHEMA, place.namespace, "orders"))
    assert pod_database.rows("SELECT to_regclass('app.t') IS NOT NULL") == [(True,)]
    ran = [(item.type, item.outcome.type) for item in status.history]
    assert ("Apply", "Succeeded") in ran and {outcome for _, outcome in ran} == {"Succeeded"}
    apply = next(item for item in status.history if item.type == "Apply")
    assert apply.settled is not None and apply.settled.type == "Succeeded" and apply.converged
    assert "CreateUncertain" not in recorder.reasons()
    for job in place.get("jobs")["items"]:
        assert job["spec"]["ttlSecondsAfterFinished"] == 300
        assert job["metadata"]["ownerReferences"][0]["name"] == "orders"
    for pod in place.get("pods")["items"]:
        assert pod["metadata"]["labels"]["team"] == "orders"
    shown = json.dumps(place.get("pods,jobs,ptahschemas,ptahplans"))
    assert owner.password not in shown


def settle(ports: Ports, key: Key, limit_s: float = 240.0) -> Status:
    """Passes until the resource is in sync and nothing is under way; its status."""
    end = ports.clock.monotonic() + limit_s
    taken: list[str] = []
    while True:
        result = driver.run_pass(ports, key)
        document = ports.objects.get(key)
        status = parse(document.get("status"), document["metadata"]["uid"])
        if status.phase == "InSync" and driver.at_rest(status):
            return status
        now = ports.clock.monotonic()
        if not taken or taken[-1] != result.step:
            taken.append(result.step)
        assert now < end, f"{taken[-20:]} {status.phase} {status.retry} {status.conditions}"
        assert result.requeue is not None, (result, status)
        time.sleep(max(0.0, min(result.requeue.at - now, PAUSE_S)))


LOOK = """
import json, stat
def mode(path):
    found = os.stat(path)
    return [stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid]
def writable(path):
    try:
        open(path + "/x", "w").close()
    except OSError:
        return False
    return True
job, tls = sys.argv[-1], "/etc/ptahk/tls"
print(json.dumps({
    "pid": os.getpid(), "ids": [os.getuid(), os.getgid()], "argv": sys.argv[1:],
    "environment": sorted(os.environ), "uid": os.environ["PTAHK_POD_UID"],
    "job": os.environ["PTAHK_JOB"], "files": {
        name: open(job + "/" + name, "rb").read().hex() for name in os.listdir(job)
    },
    "key": mode(tls + "/tls.key"), "token": os.path.exists("/var/run/secrets"),
    "writable": [path for path in ("/", job, tls, "/etc", "/tmp", "/opt/ptahk")
                 if writable(path)],
}), flush=True)
"""


def test_what_a_container_finds(place: Place, gate: Gate) -> None:
    place.secret("db", url="postgresql://u:secret-word@h/d")
    place.secret("tls", **{"tls.key": "key", "ca.crt": "ca"})
    source = bundle(place)
    jobs = place.jobs(argv=gate.argv(LOOK))
    order = place.order(inputs=(source,), tls_from={"secret": "tls"})
    made = jobs.create(order)
    gate.open()
    place.ended(jobs, order.name)
    found = jobs.collect(place.namespace, order.name, made.uid)
    assert isinstance(found, Result), found
    told = json.loads(found.output)
    assert (told["pid"], told["ids"], told["argv"]) == (1, [65532, 65532], ["--job", JOB_DIRECTORY])
    assert told["uid"] == found.pod_uid
    assert jobspec.decode(told["job"].encode()) == order.spec
    assert told["files"] == {source.name: source.data.hex()}
    assert told["key"] == [0o440, 0, 65532], f"libpq takes a key at {TLS_DIRECTORY} only so"
    assert (told["writable"], told["token"]) == (["/tmp"], False)
    strangers = [
        name
        for name in told["environment"]
        if name.startswith("KUBERNETES_") is False and "SERVICE" in name
    ]
    assert strangers == [], "no other service's address"


# -- losses ------------------------------------------------------------------------------------

SAYS_GOODBYE = """
import signal, time
def stop(number, frame):
    with open(os.environ["PTAHK_TERMINATION_LOG"], "w") as stream:
        stream.write("summary")
    os._exit(1)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


def started(place: Place, gate: Gate, then: str) -> tuple[Any, Any, str]:
    """The port, a Job whose container has been let through, and the Pod's name."""
    place.secret("db", url="postgresql:///d")
    jobs = place.jobs(argv=gate.argv(then))
    made = jobs.create(place.order())
    gate.open()
    name = place.running(made.name)["metadata"]["name"]
    until(lambda: "ready" in place.kubectl("logs", name), "the container to be ready")
    return jobs, made, name


def test_a_pod_that_is_deleted_takes_its_result_along(place: Place, gate: Gate) -> None:
    jobs, made, name = started(place, gate, SAYS_GOODBYE)
    assert isinstance(jobs.collect(place.namespace, made.name, made.uid), NotYet)
    place.kubectl("delete", "pod", name, "--wait=true")
    seen = place.ended(jobs, made.name)
    assert seen.uid == made.uid
    until(lambda: not jobs.pods(place.namespace, made.name, made.uid), "the Pod to be gone")
    assert jobs.collect(place.namespace, made.name, made.uid) == Lost("its Pod is gone")


def test_a_deleted_pod_that_still_stands_is_not_absent(place: Place, gate: Gate) -> None:
    """C-5.5: while somebody holds it, a log that its kubelet has removed is only a failed
    reading; once it is gone, its result is."""
    jobs, made, name = started(place, gate, SAYS_GOODBYE)
    hold = {"metadata": {"finalizers": ["ptahk.test/hold"]}}
    place.kubectl("patch", "pod", name, "--type=strategic", f"--patch={json.dumps(hold)}")
    try:
        place.kubectl("delete", "pod", name, "--wait=false")
        place.ended(jobs, made.name)

        def failed() -> NotYet | None:
            found = jobs.collect(place.namespace, made.name, made.uid)
            assert not isinstance(found, Lost), found
            return found if isinstance(found, NotYet) and "log" in found.message else None

        until(failed, "the log to be gone")
    finally:
        place.kubectl("patch", "pod", name, "--type=merge",
                      '--patch={"metadata": {"finalizers": null}}')  # fmt: skip
    until(lambda: not jobs.pods(place.namespace, made.name, made.uid), "the Pod to be gone")
    assert isinstance(jobs.collect(place.namespace, made.name, made.uid), Lost)


def test_the_runner_as_first_process_ends_on_sigterm_with_a_summary(
    place: Place, gate: Gate
) -> None:
    """A database that accepts and says nothing holds it; the kubelet's SIGTERM ends it well
    within its grace."""
    place.secret("db", url=f"postgresql://u:p@{gate.address}:{gate.port}/d")
    jobs = place.jobs()
    policy = JobPolicy(connect_timeout_seconds=200.0)
    order = place.order(policy=policy, termination_grace_period_seconds=12)
    made = jobs.create(order)
    with contextlib.closing(gate.accept()):
        pod = place.running(order.name)
        hold = json.dumps({"metadata": {"finalizers": ["ptahk.test/hold"]}})
        name = pod["metadata"]["name"]
        place.kubectl("patch", "pod", name, "--type=strategic", f"--patch={hold}")
        try:
            place.kubectl("delete", "pod", name, "--wait=false")
            place.ended(jobs, order.name)
            status = place.pod(order.name)["status"]["containerStatuses"][0]
        finally:
            place.kubectl("patch", "pod", name, "--type=merge",
                          '--patch={"metadata": {"finalizers": null}}')  # fmt: skip
    ended = status["state"]["terminated"]
    said = frame.decode_summary(ended["message"].encode(), order.spec.operation_id)
    assert isinstance(said, frame.Summary), ended
    assert said.frame_digest is not None and said.error is not None and said.certain
    assert ended["exitCode"] not in (0, 137), ended
    assert isinstance(jobs.collect(place.namespace, order.name, made.uid), Lost | NotYet)


def test_the_cleanup_time_takes_a_job_and_its_pod_away(place: Place, gate: Gate) -> None:
    place.secret("db", url="postgresql:///d")
    jobs = place.jobs(argv=gate.argv("print('x')"))
    made = jobs.create(place.order())
    gate.open()
    place.ended(jobs, made.name)
    jobs.expire(place.namespace, made.name, made.uid, 1)
    until(lambda: jobs.observe(place.namespace, made.name) is None, "the Job to be gone")
    until(lambda: not jobs.pods(place.namespace, made.name, made.uid), "the Pod to be gone")
    assert isinstance(jobs.collect(place.namespace, made.name, made.uid), Lost)


def test_a_second_pod_with_the_same_owner_is_seen_whatever_its_labels(
    place: Place, gate: Gate
) -> None:
    place.secret("db", url="postgresql:///d")
    jobs = place.jobs(argv=gate.argv("print('x')"))
    made = jobs.create(place.order())
    gate.open()
    place.ended(jobs, made.name)
    first = jobs.pods(place.namespace, made.name, made.uid)
    template = place.get("job", made.name)["spec"]["template"]["spec"]
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": made.name, "uid": made.uid,
        "controller": True,
    }  # fmt: skip
    second = place.make({
        "apiVersion": "v1", "kind": "Pod", "spec": template,
        "metadata": {"name": "late", "ownerReferences": [owner]},
    })  # fmt: skip
    both = (*first, PodView(second["metadata"]["uid"]))
    assert jobs.pods(place.namespace, made.name, made.uid) == both
    assert jobs.pods(place.namespace, made.name, None) == both
    assert jobs.pods(place.namespace, made.name, "other") == ()


# -- a wire that fails -------------------------------------------------------------------------


def through(place: Place, proxy: ApiProxy, argv: Sequence[str], **options: Any) -> KubeJobs:
    """The Jobs port whose every request passes the fault proxy."""
    user = f"jobs-{place.namespace}"
    client = Client.load(proxy.kubeconfig(user, user), None)
    place.clients.append(client)
    image = place.cluster.images["executor"]
    return KubeJobs(client, image=image, clock=SystemClock(), argv=tuple(argv), **options)


def test_a_create_whose_answer_is_lost_was_sent_once(
    place: Place, gate: Gate, api_proxy: ApiProxy
) -> None:
    place.secret("db", url="postgresql:///d")
    jobs = through(place, api_proxy, HELLO)
    rule = api_proxy.rule(LoseAnswer(), method="POST", path="/jobs", times=1)
    order = place.order()
    with pytest.raises(Indeterminate):
        jobs.create(order)
    assert rule.done == [201]
    seen = jobs.observe(place.namespace, order.name)
    assert seen is not None and seen.annotations == order.annotations and seen.differs is None
    assert len(api_proxy.seen(method="POST", path="/jobs")) == 1


def test_a_create_may_land_after_it_was_given_up(place: Place, api_proxy: ApiProxy) -> None:
    """Why a cluster's creates are uncertain (C-6.9): absent now does not mean never."""
    place.secret("db", url="postgresql:///d")
    jobs = through(place, api_proxy, HELLO)
    rule = api_proxy.rule(Hang(outlives=True), method="POST", path="/jobs", times=1)
    order = place.order()
    with pytest.raises(Indeterminate):
        jobs.create(order)
    assert jobs.observe(place.namespace, order.name) is None
    rule.release()
    rule.wait_done()
    assert jobs.observe(place.namespace, order.name) is not None


FLOOD = """
for number in range(2000):
    print("noise", number, "x" * 1000)
print("end", flush=True)
"""
LOG = "/log"


@pytest.mark.parametrize(
    "fault",
    [Hang(), Hang(done=True), Drip(100, 0.2), Cut(50_000), LOG_GONE, LoseAnswer(), Refuse(),
     Reply(500, b"{}"), Reply(404, b'{"kind": "Status", "code": 404, "details": {"name": "x"}}'),
     Reply(204)],
    ids=["hang", "hang-done", "drip", "cut", "sentence", "lost", "refused", "500", "404", "204"],
)  # fmt: skip
def test_a_log_that_fails_ends_in_time_and_decides_nothing(
    place: Place, gate: Gate, api_proxy: ApiProxy, fault: Action
) -> None:
    place.secret("db", url="postgresql:///d")
    jobs = through(place, api_proxy, gate.argv(FLOOD), read_s=EVIDENCE_S + 2.0)
    made = jobs.create(place.order())
    gate.open()
    place.ended(jobs, made.name)
    rule = api_proxy.rule(fault, path=LOG)
    started = time.monotonic()
    found = jobs.collect(place.namespace, made.name, made.uid)
    assert isinstance(found, NotYet), found
    assert time.monotonic() - started < EVIDENCE_S + 3.0
    assert rule.hits
    rule.release()
    again = jobs.collect(place.namespace, made.name, made.uid)
    assert isinstance(again, Result) and again.output.endswith(b"end\n")
    assert again.output.startswith(b"noise 0 ")


# -- waits -------------------------------------------------------------------------------------


def no_pods(place: Place) -> None:
    place.make({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
                "spec": {"hard": {"pods": "0"}}})  # fmt: skip


def nothing(place: Place) -> None:
    """Nothing stands in the way but what the order itself lacks."""


@pytest.mark.parametrize(
    ("before", "order", "reason", "word", "mend"),
    [
        (nothing, {}, "SecretUnavailable", 'secret "db" not found',
         lambda place: place.secret("db", url="postgresql:///d")),
        (no_pods, {}, "PodRefused", "exceeded quota: none",
         lambda place: (place.secret("db", url="postgresql:///d"),
                        place.kubectl("delete", "resourcequota", "none"))),
        (lambda place: place.secret("db", url="postgresql:///d"),
         {"tls_from": {"secret": "tls"}}, "SecretUnavailable", 'secret "tls" not found',
         lambda place: place.secret("tls", ca="x")),
    ],
    ids=["secret", "quota", "tls"],
)  # fmt: skip
def test_what_is_missing_is_said_and_once_it_is_there_the_pod_runs(
    place: Place, before: Callable[[Place], Any], order: dict[str, Any], reason: str, word: str,
    mend: Callable[[Place], Any],
) -> None:  # fmt: skip
    before(place)
    jobs = place.jobs(argv=HELLO)
    made = jobs.create(place.order(**order))
    found = waits(place, jobs, made.name)
    assert found.reason == reason
    assert word in found.message
    mend(place)
    place.ended(jobs, made.name)
    result = jobs.collect(place.namespace, made.name, made.uid)
    assert isinstance(result, Result) and result.output == b"hello\n"


@pytest.mark.parametrize(
    ("options", "execution", "reason", "word"),
    [
        ({"image": "localhost/ptahk-none@sha256:" + "0" * 64}, {}, "ImageUnavailable",
         "localhost/ptahk-none"),
        ({}, {"nodeSelector": {"ptahk.test/none": "x"}}, "Unschedulable", "node"),
        ({}, {"resources": {"requests": {"memory": "900Ti"}}}, "Unschedulable", "memory"),
        ({}, {"resources": {"limits": {"cpu": "9"}}}, "PodRefused", "maximum cpu usage"),
    ],
    ids=["image", "node", "memory", "limit-range"],
)  # fmt: skip
def test_what_cannot_run_is_said(
    place: Place, options: dict[str, Any], execution: dict[str, Any], reason: str, word: str
) -> None:
    place.secret("db", url="postgresql:///d")
    place.make({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
                "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}})  # fmt: skip
    jobs = place.jobs(argv=HELLO, **options)
    made = jobs.create(place.order(execution=execution))
    found = waits(place, jobs, made.name)
    assert found.reason == reason
    assert word in found.message
    again = jobs.observe(place.namespace, made.name)
    assert again is not None and again.waiting == found, "the words stay"


def waits(place: Place, jobs: Any, name: str) -> Any:
    """What the Job is said to wait for, as soon as anything is."""

    def look() -> Any:
        seen = jobs.observe(place.namespace, name)
        assert seen is not None and not seen.terminal
        return seen.waiting

    return until(look, "a reason", 90.0)


# -- surroundings ------------------------------------------------------------------------------


def test_the_snapshot_foretells_the_pod(place: Place) -> None:
    """A LimitRange, a PriorityClass and a RuntimeClass: what the API server added is exactly what
    the snapshot said."""
    unique = f"ptahk-test-{secrets.token_hex(4)}"
    place.secret("db", url="postgresql:///d")
    place.make({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
                "spec": {"limits": [{"type": "Container", "default": {"memory": "0.25Gi"},
                                     "max": {"cpu": "1"}}]}})  # fmt: skip
    place.make({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": unique}, "value": 7,
                "preemptionPolicy": "Never"})  # fmt: skip
    place.make({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                "metadata": {"name": unique}, "handler": "runc",
                "overhead": {"podFixed": {"memory": "16Mi"}},
                "scheduling": {"nodeSelector": {"ptahk.test/none": "x"},
                               "tolerations": [{"key": "t", "operator": "Exists"}]}})  # fmt: skip
    try:
        execution = {
            "priorityClassName": unique, "runtimeClassName": unique,
            "resources": {"requests": {"cpu": "0.1"}},
        }  # fmt: skip
        snapshot = place.surroundings().snapshot(place.namespace, execution)
        assert isinstance(snapshot, dict), snapshot
        jobs = place.jobs(argv=HELLO)
        made = jobs.create(place.order(execution=execution))
        assert made.differs is None, "a quantity in another spelling is the same"
        spec = place.pod(made.name)["spec"]
    finally:
        for kind in ("priorityclass", "runtimeclass"):
            place.cluster.plane.kubectl("delete", kind, unique)
    resources = spec["containers"][0]["resources"]
    assert resources["limits"] == snapshot["defaults"]["limits"]
    assert resources["requests"] == {"cpu": "100m", **snapshot["defaults"]["requests"]}
    assert spec["priority"] == snapshot["priorityClass"]["value"] == 7
    assert spec["preemptionPolicy"] == snapshot["priorityClass"]["preemptionPolicy"]
    assert spec["overhead"] == snapshot["runtimeClass"]["overhead"]
    assert spec["nodeSelector"] == snapshot["runtimeClass"]["nodeSelector"]
    for toleration in snapshot["runtimeClass"]["tolerations"]:
        assert toleration in spec["tolerations"]
    assert spec["serviceAccountName"] == snapshot["serviceAccount"]["name"]
