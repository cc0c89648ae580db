"""The Jobs port as child processes: ``python -m ptahk.runner`` in a session of its own.

A Job outlives the command that created it. Its directory under ``jobs/`` holds what went in and
what came out; see ``jobdir`` for how its end is known without asking a process.
"""

import contextlib
import math
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ptahk.backends.local import jobdir
from ptahk.backends.local.snapshot import local_snapshot
from ptahk.backends.local.statefile import os_fault
from ptahk.engine.ports import (
    AlreadyExists,
    Clock,
    Collected,
    Invalid,
    JobOrder,
    JobView,
    Lost,
    NotFound,
    NotYet,
    PodView,
    Result,
    Unavailable,
)
from ptahk.errors import PtahkError
from ptahk.wire import jobspec

DIRECTORY = "jobs"

OUTPUT_BYTES_MAX = 24 * 1024 * 1024
"""How much of a log's end is read: four times the largest frame (C-5.1)."""

TERMINATION_BYTES_MAX = 4096

RUNNER_ARGV = (sys.executable, "-P", "-m", "ptahk.runner")
"""``-P``: a directory that happens to be current never shadows a module."""


def child_environment(
    environment: Mapping[str, str], cache_directory: Path | None = None
) -> dict[str, str]:
    """What a runner may see beside the URLs (C-8.1): the same for the Job and its snapshot."""
    kept = jobspec.scrubbed(environment)
    if cache_directory is not None:
        kept[jobspec.CACHE_DIR] = str(cache_directory)
    return kept


