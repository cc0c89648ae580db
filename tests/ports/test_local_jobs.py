"""What only real processes do: die, be killed, outlive who made them, leave rubbish behind."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.local import jobdir, jobs
from ptahk.backends.local.jobs import RUNNER_ARGV, LocalJobs, LocalSurroundings, child_environment
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import Invalid, JobInput, Lost, NotYet, PortError, Result, Unavailable
from ptahk.errors import PtahkError
from ptahk.wire import digest, frame, jobspec
from tests.kit import fakejob
from tests.kit.memory import MemoryClock
from tests.kit.orders import job_order

NAME = "ptahk-op-observe-1"
PATIENCE_S = 30.0
SECRET = "correct-horse"
URL = f"postgresql://me:{SECRET}@127.0.0.1:1/d"
DEV_URL = f"postgresql://me:dev-{SECRET}@127.0.0.1:1/d"

Make = Callable[..., LocalJobs]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[LocalJobs] = []

    def make_jobs(*mode: object, **options: Any) -> LocalJobs:
        argv = (sys.executable, fakejob.__file__, *map(str, mode))
        given: dict[str, Any] = {"url": URL, "environment": {}, "runner_argv": argv}
        made.append(
            LocalJobs(tmp_path / "jobs", options.pop("clock", SystemClock()), **(given | options))
        )
        return made[-1]

    yield make_jobs
    for item in made:
        item.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def until_ended(jobs: LocalJobs, name: str = NAME) -> None:
    while (view := jobs.observe("local", name)) is not None and not view.terminal:
        assert jobs.wait(PATIENCE_S), "the Job has not ended"


def output(jobs: LocalJobs, uid: str) -> bytes:
    result = jobs.collect("local", NAME, uid)
    assert isinstance(result, Result)
    return result.output


def test_what_the_child_is_given(make: Make, tmp_path: Path) -> None:
    environment = child_environment(
        {"PATH": "/bin", "PGPASSWORD": SECRET, "PYTHONPATH": "/x"}, tmp_path
    )
    jobs = make("dump", dev_url=DEV_URL, environment=environment)
    order = job_order(NAME, (JobInput("source.json.gz", "source", b"\x1f\x8b"),))
    made = jobs.create(order)
    until_ended(jobs)
    seen = json.loads(output(jobs, made.uid))
    directory = tmp_path / "jobs" / f"local.{NAME}"
    alive = seen["environment"].pop(jobspec.ALIVE_FD)
    assert int(alive) > 2
    seen["environment"].pop("LC_CTYPE", None)
    assert seen["environment"] == {
        "PATH": "/bin",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "1",
        jobspec.CACHE_DIR: str(tmp_path),
        jobspec.DATABASE_URL: URL,
        jobspec.DEV_DATABASE_URL: DEV_URL,
        jobspec.POD_UID: made.uid,
        jobspec.TERMINATION_LOG: str(directory / "termination"),
    }
    assert seen["argv"][1:] == ["dump", "--job", str(directory)]
    assert (seen["session"], seen["stdin"], seen["cwd"]) == (True, "", str(directory))
    assert seen["files"] == ["alive", "identity.json", "job.json", "log", "source.json.gz"]
    assert seen["modes"] == [0o600]
    assert directory.stat().st_mode & 0o777 == 0o700
    assert jobspec.decode((directory / "job.json").read_bytes()) == order.spec


def test_no_secret_is_written_down(make: Make, tmp_path: Path) -> None:
    jobs = make("print", dev_url=DEV_URL)
    jobs.create(job_order(NAME))
    until_ended(jobs)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes()


def test_the_snapshot_is_what_the_child_sees(make: Make) -> None:
    environment = child_environment(os.environ)
    jobs = make("dump", environment=environment)
    made = jobs.create(job_order(NAME))
    until_ended(jobs)
    seen = json.loads(output(jobs, made.uid))["environment"]
    snapshot = LocalSurroundings(environment).snapshot("local", {})
    assert snapshot["environment"] == jobspec.scrubbed(seen)
    assert snapshot["interpreter"] == sys.executable


def test_a_command_without_a_url_starts_nothing(make: Make, tmp_path: Path) -> None:
    jobs = make("print", url=None)
    with pytest.raises(Invalid):
        jobs.create(job_order(NAME))
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_child_that_cannot_be_started_is_no_job(make: Make, tmp_path: Path) -> None:
    jobs = make(runner_argv=("/nowhere/python",))
    with pytest.raises(Unavailable):
        jobs.create(job_order(NAME))
    assert jobs.observe("local", NAME) is None
    assert list((tmp_path / "jobs").iterdir()) == []


CREATOR = """
import os, signal, sys
from pathlib import Path
from ptahk.backends.local import jobdir
from ptahk.backends.local.jobs import LocalJobs
from ptahk.backends.system import SystemClock
from tests.kit import fakejob
from tests.kit.orders import job_order
root, step, mode = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
if step != "none":
    def killed(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
    owner, _, name = step.rpartition(".")
    setattr(getattr(jobdir, owner) if owner else jobdir, name, killed)
argv = (sys.executable, fakejob.__file__, *mode)
jobs = LocalJobs(root, SystemClock(), url="postgresql:///d", environment={}, runner_argv=argv)
print(jobs.create(job_order("ptahk-op-observe-1")).uid, flush=True)
signal.pause()
"""


def creator(root: Path, step: str, *mode: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CREATOR, str(root), step, *map(str, mode)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_job_outlives_its_killed_creator(make: Make, tmp_path: Path, fifo: Path) -> None:
    with creator(tmp_path / "jobs", "none", "hold", fifo) as process:
        assert process.stdout is not None
        uid = process.stdout.readline().strip()
        process.kill()
    jobs = make("print")
    view = jobs.observe("local", NAME)
    assert view is not None
    assert (view.uid, view.terminal) == (uid, False)
    assert isinstance(jobs.collect("local", NAME, uid), NotYet)
    fifo.write_text("go")
    until_ended(jobs)
    assert output(jobs, uid).endswith(b"hello\n")


@pytest.mark.parametrize("step", ["os.fsync", "fcntl.flock", "_fill", "_name", "sync_directory"])
def test_a_creator_killed_before_the_name_stands_created_nothing(
    make: Make, tmp_path: Path, step: str
) -> None:
    with creator(tmp_path / "jobs", step, "print") as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    clock = MemoryClock(SystemClock().now())
    jobs = make("print", clock=clock)
    assert jobs.observe("local", NAME) is None
    made = jobs.create(job_order(NAME))
    until_ended(jobs)
    assert output(jobs, made.uid) == b"hello\n"
    clock.advance(2 * jobdir.STAGING_AGE_MAX_S)
    make("print", clock=clock)
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == [f"local.{NAME}"]


@pytest.mark.parametrize("step", ["_start", "subprocess.Popen"])
def test_a_creator_killed_before_the_fork_leaves_an_ended_job(
    make: Make, tmp_path: Path, step: str
) -> None:
    with creator(tmp_path / "jobs", step, "print") as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    jobs = make("print")
    view = jobs.observe("local", NAME)
    assert view is not None
    assert view.terminal
    result = jobs.collect("local", NAME, view.uid)
    assert result == Result(b"", None, view.uid)
    with pytest.raises(PortError):
        jobs.create(job_order(NAME))


def test_two_creators_of_one_name_start_one_child(make: Make, tmp_path: Path, fifo: Path) -> None:
    code = CREATOR.replace("signal.pause()", "")
    command = [sys.executable, "-c", code, str(tmp_path / "jobs"), "none", "hold", str(fifo)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=PATIENCE_S) for process in started]
    uids = [out.strip() for out, _ in answers if out]
    assert len(uids) == 1
    assert sum("AlreadyExists" in err for _, err in answers) == 2
    fifo.write_text("go")
    jobs = make("print")
    until_ended(jobs)
    assert output(jobs, uids[0]) == b"started\nhello\n"


def test_the_job_lives_while_its_executor_does(make: Make, fifo: Path) -> None:
    """The runner is gone by SIGKILL, its child still works: no new session may start."""
    jobs = make("orphan", fifo)
    made = jobs.create(job_order(NAME))
    (runner,) = jobs._children
    assert runner.wait(PATIENCE_S) == -signal.SIGKILL
    view = jobs.observe("local", NAME)
    assert view is not None
    assert not view.terminal
    fifo.write_text("go")
    until_ended(jobs)
    assert output(jobs, made.uid).endswith(b"hello\n")


def test_a_killed_job_has_ended(make: Make, fifo: Path) -> None:
    jobs = make("hold", fifo)
    made = jobs.create(job_order(NAME))
    (runner,) = jobs._children
    os.kill(runner.pid, signal.SIGKILL)
    until_ended(jobs)
    result = jobs.collect("local", NAME, made.uid)
    assert isinstance(result, Result)
    assert result.termination is None


def test_waiting_ends_at_its_time_or_when_woken(make: Make, fifo: Path) -> None:
    jobs = make("hold", fifo)
    jobs.create(job_order(NAME))
    began = time.monotonic()
    assert not jobs.wait(0.05)
    assert time.monotonic() - began < 5
    previous = signal.signal(signal.SIGUSR1, lambda *_: jobs.wake())
    try:
        signal.raise_signal(signal.SIGUSR1)
        assert jobs.wait(PATIENCE_S)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert not jobs.wait(0.0)
    fifo.write_text("go")
    until_ended(jobs)


def test_readers_do_not_take_each_other_for_the_job(make: Make, tmp_path: Path) -> None:
    jobs = make("print")
    jobs.create(job_order(NAME))
    until_ended(jobs)
    with (tmp_path / "jobs" / f"local.{NAME}" / jobdir.ALIVE).open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        view = make("print").observe("local", NAME)
        assert view is not None
        assert view.terminal


def test_an_expired_job_is_removed_and_a_running_one_is_not(make: Make, fifo: Path) -> None:
    clock = MemoryClock(SystemClock().now())
    jobs = make("hold", fifo, clock=clock)
    made = jobs.create(job_order(NAME))
    jobs.expire("local", NAME, made.uid, 300)
    clock.advance(10_000)
    assert make("print", clock=clock).observe("local", NAME) is not None
    fifo.write_text("go")
    until_ended(jobs)
    clock.step_wall(-10_000)
    assert make("print", clock=clock).observe("local", NAME) is not None
    clock.advance(10_000)
    assert make("print", clock=clock).observe("local", NAME) is None
    assert isinstance(jobs.collect("local", NAME, made.uid), Lost)


def test_half_removed_jobs_are_swept(make: Make, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / ".gone-x-1").mkdir()
    (tmp_path / "jobs" / ".gone-x-1" / "log").write_text("x")
    make("print")
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_long_log_is_read_from_its_end(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "OUTPUT_BYTES_MAX", 1024)
    flooding = make("flood")
    made = flooding.create(job_order(NAME))
    until_ended(flooding)
    result = flooding.collect("local", NAME, made.uid)
    assert isinstance(result, Result)
    assert result.truncated
    assert result.output == b"x" * 1021 + b"end"


def test_a_lost_log_is_lost_and_an_unreadable_one_is_not_yet(make: Make, tmp_path: Path) -> None:
    jobs = make("print")
    made = jobs.create(job_order(NAME))
    until_ended(jobs)
    log = tmp_path / "jobs" / f"local.{NAME}" / jobdir.LOG
    log.unlink()
    assert jobs.collect("local", NAME, made.uid) == Lost("the Job's log is gone", b"summary")
    log.mkdir()
    assert isinstance(jobs.collect("local", NAME, made.uid), NotYet)


def test_a_damaged_identity_decides_nothing(make: Make, tmp_path: Path) -> None:
    jobs = make("print")
    made = jobs.create(job_order(NAME))
    until_ended(jobs)
    (tmp_path / "jobs" / f"local.{NAME}" / jobdir.IDENTITY).write_text("{")
    with pytest.raises(Unavailable):
        jobs.observe("local", NAME)
    assert isinstance(jobs.collect("local", NAME, made.uid), NotYet)


def test_a_name_never_leaves_the_directory(make: Make) -> None:
    for name in ("../x", "", ".new-x", "a/b"):
        with pytest.raises(Invalid):
            make("print").observe("local", name)


def test_a_root_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PtahkError) as raised:
        LocalJobs(tmp_path / "file" / "jobs", SystemClock(), url=None, environment={})
    assert raised.value.exit_code == 6


def test_temporary_jobs_leave_nothing() -> None:
    argv = (sys.executable, fakejob.__file__, "print")
    with LocalJobs.temporary(SystemClock(), url=URL, environment={}, runner_argv=argv) as held:
        root = held._root
        made = held.create(job_order(NAME))
        until_ended(held)
        assert output(held, made.uid) == b"hello\n"
    assert not root.exists()
    assert not root.parent.exists()


@pytest.mark.parametrize("same", [True, False])
def test_the_real_runner_frames_its_answer(make: Make, same: bool) -> None:
    """It accepts the snapshot that the claim keeps (C-14.3), and refuses another."""
    environment = child_environment(os.environ)
    given = environment if same else {**environment, "LANG": "xx_XX"}
    snapshot = LocalSurroundings(given).snapshot("local", {})
    jobs = make(environment=environment, runner_argv=RUNNER_ARGV)
    order = job_order(NAME, local_snapshot_digest=digest.local_snapshot_digest(snapshot))
    made = jobs.create(order)
    until_ended(jobs)
    result = jobs.collect("local", NAME, made.uid)
    assert isinstance(result, Result)
    decoder = frame.Decoder(order.spec.operation_id, order.spec.epoch)
    decoder.feed(result.output)
    framed = decoder.finish()
    assert isinstance(framed, frame.Frame), result.output
    assert framed.document["podUid"] == made.uid
    refused = framed.document["error"]
    assert (refused["reason"] == "JobMismatch") is not same, refused
    assert result.termination is not None
    assert SECRET.encode() not in result.output
