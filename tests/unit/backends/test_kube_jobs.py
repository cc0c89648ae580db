"""Jobs over an API server that tells what a real one does, hangs, cuts and lies."""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube import logs, waiting
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.jobs import METADATA, KubeJobs, ended
from ptahk.backends.system import SystemClock
from ptahk.engine.model import job as jobs
from ptahk.engine.model.reasons import WAITING
from ptahk.engine.ports import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Indeterminate,
    JobOrder,
    Lost,
    NotFound,
    NotYet,
    PodView,
    PortError,
    Result,
    Unavailable,
)
from ptahk.wire import frame
from tests.kit.loopback import Loopback, Reply, Request, loopback
from tests.unit.backends.test_pod import IMAGE, order

OPERATION = "0" * 32
FRAME = frame.encode(OPERATION, None, {"a": 1})
SUMMARY = frame.encode_summary(
    frame.Summary(OPERATION, False, True, frame_digest=frame.digest_of(FRAME))
).decode()
SENTENCE = b"unable to retrieve container logs for containerd://abc"
NAME = order().name
OLD = "2026-01-01T00:00:00Z"


class Api:
    """Jobs, Pods and Nodes as dictionaries, and what is asked of them."""

    def __init__(self) -> None:
        self.job: dict[str, Any] | None = None
        self.made_at = f"{SystemClock().now() - timedelta(seconds=60):%Y-%m-%dT%H:%M:%SZ}"
        self.pods: list[dict[str, Any]] = []
        self.nodes: set[str] = {"n1"}
        self.events: list[dict[str, Any]] = []
        self.log: Callable[[Request, Reply], None] = lambda request, reply: reply.body(200, FRAME)
        self.faults: dict[str, Callable[[Request, Reply], None]] = {}
        """``METHOD kind`` → what is done instead."""

    def __call__(self, request: Request, reply: Reply) -> None:
        kind, name, sub = self.parts(request)
        fault = self.faults.get(f"{request.method} {kind}")
        if fault is not None:
            fault(request, reply)
        elif kind == "log" or sub == "log":
            self.log(request, reply)
        elif kind == "jobs":
            self.jobs(request, reply)
        elif kind == "nodes":
            metadata = {key: value for key, value in head(name).items() if key != "namespace"}
            self.one(reply, {"metadata": metadata} if name in self.nodes else None, name)
        elif kind == "events":
            reply.json(200, {"items": self.events, "metadata": {"resourceVersion": "9"}})
        elif name:
            found = [pod for pod in self.pods if pod["metadata"]["name"] == name]
            self.one(reply, found[0] if found else None, name)
        else:
            reply.json(200, {"items": self.pods, "metadata": {"resourceVersion": "9"}})

    @staticmethod
    def parts(request: Request) -> tuple[str, str, str]:
        words = request.path.split("/")
        at = words.index("team") + 1 if "team" in words else 3
        kind, name, sub = [*words[at:], "", "", ""][:3]
        return kind, name, sub

    def one(self, reply: Reply, document: Any, name: str) -> None:
        if document is None:
            reply.status(404, "NotFound", name=name)
        else:
            reply.json(200, document)

    def jobs(self, request: Request, reply: Reply) -> None:
        if request.method == "POST":
            if self.job is not None:
                return reply.status(409, "AlreadyExists", name=NAME)
            self.job = request.document
            self.job["metadata"] |= {
                "uid": "job-uid", "resourceVersion": "5", "creationTimestamp": self.made_at,
            }  # fmt: skip
            return reply.json(201, self.job)
        if self.job is None:
            return reply.status(404, "NotFound", name=NAME)
        if request.method == "PATCH":
            sent = request.document
            for key in ("uid", "resourceVersion"):
                if sent["metadata"][key] != self.job["metadata"][key]:
                    return reply.status(409, "Conflict", name=NAME)
            self.job["spec"] |= sent["spec"]
        return reply.json(200, self.job)

    def end(self, condition: str = "Complete", **status: Any) -> None:
        """The Job carries its terminal condition."""
        assert self.job is not None
        self.job["status"] = {"conditions": [{"type": condition, "status": "True"}], **status}


def head(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "namespace": "team", "uid": f"{name}-uid", "resourceVersion": "3",
        "creationTimestamp": OLD, **more,
    }  # fmt: skip


def owner(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": "job-uid",
        "controller": True, **changes,
    }  # fmt: skip


