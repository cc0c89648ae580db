"""The runner with children that behave badly: what it prints, and that it always ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube.pod import job_value
from ptahk.wire import frame, jobspec
from ptahk.wire.jobspec import JobPolicy
from tests.kit.operations import Done, Operator, operator
from tests.kit.sessions import FINGERPRINT
from tests.kit.waiting import until

PASSWORD = "S3cret!pass/word"
URL = "postgresql://user:S3cret%21pass%2Fword@db.example:6432/orders"
PLAN = b'{"statements":[],"version":1}'

HEAD = """
import json, os, signal, sys, time
command = json.loads(sys.stdin.buffer.readline())
out = {"version": 1, "command": command["command"], "ok": True}
def say(**more):
    sys.stdout.write(json.dumps(out | more) + "\\n"); sys.stdout.flush()
"""

Misbehave = Callable[[str], Operator]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Misbehave]:
    """Makes an operator whose executor is a script."""
    made: list[Any] = []

    def make(script: str) -> Operator:
        executor = tmp_path / "executor.py"
        executor.write_text(HEAD + script)
        runner = tmp_path / "runner.py"
        runner.write_text(
            "import sys\nfrom ptahk.runner.__main__ import main\n"
            f"sys.exit(main(executor_argv=[sys.executable, {str(executor)!r}]))\n"
        )
        context = operator(URL, tmp_path, runner=(sys.executable, str(runner)))
        made.append(context)
        found: Operator = context.__enter__()
        return found

    yield make
    for context in made:
        context.__exit__(None, None, None)


def start_apply(one: Operator, **changes: Any) -> Any:
    from ptahk.wire import dsn

    given: dict[str, Any] = {
        "plan": PLAN,
        "target_identity": dsn.identify(URL, engine="postgresql").digest,
        "server_identity": "postgresql/1/2",
        "observed_fingerprint": FINGERPRINT,
        "desired_fingerprint": FINGERPRINT,
        "scope": ("public",),
    }
    return one.start("Apply", **(given | changes))


def clean(done: Done) -> None:
    """Nothing that left the process knows the password in any spelling."""
    text = json.dumps(done.frame) + json.dumps(done.termination)
    for secret in (PASSWORD, "S3cret%21pass%2Fword"):
        assert secret not in text
        assert secret.encode() not in done.output


def test_a_good_result_is_framed_once(child: Misbehave) -> None:
    done = start_apply(child("say(result='applied', mutationStarted=True)")).wait()
    assert done.exit_code == 0
    assert done.frame["outcomeCertain"] is True
    assert done.frame["mutationStarted"] is True
    assert done.termination["certain"] is True
    assert done.termination["frameDigest"]
    assert done.output.count(b"PTAHK-FRAME") == 1


def test_the_child_gets_the_url_by_environment_alone(child: Misbehave) -> None:
    script = """
names = sorted(os.environ)
url = os.environ["PTAHK_DATABASE_URL"] in " ".join(sys.argv) or "S3cret" in json.dumps(command)
say(names=names, leaked=url)
"""
    one = child(script)
    one.environment = {
        "PGPASSWORD": "x",
        "PGHOST": "elsewhere",
        "MYSQL_HOST": "y",
        "SOMETHING": "z",
    }
    done = one.observe()
    assert done.result["leaked"] is False
    allowed = {*jobspec.CHILD_ENVIRONMENT, jobspec.DATABASE_URL, "LC_CTYPE"}
    assert set(done.result["names"]) <= allowed


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("", "ExecutorLost"),
        ("sys.stdout.write('nonsense')", "ExecutorLost"),
        ("os.kill(os.getpid(), 9)", "ExecutorLost"),
        ("say(); sys.exit(1)", "ExecutorLost"),
        ("say(); say()", "ExecutorLost"),
        ("sys.stdout.write('x' * (25 << 20))", "ResultTooLarge"),
        ("say(declaration=os.urandom(9 << 20).hex())", "ResultTooLarge"),
    ],
    ids=["silent", "nonsense", "killed", "disagrees", "twice", "too-large", "frame-too-large"],
)
def test_without_a_usable_result_a_mutation_is_unknown(
    child: Misbehave, script: str, reason: str
) -> None:
    done = start_apply(child(script)).wait()
    assert (done.exit_code, done.reason) == (4, reason)
    assert done.frame["mutationStarted"] is True
    assert done.frame["outcomeCertain"] is False
    assert done.termination["certain"] is False
    assert done.frame["result"] is None


def test_a_read_without_a_result_is_a_fault_of_ours(child: Misbehave) -> None:
    done = child("").observe()
    assert (done.exit_code, done.reason) == (70, "ExecutorLost")
    assert done.frame["mutationStarted"] is False


def test_secrets_are_masked_wherever_the_child_says_them(child: Misbehave) -> None:
    script = """
