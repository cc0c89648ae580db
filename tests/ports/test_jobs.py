"""The Jobs contract, over Jobs in memory and Jobs that are real child processes."""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptahk.backends.local.jobs import LocalJobs
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import AlreadyExists, Jobs, Lost, NotFound, NotYet, PodView, Result
from tests.kit import fakejob
from tests.kit.memory import MemoryJobs
from tests.kit.orders import job_order

NAME = "ptahk-op-observe-1"
PATIENCE_S = 30.0


@dataclass
class Backend:
    jobs: Jobs
    finish: Callable[[str], None]
    """Let the Job say ``hello``, summarise it as ``summary``, and end; return when it has."""
    restart: Callable[[], Jobs]
    """The same Jobs as the next process finds them."""


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


@pytest.fixture(params=["memory", "local"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    yield from memory() if request.param == "memory" else local(tmp_path)


def test_a_job_from_create_to_result(backend: Backend) -> None:
    jobs, order = backend.jobs, job_order(NAME)
    assert jobs.observe("local", NAME) is None
    made = jobs.create(order)
    assert (made.name, made.terminal, made.ttl_s) == (NAME, False, None)
    assert made.annotations == order.annotations
    assert jobs.observe("local", NAME) == made
    assert isinstance(jobs.collect("local", NAME, made.uid), NotYet)
    pods = jobs.pods("local", NAME, made.uid)
    assert len(pods) == 1
    backend.finish(NAME)
    ended = jobs.observe("local", NAME)
    assert ended is not None
    assert (ended.uid, ended.terminal, ended.annotations) == (made.uid, True, order.annotations)
    result = jobs.collect("local", NAME, made.uid)
    assert isinstance(result, Result)
    assert result.output.endswith(b"hello\n")
    assert (result.termination, result.truncated) == (b"summary", False)
    assert PodView(result.pod_uid) == pods[0]
    assert jobs.collect("local", NAME, made.uid) == result


def test_a_name_is_used_once(backend: Backend) -> None:
    made = backend.jobs.create(job_order(NAME))
    with pytest.raises(AlreadyExists):
        backend.jobs.create(job_order(NAME))
    assert backend.jobs.observe("local", NAME) == made
    backend.finish(NAME)
    with pytest.raises(AlreadyExists):
        backend.jobs.create(job_order(NAME))


def test_the_next_process_finds_it(backend: Backend) -> None:
    made = backend.jobs.create(job_order(NAME))
    later = backend.restart()
    assert later.observe("local", NAME) == made
    backend.finish(NAME)
    assert isinstance(later.collect("local", NAME, made.uid), Result)


def test_another_uid_is_another_job(backend: Backend) -> None:
    made = backend.jobs.create(job_order(NAME))
    assert isinstance(backend.jobs.collect("local", NAME, "other"), Lost)
    assert backend.jobs.pods("local", NAME, "other") == ()
    assert backend.jobs.pods("local", NAME, None) == backend.jobs.pods("local", NAME, made.uid)
    with pytest.raises(NotFound):
        backend.jobs.expire("local", NAME, "other", 300)
    backend.finish(NAME)


def test_the_cleanup_time_is_kept(backend: Backend) -> None:
    made = backend.jobs.create(job_order(NAME))
    backend.finish(NAME)
    for _ in range(2):
        backend.jobs.expire("local", NAME, made.uid, 300)
        view = backend.restart().observe("local", NAME)
        assert view is not None
        assert view.ttl_s == 300


def test_nothing_there(backend: Backend) -> None:
    assert backend.jobs.observe("local", NAME) is None
    assert isinstance(backend.jobs.collect("local", NAME, "uid"), Lost)
    assert backend.jobs.pods("local", NAME, None) == ()
    with pytest.raises(NotFound):
        backend.jobs.expire("local", NAME, "uid", 300)