def ran(name: str = "p1", *, message: str = SUMMARY, restarts: int = 0, **more: Any) -> Any:
    """A Pod whose container has ended."""
    state = {"terminated": {"exitCode": 0, "message": message, "reason": "Completed"}}
    before = {"terminated": {"exitCode": 137, "containerID": "containerd://earlier"}}
    last = {"lastState": before} if restarts else {}
    return pod(name, [status(state, restartCount=restarts, **last)], "Succeeded", **more)


def status(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    known = {"name": "runner", "containerID": "containerd://abc", "restartCount": 0}
    return {**known, "state": state, **more}


def pod(name: str, statuses: list[Any], phase: str = "Pending", **more: Any) -> dict[str, Any]:
    annotations = {jobs.OPERATION_ID: OPERATION}
    metadata = head(name, ownerReferences=[owner()], annotations=annotations, **more)
    return {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "runner", "image": IMAGE}]},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


class Bed:
    """The port over the API."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.api = Api()
        self.server: Loopback = stack.enter_context(loopback(self.api))
        self.client = Client.load(self.server.kubeconfig(folder, {}), None)
        stack.callback(self.client.close)
        self.jobs = self.port(60.0)

    def port(self, read_s: float) -> KubeJobs:
        return KubeJobs(self.client, image=IMAGE, clock=SystemClock(), read_s=read_s)

    def ended(self, *pods: dict[str, Any], **order_changes: Any) -> None:
        """A Job that was created and has ended, with these Pods."""
        self.jobs.create(order(**order_changes))
        self.api.pods = list(pods)
        self.api.end()

    def collect(self, read_s: float = 60.0) -> Any:
        return self.port(read_s).collect("team", NAME, "job-uid")

    def asked(self, method: str, kind: str) -> list[Request]:
        return [
            item
            for item in self.server.requests
            if (item.method, Api.parts(item)[0]) == (method, kind)
        ]


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with ExitStack() as stack:
        yield Bed(stack, tmp_path)


# -- create, observe, expire -------------------------------------------------------------------


def test_a_create_is_one_strict_post_and_is_read_back(bed: Bed) -> None:
    made = bed.jobs.create(order())
    (post,) = bed.server.requests
    assert post.query == {"fieldManager": "ptahk", "fieldValidation": "Strict"}
    assert (made.uid, made.terminal, made.ttl_s, made.differs) == ("job-uid", False, None, None)
    assert made.annotations == order().annotations
    seen = bed.jobs.observe("team", NAME)
    assert seen is not None and seen.differs is None
    assert seen.annotations == order().annotations


def refuse(code: int, reason: str) -> Callable[[Request, Reply], None]:
    return lambda request, reply: reply.status(code, reason, name=NAME)


def cut(request: Request, reply: Reply) -> None:
    reply.cut()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (refuse(409, "AlreadyExists"), AlreadyExists),
        (refuse(403, "Forbidden"), Forbidden),
        (refuse(500, "InternalError"), Indeterminate),
        (refuse(504, "Timeout"), Indeterminate),
        (cut, Indeterminate),
        (lambda request, reply: reply.body(201, b"no json"), Indeterminate),
        (lambda request, reply: reply.json(201, {"kind": "Job"}), Indeterminate),
        (lambda request, reply: reply.json(201, {"metadata": head("other")}), Indeterminate),
    ],
)
def test_a_create_without_an_answer_is_never_sent_again(
    bed: Bed, fault: Callable[[Request, Reply], None], error: type[PortError]
) -> None:
    bed.api.faults["POST jobs"] = fault
    with pytest.raises(error):
        bed.jobs.create(order())
    assert len(bed.server.requests) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_write_ends_at_the_deadline_that_its_owner_gave_it(bed: Bed, method: str) -> None:
    """What a manager sends may not outlast its lead by more than one call (C-13.1)."""
    port = KubeJobs(bed.client, image=IMAGE, clock=SystemClock(), timeout_s=0.3)
    if method == "PATCH":
        port.create(order())
    bed.api.faults[f"{method} jobs"] = lambda request, reply: reply.hang()
    began = time.monotonic()
    with pytest.raises(Indeterminate):
        if method == "POST":
            port.create(order())
        else:
            port.expire("team", NAME, "job-uid", 300)
    assert time.monotonic() - began < 3.0


def test_a_create_cannot_be_disproved_here(bed: Bed) -> None:
    assert bed.jobs.creation_certain is False


def test_a_job_changed_on_the_way_says_so(bed: Bed) -> None:
    bed.jobs.create(order())
    assert bed.api.job is not None
    bed.api.job["spec"]["template"]["spec"]["hostNetwork"] = True
    seen = bed.jobs.observe("team", NAME)
    assert seen is not None and seen.differs is not None and "webhook" in seen.differs


@pytest.mark.parametrize(
    ("status", "over"),
    [
        ({}, False),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, True),
        ({"conditions": [{"type": "Failed", "status": "True"}], "terminating": 0}, True),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, False),
        ({"conditions": [{"type": "FailureTarget", "status": "True"}]}, False),
        ({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}, False),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, False),
        ({"conditions": [{"type": "Failed", "status": "True"}], "terminating": 1}, False),
        ({"conditions": [{"type": "Complete", "status": "True"}], "ready": 1}, False),
        ({"conditions": [{"type": "Complete", "status": "True"}], "active": 1}, False),
    ],
)
def test_a_job_has_ended_only_with_nothing_of_it_left(status: Any, over: bool) -> None:
    assert ended({"status": status}) is over


def test_no_job_is_none_and_no_answer_is_unavailable(bed: Bed) -> None:
    assert bed.jobs.observe("team", NAME) is None
    bed.api.faults["GET jobs"] = cut
    with pytest.raises(Unavailable):
        bed.jobs.observe("team", NAME)


def test_the_cleanup_time_is_set_once_and_only_on_what_was_seen(bed: Bed) -> None:
    bed.ended(ran())
    for _ in range(2):
        bed.jobs.expire("team", NAME, "job-uid", 300)
    (patch,) = bed.asked("PATCH", "jobs")
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.document == {
        "metadata": {"uid": "job-uid", "resourceVersion": "5"},
        "spec": {"ttlSecondsAfterFinished": 300},
    }
    seen = bed.jobs.observe("team", NAME)
    assert seen is not None and (seen.ttl_s, seen.differs) == (300, None)
    with pytest.raises(NotFound):
        bed.jobs.expire("team", NAME, "other", 300)


def test_a_job_that_moves_meanwhile_gets_no_cleanup_time(bed: Bed) -> None:
    bed.ended(ran())
    bed.api.faults["PATCH jobs"] = refuse(409, "Conflict")
    with pytest.raises(Conflict):
        bed.jobs.expire("team", NAME, "job-uid", 300)


# -- pods --------------------------------------------------------------------------------------


def test_pods_are_found_by_exact_owner_oldest_first(bed: Bed) -> None:
    def one(pod: str, created: str, **changes: Any) -> dict[str, Any]:
        return {"metadata": head(pod) | {
            "ownerReferences": [owner(**changes)], "creationTimestamp": created,
            "labels": {"job-name": NAME},
        }}  # fmt: skip

    bed.api.pods = [
        one("late", "2026-01-02T00:00:00Z"),
        one("first", "2026-01-01T00:00:00Z"),
        one("uid", "2026-01-03T00:00:00Z", uid="other-job"),
        one("name", OLD, name="another"),
        one("kind", OLD, kind="ReplicaSet"),
        one("group", OLD, apiVersion="example.com/v1"),
        one("uncontrolled", OLD, controller=False),
        {"metadata": head("label") | {"labels": {"job-name": NAME}}},
    ]
    exact = bed.jobs.pods("team", NAME, "job-uid")
    assert exact == (PodView("first-uid"), PodView("late-uid"))
    assert bed.jobs.pods("team", NAME, None) == (*exact, PodView("uid-uid"))
    for request in bed.asked("GET", "pods"):
        assert request.headers["accept"] == METADATA
        assert "labelSelector" not in request.query


# -- collect -----------------------------------------------------------------------------------


def test_a_result_is_the_log_and_the_termination_message(bed: Bed) -> None:
    bed.ended(ran())
    found = bed.collect()
    assert found == Result(FRAME, SUMMARY.encode(), "p1-uid")
    (read,) = [item for item in bed.server.requests if item.path.endswith("/log")]
    assert read.query == {"container": "runner", "tailLines": str(logs.LINES)}
    assert logs.LINES * frame.LINE_CHARS_MAX >= 4 * frame.ENCODED_BYTES_MAX


def test_bytes_pass_unchanged(bed: Bed) -> None:
    noise = bytes(range(256)) * 100
    bed.ended(ran())
    bed.api.log = lambda request, reply: reply.body(200, noise + FRAME + noise)
    assert bed.collect().output == noise + FRAME + noise


def test_of_a_long_log_the_end_is_kept(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "KEPT_BYTES_MAX", 4096)
    bed.ended(ran())
    bed.api.log = lambda request, reply: reply.body(200, b"x\n" * 500_000 + FRAME)
    found = bed.collect()
    assert found.truncated and found.output.endswith(FRAME) and len(found.output) < 100_000


def test_a_log_without_end_is_no_result(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "READ_BYTES_MAX", 100_000)
    bed.ended(ran())
    bed.api.log = lambda request, reply: reply.body(200, b"x\n" * 500_000)
    assert isinstance(bed.collect(), NotYet)


def hang(request: Request, reply: Reply) -> None:
    reply.chunked()
    reply.chunk(FRAME[:10])
    reply.hang()


def drip(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
    reply.drip(b"x" * 99999, 0.02)


@pytest.mark.parametrize("log", [hang, drip])
def test_a_log_that_hangs_ends_at_its_deadline_and_decides_nothing(
    bed: Bed, log: Callable[[Request, Reply], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptahk.backends.kube.jobs.EVIDENCE_S", 0.5)
    bed.ended(ran())
    bed.api.log = log
    started = time.monotonic()
    assert isinstance(bed.collect(2.0), NotYet)
    assert time.monotonic() - started < 2.0 + 1.0


@pytest.mark.parametrize(
    "log",
    [
        lambda request, reply: reply.body(200, SENTENCE),
        lambda request, reply: reply.body(200, SENTENCE + b"\n"),
        lambda request, reply: reply.body(200, b"some new sentence of a newer kubelet"),
        lambda request, reply: reply.body(200, b""),
        lambda request, reply: reply.body(200, FRAME[:-30]),
        lambda request, reply: reply.body(200, b"noise\n"),
        lambda request, reply: reply.body(204, b""),
        refuse(400, "BadRequest"),
        refuse(403, "Forbidden"),
        refuse(404, "NotFound"),
        refuse(500, "InternalError"),
        cut,
    ],
)
def test_a_log_that_is_not_there_yet_decides_nothing(
    bed: Bed, log: Callable[[Request, Reply], None]
) -> None:
    bed.ended(ran())
    bed.api.log = log
    assert isinstance(bed.collect(), NotYet)
    bed.api.log = lambda request, reply: reply.body(200, FRAME)
    assert isinstance(bed.collect(), Result)


@pytest.mark.parametrize("data", [b"", b"Killed\n", FRAME[:-30]])
def test_a_runner_that_died_left_what_it_left(bed: Bed, data: bytes) -> None:
    """Without a summary nothing says that there was more; a broken frame is read twice."""
    bed.ended(ran(message=""))
    bed.api.log = lambda request, reply: reply.body(200, data)
    assert bed.collect() == Result(data, None, "p1-uid")


def test_a_body_that_is_cut_anew_each_time_is_no_result(bed: Bed) -> None:
    bed.ended(ran(message=""))
    lengths = iter(range(len(FRAME) - 30, 0, -1))
    bed.api.log = lambda request, reply: reply.body(200, FRAME[: next(lengths)])
    assert isinstance(bed.collect(), NotYet)


def test_a_log_that_cannot_be_read_is_gone_with_its_pod_or_node(bed: Bed) -> None:
    bed.ended(ran())

    def vanish(request: Request, reply: Reply) -> None:
        bed.api.pods = []
        reply.status(404, "NotFound", name="p1")

    bed.api.log = vanish
    assert bed.collect() == Lost("its Pod is gone", SUMMARY.encode())
    assert bed.collect() == Lost("its Pod is gone")
    bed.api.pods = [ran()]
    bed.api.log = refuse(404, "NotFound")
    bed.api.nodes = set()
    assert bed.collect() == Lost("its Node n1 is gone", SUMMARY.encode())
    bed.api.faults["GET nodes"] = refuse(403, "Forbidden")
    assert isinstance(bed.collect(), NotYet), "who may not look has no evidence"


def test_a_pod_that_is_being_deleted_is_not_absent(bed: Bed) -> None:
    """C-5.5: its log is gone once it is gone; a sentence in its place is only a failed reading."""
    bed.ended(ran(deletionTimestamp=OLD))
    bed.api.log = lambda request, reply: reply.body(200, SENTENCE)
    assert isinstance(bed.collect(), NotYet)
    bed.api.log = lambda request, reply: reply.body(200, FRAME)
    assert isinstance(bed.collect(), Result), "as long as it can be read it counts"
    bed.api.pods = []
    assert bed.collect() == Lost("its Pod is gone")


def test_large_logs_are_read_some_at_a_time(bed: Bed) -> None:
    """What all readings of a process hold at once is bounded; who finds no room comes again."""
    bed.ended(ran(message=""))
    bed.api.log = lambda request, reply: reply.body(200, b"noise\n" * 100_000)
    jobs = KubeJobs(bed.client, image=IMAGE, clock=SystemClock(), room=logs.Room(500_000))
    found = jobs.collect("team", NAME, "job-uid")
    assert isinstance(found, NotYet) and "large" in found.message
    bed.api.log = lambda request, reply: reply.body(200, b"noise\n" * 50_000)
    for _ in range(3):
        assert isinstance(jobs.collect("team", NAME, "job-uid"), Result), "it is given back"


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pod("p1", [], "Failed"), Lost),
        (pod("p1", [status({"waiting": {"reason": "ContainerCreating"}})], "Failed"), Lost),
        (pod("p1", [], "Pending"), NotYet),
        (pod("p1", [status({"running": {}})], "Running"), NotYet),
        (pod("p1", [status({"running": {}})], "Failed"), NotYet),
        (pod("p1", [status({"terminated": {"exitCode": 137}}, containerID="")], "Failed"), Lost),
        (
            pod("p1", [status({"terminated": {"reason": "ContainerStatusUnknown"}})], "Failed"),
            Lost,
        ),
        (pod("p1", [{**ran()["status"]["containerStatuses"][0], "name": "sidecar"}]), NotYet),
    ],
)
def test_what_the_container_record_says(bed: Bed, made: dict[str, Any], kind: type) -> None:
    bed.ended(made)
    assert isinstance(bed.collect(), kind)


def test_a_container_that_ran_twice_shows_both(bed: Bed) -> None:
    bed.ended(ran(restarts=1))

    def both(request: Request, reply: Reply) -> None:
        reply.body(200, b"earlier\n" if "previous" in request.query else FRAME)

    bed.api.log = both
    assert bed.collect().output == b"earlier\n" + FRAME
    bed.api.log = lambda request, reply: (
        reply.status(400, "BadRequest") if "previous" in request.query else reply.body(200, FRAME)
    )
    assert isinstance(bed.collect(), NotYet)


@pytest.mark.parametrize("last", [{}, {"terminated": {"exitCode": 137, "containerID": ""}}])
def test_an_earlier_start_without_a_record_cannot_be_waited_for(bed: Bed, last: Any) -> None:
    """A kubelet answers 400 to its log for ever: only the ledger knows what it did (C-5.5)."""
    again = ran(restarts=1)
    again["status"]["containerStatuses"][0]["lastState"] = last
    bed.ended(again)
    bed.api.log = lambda request, reply: (
        reply.status(400, "BadRequest") if "previous" in request.query else reply.body(200, FRAME)
    )
    found = bed.collect()
    assert isinstance(found, Lost) and found.termination == SUMMARY.encode()


def test_a_container_that_is_started_again_meanwhile_is_read_again(bed: Bed) -> None:
    bed.ended(ran())

    def restart(request: Request, reply: Reply) -> None:
        bed.api.pods = [ran(restarts=1)]
        reply.body(200, FRAME)

    bed.api.log = restart
    assert isinstance(bed.collect(), NotYet)


def test_a_job_that_has_not_ended_or_is_not_ours_is_not_read(bed: Bed) -> None:
    bed.jobs.create(order())
    bed.api.pods = [ran()]
    assert isinstance(bed.collect(), NotYet)
    bed.api.end()
    assert isinstance(bed.jobs.collect("team", NAME, "other"), Lost)
    bed.api.job = None
    assert isinstance(bed.collect(), Result), "the Pod outlived its Job"


# -- why it has not started --------------------------------------------------------------------


def blocked(bed: Bed, *pods: dict[str, Any], **status: Any) -> Any:
    bed.jobs.create(order())
    assert bed.api.job is not None
    bed.api.job["status"] = status
    bed.api.pods = [copy.deepcopy(item) for item in pods]
    seen = bed.jobs.observe("team", NAME)
    assert seen is not None and not seen.terminal
    return seen.waiting


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return pod("p1", [status({"waiting": {"reason": reason, "message": message}})])


def unscheduled() -> dict[str, Any]:
    made = pod("p1", [])
    made["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
         "message": "0/1 nodes are available"}
    ]  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("made", "reason", "word"),
    [
        (unscheduled(), "Unschedulable", "0/1 nodes"),
        (waits("ErrImagePull", "tls: x"), "ImageUnavailable", IMAGE),
        (waits("ImagePullBackOff", "Back-off 10s"), "ImageUnavailable", IMAGE),
        (
            waits("CreateContainerConfigError", 'secret "db" not found'),
            "SecretUnavailable",
            'secret "db" not found',
        ),
        (waits("CreateContainerError", "id 17"), "PodWaiting", "CreateContainerError"),
        (waits("ContainerCreating"), "PodWaiting", "volumes"),
    ],
)
def test_what_keeps_a_pod_from_starting_is_said(
    bed: Bed, made: dict[str, Any], reason: str, word: str
) -> None:
    found = blocked(bed, made, active=1)
    assert (found.reason, "p1" in found.message) == (reason, True)
    assert word in found.message and reason in WAITING


def test_a_volume_that_cannot_be_mounted_is_named(bed: Bed) -> None:
    message = 'MountVolume.SetUp failed for volume "tls" : secret "tls" not found'
    bed.api.events = [{"message": message, "lastTimestamp": OLD}]
    found = blocked(bed, waits("ContainerCreating"), active=1)
    assert (found.reason, found.message) == ("SecretUnavailable", f"Pod p1: {message}")


def test_what_refuses_the_pod_is_told_in_words_that_stay(bed: Bed) -> None:
    cause = "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
    found = []
    for suffix in ("abcde", "fghij"):
        text = f'Error creating: pods "{NAME}-{suffix}" is forbidden: {cause}'
        bed.api.job = None
        bed.api.events = [
            {"message": "older", "lastTimestamp": "2025-01-01T00:00:00Z"},
            {"message": text, "lastTimestamp": OLD},
        ]
        found.append(blocked(bed))
    assert found[0] == found[1]
    assert (found[0].reason, cause in found[0].message) == ("PodRefused", True)


def test_who_may_not_read_events_still_says_that_no_pod_was_made(bed: Bed) -> None:
    bed.api.faults["GET events"] = refuse(403, "Forbidden")
    assert blocked(bed).reason == "PodRefused"


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        ([pod("p1", [status({"running": {}})], "Running")], {"active": 1, "ready": 1}),
        ([pod("p1", [status({"running": {}})], "Running")], {"active": 1, "ready": 0}),
        ([ran()], {"active": 1}),
    ],
)
def test_what_runs_waits_for_nothing(bed: Bed, pods: list[Any], status: Any) -> None:
    assert blocked(bed, *pods, **status) is None


def test_a_start_that_is_under_way_is_not_asked_about(bed: Bed) -> None:
    bed.jobs.create(order())
    assert bed.api.job is not None
    bed.api.job["metadata"]["creationTimestamp"] = f"{SystemClock().now():%Y-%m-%dT%H:%M:%SZ}"
    seen = bed.jobs.observe("team", NAME)
    assert seen is not None and seen.waiting is None
    assert [Api.parts(item)[0] for item in bed.server.requests] == ["jobs", "jobs"]


def test_a_pod_that_does_not_end_long_after_its_deadline_names_its_node(bed: Bed) -> None:
    bed.api.made_at = OLD
    lost = pod("p1", [status({"running": {}})], "Running", deletionTimestamp=OLD)
    found = blocked(bed, lost, conditions=[{"type": "FailureTarget", "status": "True"}])
    assert (found.reason, found.message) == ("PodStuck", "Pod p1 does not end (node n1)")
    assert found.reason in WAITING


def test_a_job_that_somebody_suspended_says_so(bed: Bed) -> None:
    bed.jobs.create(order())
    assert bed.api.job is not None
    bed.api.job["spec"]["suspend"] = True
    seen = bed.jobs.observe("team", NAME)
    assert seen is not None and seen.waiting is not None
    assert (seen.waiting.reason, "suspend" in seen.waiting.message) == ("PodWaiting", True)


def test_an_explanation_that_cannot_be_had_hides_no_job(bed: Bed) -> None:
    bed.api.faults["GET pods"] = cut
    assert blocked(bed) is None


def test_long_texts_are_cut(bed: Bed) -> None:
    found = blocked(bed, waits("CreateContainerConfigError", "x\n\x1b" * 5000), active=1)
    assert len(found.message) <= waiting.TEXT_MAX and "\x1b" not in found.message


def test_an_order_may_not_leave_its_namespace(bed: Bed) -> None:
    with pytest.raises(PortError):
        bed.jobs.observe("team", "../../pods/x")
    made: JobOrder = order(namespace="a/b")
    with pytest.raises(PortError):
        bed.jobs.create(made)
    assert not bed.server.requests