url = os.environ["PTAHK_DATABASE_URL"]
sys.stderr.write("could not connect: " + url + "\\n")
error = {"reason": "X", "message": "failed at " + url, "exitCode": 6, "hint": "S3cret!pass/word"}
sys.stdout.write(json.dumps(out | {"ok": False, "error": error, "notes": [url]}) + "\\n")
sys.exit(6)
"""
    done = child(script).observe()
    assert done.exit_code == 6
    assert "db.example" in done.message
    clean(done)


def test_a_crashed_childs_last_line_is_shown_masked(child: Misbehave) -> None:
    script = (
        "sys.stderr.write('it broke: ' + os.environ['PTAHK_DATABASE_URL'] + '\\n'); sys.exit(9)"
    )
    done = child(script).observe()
    assert "it broke" in done.message
    clean(done)


def test_the_error_output_never_blocks_the_child(child: Misbehave) -> None:
    done = child("sys.stderr.write('noise ' * (1 << 20)); sys.stderr.flush(); say()").observe()
    assert done.exit_code == 0
    assert len(done.output) < 100_000


def test_a_child_that_ignores_its_deadline_is_killed(child: Misbehave) -> None:
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
    done = start_apply(child(script), deadline_s=6, grace_s=1).wait()
    assert (done.exit_code, done.reason) == (4, "ExecutorLost")
    assert "deadline" in done.message


def test_a_grandchild_that_keeps_the_pipes_does_not_keep_the_runner(
    child: Misbehave, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    script = f"""
import subprocess
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(note)!r}, "w").write(str(other.pid))
os.kill(os.getpid(), 9)
"""
    try:
        done = start_apply(child(script), deadline_s=6, grace_s=1).wait()
        assert (done.exit_code, done.reason) == (4, "ExecutorLost")
    finally:
        os.kill(int(note.read_text()), 9)


def test_a_cut_error_output_shows_no_end_of_a_secret(child: Misbehave) -> None:
    script = "sys.stderr.write('S3cret!pass/word' * 8192); sys.stderr.flush(); sys.exit(9)"
    done = child(script).observe()
    assert done.reason == "ExecutorLost"
    for start in range(8):
        assert PASSWORD[start:] not in done.message


def test_sigterm_is_passed_on_and_the_frame_still_comes(child: Misbehave, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"""
def stop(number, frame):
    sys.stdout.write(json.dumps(out | {{"ok": False, "result": "failed", "mutationStarted": True,
        "error": {{"reason": "Stopped", "message": "stopped", "exitCode": 5}}}}) + "\\n")
    sys.stdout.flush()
    os._exit(5)
signal.signal(signal.SIGTERM, stop)
open({str(ready)!r}, "w").close()
while True: time.sleep(60)
"""
    started = start_apply(child(script))
    until(ready.exists, "the child to be ready")
    started.process.terminate()
    done = started.wait()
    assert (done.exit_code, done.reason) == (5, "Stopped")
    assert done.frame["outcomeCertain"] is True


def test_the_childs_input_ends_with_the_runner(child: Misbehave, tmp_path: Path) -> None:
    ready, gone = tmp_path / "ready", tmp_path / "gone"
    script = f"""
