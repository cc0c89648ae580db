"""Ends what one test run started, whatever became of the run.

Started by the run's first process with a pipe as standard input. When that process ends, in any
way, the pipe closes; then every database server, PgBouncer and component of a cluster below the
run's folder is ended by its pid, what a node leaves in the kernel is taken back, and the folder is
removed. Folders of runs whose guard was killed too are swept first: a living guard holds the lock
of its folder.

Also usable by hand: ``python tests/kit/guard.py FOLDER < /dev/null``.
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PREFIX = "ptahk-test-"
COMPONENTS = "components"
"""Folder of the records of what runs below a cluster's folder (``components.py``)."""
BRIDGE_FILE = "bridge"
"""Names the network bridge that a cluster's folder stands for."""
BRIDGE_PREFIX = "ptahk"
CONTAINERS = "state/io.containerd.runtime.v2.task/*"
"""Below a cluster's folder: what runs, ``GROUP/CONTAINER``; cgroups have these names too."""
_CGROUPS = Path("/sys/fs/cgroup")
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


def _children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def end_components(folder: Path) -> None:
    """End whatever runs below a cluster's folder, at once: nothing there is worth keeping.

    A node is one process whose child is the first of a pid namespace: with it go containerd, the
    kubelet, every container, and their mounts, which only that namespace saw.
    """
    for record in sorted(folder.glob(f"{COMPONENTS}/*.json")):
        try:
            pid = int(json.loads(record.read_text())["pid"])
        except (OSError, ValueError, KeyError):
            continue
        children = _children(pid) if _works_below(pid, folder) else []
        end(pid, folder, signal.SIGKILL)
        for child in children:
            wait_gone(child, _GRACE_S)
    _take_back(folder)


def _take_back(folder: Path) -> None:
    """Remove what a node left in the kernel: its bridge, and its containers' empty cgroups."""
    with contextlib.suppress(OSError):
        bridge = (folder / BRIDGE_FILE).read_text().strip()
        if bridge.startswith(BRIDGE_PREFIX):
            subprocess.run(
                ["ip", "link", "delete", bridge], check=False, capture_output=True, cwd="/"
            )
    for group in folder.glob(CONTAINERS):
        for parent in (_CGROUPS / group.name, *_CGROUPS.glob(f"*/{group.name}")):
            for container in group.iterdir():
                _remove_cgroup(parent / container.name)
            with contextlib.suppress(OSError):  # another cluster's containers may be in it
                parent.rmdir()


def _remove_cgroup(cgroup: Path) -> None:
    """Remove an empty cgroup with those in it; ``rmdir`` only, so nothing else can be hurt."""
    for path, _, _ in os.walk(cgroup, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _mounted_below(run: Path) -> bool:
    with open("/proc/self/mountinfo") as lines:
        return any(line.split()[4].startswith(f"{run}/") for line in lines)


def remove(run: Path) -> None:
    """Remove a run's folder; never through a mount, which could be anything."""
    if not _mounted_below(run):
        shutil.rmtree(run, ignore_errors=True)


def end_all(run: Path) -> None:
    """End every server below a run's folder: clusters, then poolers, then database servers."""
    for records in sorted(run.glob(f"*/{COMPONENTS}")):
        end_components(records.parent)
    for pid_file in sorted(run.glob("*/pgbouncer.pid")):
        pid = _first_line_pid(pid_file)
        if pid is not None:
            end(pid, pid_file.parent, signal.SIGINT)
    for pid_file in sorted(run.glob("*/data/postmaster.pid")):
        pid = _first_line_pid(pid_file)
        if pid is not None:
            end(pid, pid_file.parent, signal.SIGQUIT)
    for pid_file in sorted(run.glob("*/mysqld.pid")):
        pid = _first_line_pid(pid_file)
        if pid is not None:
            end(pid, pid_file.parent, signal.SIGKILL)


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
            remove(run)


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
    remove(run)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
