"""One local Job on disk: a directory, a locked file and a child process in its own session.

``alive`` is locked before the directory gets its name and stays locked, through an inherited
descriptor, while the runner or the executor lives. So a reader that finds no directory knows that
the create never happened, and one that can lock ``alive`` knows that nothing of the Job runs any
more, now or later (C-6.9), whoever was killed and however.
"""

import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ptahk.backends.local.statefile import os_fault
from ptahk.errors import PtahkError
from ptahk.wire import jobspec

ALIVE = "alive"
IDENTITY = "identity.json"
LOG = "log"
TERMINATION = "termination"
TTL = "ttl"

IDENTITY_BYTES_MAX = 64 * 1024

STAGING_AGE_MAX_S = 3600.0
"""A half-made directory older than this was left by a killed create. Making one takes moments."""

_STAGING = ".new-"
_DISCARDED = ".gone-"


class JobExists(Exception):
    """A Job of this name was created before."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells two Jobs of one name apart."""

    uid: str
    created_at: float
    """Seconds since the epoch, by the creator's clock; for display and for ordering only."""
    annotations: Mapping[str, str]
    """As ordered; read back to compare the Job with what its claim built."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a child is started.

    :param argv: the runner's command line; ``--job DIR`` is appended. Never a secret.
    :param environment: the child's whole environment, the database URLs among it.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def create(
    root: Path, name: str, identity: Identity, files: Mapping[str, bytes], launch: Launch
) -> "subprocess.Popen[bytes]":
    """Make the Job's directory durable and start its child, once.

    The child is returned for reaping alone: that the Job has ended is read from its lock.

    A process killed inside this function leaves either no directory of that name or one whose
    Job has ended without a result; never a Job that may still start.

    :raises JobExists: the name is taken; nothing was started.
    :raises PtahkError: the directory cannot be written; nothing was started.
    """
    staging = root / f"{_STAGING}{name}-{identity.uid}"
    try:
        staging.mkdir(mode=0o700)
        alive = _open_new(staging / ALIVE)
    except OSError as error:
        raise os_fault(error, str(staging)) from error
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _fill(staging, identity, files)
        _name(staging, root / name)
        return _start(root / name, alive, identity, launch)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finally:
        os.close(alive)


def _fill(staging: Path, identity: Identity, files: Mapping[str, bytes]) -> None:
    head = {
        "uid": identity.uid,
        "createdAt": identity.created_at,
        "annotations": dict(identity.annotations),
    }
    try:
        for name, data in {IDENTITY: json.dumps(head).encode(), LOG: b"", **files}.items():
            handle = _open_new(staging / name)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(handle)
        sync_directory(staging)
    except OSError as error:
        raise os_fault(error, str(staging)) from error


def _name(staging: Path, final: Path) -> None:
    try:
        staging.rename(final)
        sync_directory(final.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise JobExists(final.name) from error
        raise os_fault(error, str(final)) from error


def _start(
    directory: Path, alive: int, identity: Identity, launch: Launch
) -> "subprocess.Popen[bytes]":
    environment = {
        **launch.environment,
        jobspec.POD_UID: identity.uid,
        jobspec.TERMINATION_LOG: str(directory / TERMINATION),
        jobspec.ALIVE_FD: str(alive),
    }
    try:
        log = os.open(directory / LOG, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            child = subprocess.Popen(
                [*launch.argv, "--job", str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                env=environment,
                pass_fds=(alive,),
                start_new_session=True,
            )
        finally:
            os.close(log)
    except OSError as error:
        # Neither fork nor exec happened, so this Job has no process: its name may go again.
        discard(directory)
        raise os_fault(error, launch.argv[0]) from error
    return child


def identity(directory: Path) -> Identity | None:
    """Who the Job is, or None where no Job of that name exists.

    :raises PtahkError: the directory is there but cannot be read.
    """
    data, _ = tail(directory / IDENTITY, IDENTITY_BYTES_MAX)
    if data is None:
        return None
    try:
        head = json.loads(data)
        return Identity(str(head["uid"]), float(head["createdAt"]), dict(head["annotations"]))
    except (ValueError, KeyError, TypeError) as error:
        raise os_fault(OSError(errno.EIO, "damaged Job identity"), str(directory)) from error


def ended(directory: Path) -> bool:
    """True once no process of the Job lives and none can start: its lock is free.

    Asks for a shared lock, so that two readers never take each other for the Job.
    """
    try:
        handle = os.open(directory / ALIVE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise os_fault(error, str(directory)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def block_until_ended(directory: Path) -> None:
    """Return when the Job has ended. Blocks in the kernel; for a thread of its own."""
    try:
        handle = os.open(directory / ALIVE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def tail(path: Path, size_max: int) -> tuple[bytes | None, bool]:
    """The last ``size_max`` bytes of a file, and whether there were more; None: no such file.

    :raises PtahkError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - size_max))
            return stream.read(size_max), size > size_max
    except (FileNotFoundError, NotADirectoryError):
        return None, False
    except OSError as error:
        raise os_fault(error, str(path)) from error


def write_durably(path: Path, data: bytes) -> None:
    """Replace a small file atomically and durably.

    :raises PtahkError: it cannot be written; the old content stands.
    """
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with staging.open("wb") as stream:
            os.fchmod(stream.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        staging.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise os_fault(error, str(path)) from error


def discard(directory: Path) -> None:
    """Remove a Job's directory: first its name, atomically, then its content."""
    doomed = directory.with_name(f"{_DISCARDED}{directory.name}-{os.getpid()}")
    try:
        directory.rename(doomed)
    except OSError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def sweep(root: Path, now: float) -> None:
    """Remove what has expired and what killed processes left half-made or half-removed.

    :param now: seconds since the epoch. What cannot be removed is left for the next sweep.
    """
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return
    for name in names:
        directory = root / name
        try:
            if name.startswith(_DISCARDED):
                shutil.rmtree(directory, ignore_errors=True)
            elif name.startswith(_STAGING):
                if now - directory.stat().st_mtime > STAGING_AGE_MAX_S and ended(directory):
                    shutil.rmtree(directory, ignore_errors=True)
            elif _expired(directory, now):
                discard(directory)
        except (OSError, PtahkError):
            continue


def ttl(directory: Path) -> int | None:
    """The cleanup TTL in seconds; None where none was set."""
    data, _ = tail(directory / TTL, 64)
    try:
        return None if data is None else int(data)
    except ValueError:
        return None


def set_ttl(directory: Path, ttl_s: int) -> None:
    """Let ``sweep`` remove the Job that long after its end.

    :raises PtahkError: it cannot be written.
    """
    if ttl(directory) != ttl_s:
        write_durably(directory / TTL, str(ttl_s).encode())


def _expired(directory: Path, now: float) -> bool:
    ttl_s = ttl(directory)
    if ttl_s is None or not ended(directory):
        return False
    # The end left no mark of its own; the last thing written is not later than it, so the
    # TTL's own file, written when the end was known, is waited out as well.
    last = max((directory / name).stat().st_mtime for name in (LOG, TTL))
    return last + ttl_s <= now


def sync_directory(directory: Path) -> None:
    """Make the directory's entries durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _open_new(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