open({str(ready)!r}, "w").close()
sys.stdin.buffer.read()
open({str(gone)!r}, "w").close()
"""
    started = child(script).start("Observe")
    until(ready.exists, "the child to be ready")
    started.process.kill()
    until(gone.exists, "the child to notice")


def test_a_damaged_input_is_refused_before_the_child(child: Misbehave) -> None:
    one = child("say()")
    broken = one.start("Observe", source="x", inputs={jobspec.SOURCE_FILE: FINGERPRINT}).wait()
    assert (broken.exit_code, broken.reason) == (3, "InputMismatch")
    missing = one.start("Observe", inputs={jobspec.SOURCE_FILE: FINGERPRINT}).wait()
    assert (missing.exit_code, missing.reason) == (3, "InputMismatch")


def test_a_late_start_is_refused(child: Misbehave) -> None:
    done = start_apply(child("say()"), dispatch_not_after="2020-01-01T00:00:00Z").wait()
    assert (done.exit_code, done.reason) == (3, "DeadlineExceeded")
    assert done.frame["mutationStarted"] is False


def test_optimised_python_is_refused(child: Misbehave) -> None:
    one = child("say()")
    one.runner = (sys.executable, "-O", "-m", "ptahk.runner")
    started = one.start("Observe")
    _, errors = started.process.communicate(timeout=60)
    assert started.process.returncode == 70
    assert b"-O" in errors
    assert os.listdir(started.folder) == ["job.json"]


def test_in_a_pod_the_job_comes_by_environment(child: Misbehave, tmp_path: Path) -> None:
    """As ``pod.py`` starts it: no ``job.json``, a summary where the environment says."""
    one = child("say(job=command['job']['operation'], names=sorted(os.environ))")
    started = one.start("Observe", policy=JobPolicy(exclude=("$(HOME)", "a\\u0024b$$")))
    started.process.kill()
    started.process.wait()
    summary = tmp_path / "summary"
    (started.folder / "job.json").unlink()
    environment = {
        "PATH": os.environ["PATH"],
        jobspec.JOB: job_value(started.spec),
        jobspec.DATABASE_URL: URL,
        jobspec.POD_UID: "pod-uid",
        jobspec.TERMINATION_LOG: str(summary),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    }
    done = subprocess.run(
        [*one.runner, "--job", str(started.folder)],
        env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    decoder = frame.Decoder(started.spec.operation_id, started.spec.epoch)
    decoder.feed(done.stdout)
    found = decoder.finish()
    assert isinstance(found, frame.Frame), (found, done.stderr)
    assert (done.returncode, found.document["podUid"]) == (0, "pod-uid")
    assert found.document["result"]["job"] == "Observe"
    allowed = {*jobspec.CHILD_ENVIRONMENT, jobspec.DATABASE_URL, "LC_CTYPE"}
    assert set(found.document["result"]["names"]) <= allowed
    said = frame.decode_summary(summary.read_bytes(), started.spec.operation_id)
    assert isinstance(said, frame.Summary)
    assert said.frame_digest == found.digest


def test_a_first_process_collects_orphans_and_leaves_its_own_child() -> None:
    """A sub-reaper stands in for process 1: what it does not collect stays a zombie."""
    script = """
import ctypes, os, subprocess, sys, time
from ptahk.runner.child import reap_others
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
parent = "import os, time; print(os.fork() or time.sleep(0.2) or '', flush=True)"
own = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
orphan = int(own.stdout.readline())
os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)  # the parent is a zombie now
reap_others(own.pid)
assert own.wait() == 0, "its exit code is its owner's"
while os.path.exists(f"/proc/{orphan}"):
    os.waitid(os.P_PID, orphan, os.WEXITED | os.WNOWAIT)
    reap_others(own.pid)
reap_others(own.pid)
print("collected")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "collected\n", done.stderr
