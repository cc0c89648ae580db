"""The Jobs contract, over Jobs in memory, real child processes, and Pods of a real cluster."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptahk.backends.local.jobs import LocalJobs
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import (
    AlreadyExists,
    JobOrder,
    Jobs,
    Lost,
    NotFound,
    NotYet,
    PodView,
    Result,
)
from tests.kit import fakejob, kubejobs
from tests.kit.clusters import PodCluster
from tests.kit.kubejobs import Gate
from tests.kit.memory import MemoryJobs
from tests.kit.orders import job_order
from tests.kit.waiting import until

NAME = "ptahk-op-observe-1"
PATIENCE_S = 30.0


SAYS = """
print("hello", flush=True)
with open(os.environ["PTAHK_TERMINATION_LOG"], "w") as stream:
    stream.write("summary")
"""


@dataclass
class Backend:
    jobs: Jobs
    finish: Callable[[str], None]
    """Let the Job say ``hello``, summarise it as ``summary``, and end; return when it has."""
    restart: Callable[[], Jobs]
    """The same Jobs as the next process finds them."""
    namespace: str = "local"
    order: Callable[[], JobOrder] = lambda: job_order(NAME)

    def pods(self, uid: str | None) -> tuple[PodView, ...]:
        """The Job's Pods, of which there is one as soon as its controller has seen the Job."""
        look = lambda: self.jobs.pods(self.namespace, NAME, uid)  # noqa: E731
        return until(look, "a Pod of the Job", PATIENCE_S)


def memory() -> Iterator[Backend]:
    jobs = MemoryJobs()
    yield Backend(jobs, lambda name: jobs.finish(name, b"hello\n", b"summary"), lambda: jobs)


def local(folder: Path) -> Iterator[Backend]:
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    made: list[LocalJobs] = []

    def start() -> LocalJobs:
        argv = (sys.executable, fakejob.__file__, "hold", str(fifo))
        made.append(
            LocalJobs(
                folder / "jobs", SystemClock(), url="postgresql:///d", environment={},
                runner_argv=argv,
            )
        )  # fmt: skip
        return made[-1]

    def finish(name: str) -> None:
        fifo.write_text("go")
        assert made[-1].observe("local", name) is not None
        while not made[-1].observe("local", name).terminal:  # type: ignore[union-attr]
            assert made[-1].wait(PATIENCE_S), "the child has not ended"

    yield Backend(start(), finish, start)
    for jobs in made:
        jobs.close()


def kube(cluster: PodCluster, namespace: str) -> Iterator[Backend]:
    gate = Gate(cluster.guests.address)
    with contextlib.closing(gate), kubejobs.place(cluster, namespace) as place:
        place.secret("db", url="postgresql:///d")
        jobs = place.jobs(argv=gate.argv(SAYS))
        order = place.order(NAME)

        def finish(name: str) -> None:
            gate.open()
            place.ended(jobs, name)

        yield Backend(jobs, finish, place.jobs, namespace, lambda: order)


@pytest.fixture(params=["memory", "local", "kube"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    if request.param == "memory":
        yield from memory()
    elif request.param == "local":
        yield from local(tmp_path)
    else:
        yield from kube(request.getfixturevalue("cluster"), request.getfixturevalue("namespace"))


def test_a_job_from_create_to_result(backend: Backend) -> None:
    jobs, order = backend.jobs, backend.order()
    assert jobs.observe(backend.namespace, NAME) is None
    made = jobs.create(order)
    assert (made.name, made.terminal, made.ttl_s) == (NAME, False, None)
    assert made.annotations == order.annotations
    assert jobs.observe(backend.namespace, NAME) == made
    assert isinstance(jobs.collect(backend.namespace, NAME, made.uid), NotYet)
    pods = backend.pods(made.uid)
    assert len(pods) == 1
    backend.finish(NAME)
    ended = jobs.observe(backend.namespace, NAME)
    assert ended is not None
    assert (ended.uid, ended.terminal, ended.annotations) == (made.uid, True, order.annotations)
    result = jobs.collect(backend.namespace, NAME, made.uid)
    assert isinstance(result, Result)
    assert result.output.endswith(b"hello\n")
    assert (result.termination, result.truncated) == (b"summary", False)
    assert PodView(result.pod_uid) == pods[0]
    assert jobs.collect(backend.namespace, NAME, made.uid) == result


def test_a_name_is_used_once(backend: Backend) -> None:
    made = backend.jobs.create(backend.order())
    with pytest.raises(AlreadyExists):
        backend.jobs.create(backend.order())
    assert backend.jobs.observe(backend.namespace, NAME) == made
    backend.finish(NAME)
    with pytest.raises(AlreadyExists):
        backend.jobs.create(backend.order())


def test_the_next_process_finds_it(backend: Backend) -> None:
    made = backend.jobs.create(backend.order())
    later = backend.restart()
    assert later.observe(backend.namespace, NAME) == made
    backend.finish(NAME)
    assert isinstance(later.collect(backend.namespace, NAME, made.uid), Result)


def test_another_uid_is_another_job(backend: Backend) -> None:
    made = backend.jobs.create(backend.order())
    assert isinstance(backend.jobs.collect(backend.namespace, NAME, "other"), Lost)
    assert backend.jobs.pods(backend.namespace, NAME, "other") == ()
    assert backend.pods(None) == backend.pods(made.uid)
    with pytest.raises(NotFound):
        backend.jobs.expire(backend.namespace, NAME, "other", 300)
    backend.finish(NAME)


def test_the_cleanup_time_is_kept(backend: Backend) -> None:
    made = backend.jobs.create(backend.order())
    backend.finish(NAME)
    for _ in range(2):
        backend.jobs.expire(backend.namespace, NAME, made.uid, 300)
        view = backend.restart().observe(backend.namespace, NAME)
        assert view is not None
        assert view.ttl_s == 300


def test_nothing_there(backend: Backend) -> None:
    assert backend.jobs.observe(backend.namespace, NAME) is None
    assert isinstance(backend.jobs.collect(backend.namespace, NAME, "uid"), Lost)
    assert backend.jobs.pods(backend.namespace, NAME, None) == ()
    with pytest.raises(NotFound):
        backend.jobs.expire(backend.namespace, NAME, "uid", 300)