class LocalSurroundings:
    """What shapes a local Job from outside (C-14.3).

    :param environment: as ``child_environment`` returned it.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def snapshot(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any]:
        return local_snapshot(self._environment)


class LocalJobs:
    """Jobs of one state directory.

    :param root: where Job directories stand; made if absent.
    :param url: the database URL, for children alone; None in commands that start no Job.
    :param environment: as ``child_environment`` returned it.
    :param runner_argv: the child's command line before ``--job DIR``.
    :raises PtahkError: the directory cannot be made.
    """

    def __init__(
        self,
        root: Path,
        clock: Clock,
        *,
        url: str | None,
        dev_url: str | None = None,
        environment: Mapping[str, str],
        runner_argv: tuple[str, ...] = RUNNER_ARGV,
    ) -> None:
        self._root = root
        self._clock = clock
        self._url = url
        self._dev_url = dev_url
        self._environment = environment
        self._argv = runner_argv
        self._children: list[subprocess.Popen[bytes]] = []
        self._running: set[str] = set()
        self._watched: set[str] = set()
        try:
            root.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise os_fault(error, str(root)) from error
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        jobdir.sweep(root, clock.now().timestamp())

    @classmethod
    @contextlib.contextmanager
    def temporary(cls, clock: Clock, **options: Any) -> Iterator["LocalJobs"]:
        """Jobs in a private directory that is removed at the end (C-14.6). A Job still running
        then loses its result, so only read-only operations belong here."""
        root = Path(tempfile.mkdtemp(prefix="ptahk-"))
        try:
            jobs = cls(root / DIRECTORY, clock, **options)
            try:
                yield jobs
            finally:
                jobs.close()
        finally:
            shutil.rmtree(root, ignore_errors=True)

    @property
    def creation_certain(self) -> bool:
        """A fork whose lock file proves or disproves it (C-6.9)."""
        return True

    def create(self, order: JobOrder) -> JobView:
        if self._url is None:
            raise Invalid("this command was given no database URL")
        self._reap()
        environment = {
            **self._environment,
            # Python would otherwise add LC_CTYPE to a bare environment, which so would no
            # longer be the one in the snapshot.
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONUTF8": "1",
            jobspec.DATABASE_URL: self._url,
        }
        if self._dev_url is not None:
            environment[jobspec.DEV_DATABASE_URL] = self._dev_url
        created = jobdir.Identity(
            uid=str(uuid.uuid4()),
            created_at=self._clock.now().timestamp(),
            annotations=dict(order.annotations),
        )
        files = {item.name: item.data for item in order.inputs}
        files[jobspec.JOB_FILE] = jobspec.encode(order.spec)
        launch = jobdir.Launch(self._argv, environment)
        name = _name(order.namespace, order.name)
        try:
            child = jobdir.create(self._root, name, created, files, launch)
        except jobdir.JobExists:
            raise AlreadyExists(f"Job {order.name}") from None
        except PtahkError as error:
            raise Unavailable(error.message) from error
        self._children.append(child)
        self._running.add(name)
        return JobView(order.name, created.uid, created.annotations, terminal=False, ttl_s=None)

    def observe(self, namespace: str, name: str) -> JobView | None:
        self._reap()
        directory = self._directory(namespace, name)
        with _faults():
            found = jobdir.identity(directory)
            if found is None:
                return None
            ended = jobdir.ended(directory)
            ttl_s = jobdir.ttl(directory)
        if ended:
            self._running.discard(directory.name)
        else:
            self._running.add(directory.name)
        return JobView(name, found.uid, found.annotations, terminal=ended, ttl_s=ttl_s)

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        directory = self._directory(namespace, name)
        try:
            found = jobdir.identity(directory)
            if found is None or found.uid != uid:
                return Lost("the Job's directory is gone")
            if not jobdir.ended(directory):
                return NotYet("the Job is still running")
            output, truncated = jobdir.tail(directory / jobdir.LOG, OUTPUT_BYTES_MAX)
            termination, _ = jobdir.tail(directory / jobdir.TERMINATION, TERMINATION_BYTES_MAX)
        except PtahkError as error:
            return NotYet(error.message)
        if output is None:
            return Lost("the Job's log is gone", termination)
        return Result(output, termination, pod_uid=uid, truncated=truncated)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        directory = self._directory(namespace, name)
        with _faults():
            found = jobdir.identity(directory)
            if found is None or found.uid != uid:
                raise NotFound(f"Job {name}")
            jobdir.set_ttl(directory, ttl_s)
        jobdir.sweep(self._root, self._clock.now().timestamp())

    def pods(self, namespace: str, name: str, uid: str | None) -> tuple[PodView, ...]:
        """The runner stands for the Pod, and the Job's uid for the Pod's."""
        with _faults():
            found = jobdir.identity(self._directory(namespace, name))
        if found is None or uid not in (None, found.uid):
            return ()
        return (PodView(found.uid),)

    def wait(self, timeout_s: float) -> bool:
        """Return as soon as a Job that was seen running ends, ``wake`` is called, or time is up.

        A Job of an earlier command is waited for as well as one's own: a thread of its own
        blocks on the Job's lock in the kernel. Nothing is polled.

        :returns: False when the time was up.
        """
        for name in sorted(self._running - self._watched):
            self._watched.add(name)
            threading.Thread(target=self._watch, args=(name,), daemon=True).start()
        poll = select.poll()  # select() refuses descriptors above 1023
        poll.register(self._wake_reader, select.POLLIN)
        if not poll.poll(max(0, math.ceil(timeout_s * 1000))):
            return False
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        self._reap()
        return True

    def wake(self) -> None:
        """End a ``wait``. May be called from a signal handler or another thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_writer, b"w")

    def close(self) -> None:
        """Let go of running Jobs; they go on, and the next command finds them."""
        self._reap()
        for child in self._children:
            # The child is meant to outlive us: init reaps it. Without a return code, Popen
            # would complain at our exit that it still runs.
            child.returncode = 0
        self._children.clear()

    def _watch(self, name: str) -> None:
        jobdir.block_until_ended(self._root / name)
        self._watched.discard(name)
        self._running.discard(name)
        self.wake()

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]

    def _directory(self, namespace: str, name: str) -> Path:
        return self._root / _name(namespace, name)


def _name(namespace: str, name: str) -> str:
    """The directory's name. Both parts are DNS names, so they hold no slash."""
    if "/" in namespace or "/" in name or not name or name.startswith("."):
        raise Invalid("the Job's name is not a DNS name")
    return f"{namespace}.{name}"


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except PtahkError as error:
        raise Unavailable(error.message) from error
