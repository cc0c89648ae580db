"""Ends what one test run started, whatever became of the run.

Started by the run's first process with a pipe as standard input. When that process ends, in any
way, the pipe closes; then every PostgreSQL and PgBouncer below the run's folder is ended by its
pid, and the folder is removed. Folders of runs whose guard was killed too are swept first: a
living guard holds the lock of its folder.

Also usable by hand: ``python tests/kit/guard.py FOLDER < /dev/null``.
"""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import sys
from pathlib import Path

PREFIX = "ptahk-test-"
_GRACE_S = 10.0


def wait_gone(pid: int, timeout_s: float) -> bool:
    """Wait until a process has ended (also one that is not our child). True when it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(handle)


def _works_below(pid: int, folder: Path) -> bool:
    """Whether the process is one of this folder's: a pid alone may be somebody else's by now."""
    try:
        cwd = Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return False
    return cwd == folder or folder in cwd.parents


def end(pid: int, folder: Path, first: signal.Signals) -> None:
    """End one server of the folder: ``first``, then SIGKILL when that was not enough."""
    for sign in (first, signal.SIGKILL):
        if not _works_below(pid, folder):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
        if wait_gone(pid, _GRACE_S):
            return


def _first_line_pid(path: Path) -> int | None:
    try:
        return int(path.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def end_all(run: Path) -> None:
    """End every server below a run's folder: poolers first, then PostgreSQL (SIGQUIT)."""
    for pid_file in sorted(run.glob("*/pgbouncer.pid")):
        pid = _first_line_pid(pid_file)
        if pid is not None:
            end(pid, pid_file.parent, signal.SIGINT)
    for pid_file in sorted(run.glob("*/data/postmaster.pid")):
        pid = _first_line_pid(pid_file)
        if pid is not None:
            end(pid, pid_file.parent, signal.SIGQUIT)


def lock(run: Path) -> int | None:
    """Take the lock of a run's folder; None when another guard lives."""
    handle = os.open(run / "guard.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def sweep(parent: Path, own: Path) -> None:
    """Clean up after runs whose guard did not live to do it. Only folders of this user."""
    for run in parent.glob(f"{PREFIX}*"):
        if run == own or not (run / "guard.lock").exists() or run.stat().st_uid != os.getuid():
            continue
        if lock(run) is not None:
            end_all(run)
            shutil.rmtree(run, ignore_errors=True)


def main(run: Path) -> None:
    """Hold the folder's lock until standard input ends, then clean up."""
    if lock(run) is None:
        raise SystemExit(f"error: {run} has a guard already")
    os.write(1, b"ready\n")
    with contextlib.suppress(OSError):
        sweep(run.parent, run)
    while os.read(0, 4096):
        pass
    end_all(run)
    shutil.rmtree(run, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
