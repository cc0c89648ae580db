"""The state file: one SQLite database, used only when it is sound, private and not newer than us.

Writes are durable before they are answered (WAL with ``synchronous=FULL``) and run under
``BEGIN IMMEDIATE``: a read followed by a write in a deferred transaction fails with
``BUSY_SNAPSHOT`` whatever the time-out.
"""

import errno
import fcntl
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptahk.errors import PtahkError, Unreachable, UsageError

APPLICATION_ID = 0x70746168
"""Marks the file as ours (SQLite's ``application_id``)."""

SCHEMA_VERSION = 1
"""Version of the tables below. A file with a larger one was written by a newer ptahk."""

BUSY_TIMEOUT_S = 10.0
"""How long one statement waits for another process's write. A write lasts milliseconds."""

FILE_NAME = "store.db"

HEADER_BYTES = 100
"""No SQLite file with anything in it is shorter."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FREE = "Free some space, then run the same command again: it goes on from what is stored"

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE counter (one INTEGER PRIMARY KEY CHECK (one = 1), rv INTEGER NOT NULL);
CREATE TABLE documents (
  kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  uid TEXT NOT NULL UNIQUE, created_rv INTEGER NOT NULL, rv INTEGER NOT NULL UNIQUE,
  labels TEXT NOT NULL, owners TEXT NOT NULL, body TEXT NOT NULL, status TEXT,
  UNIQUE (kind, namespace, name));
CREATE TABLE deletions (
  rv INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  created_rv INTEGER NOT NULL, document TEXT NOT NULL);
"""


class StoreFault(Exception):
    """A statement failed. ``error`` is what a person is told.

    ``indeterminate``: the write may have been done. ``transient``: trying again may help.
    """

    def __init__(self, error: PtahkError, *, indeterminate: bool, transient: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.indeterminate = indeterminate
        self.transient = transient


class StateFile:
    """One open state file, or a private memory that ends with the process.

    Safe to share between threads; every process opens its own.
    """

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self._connection = connection
        self._where = where
        self._lock = threading.RLock()

    @classmethod
    def open(cls, directory: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> "StateFile":
        """Open ``directory/store.db``, creating both with modes 0700 and 0600.

        :raises UsageError: the directory is not private, or belongs to a newer ptahk.
        :raises Unreachable: it cannot be written, is damaged, or its disk is full.
        """
        path = directory / FILE_NAME
        handle = _private_directory(directory)
        try:
            # The lock serialises the birth of the file and the switch to WAL, for which
            # SQLite itself does not wait. A killed opener frees it.
            fcntl.flock(handle, fcntl.LOCK_EX)
            _private_file(path)
            os.fsync(handle)
            return cls._connect(str(path), busy_timeout_s)
        finally:
            os.close(handle)

    @classmethod
    def in_memory(cls) -> "StateFile":
        """A store that nobody else sees, for commands that only read (C-14.6)."""
        return cls._connect(":memory:", BUSY_TIMEOUT_S)

    @classmethod
    def _connect(cls, where: str, busy_timeout_s: float) -> "StateFile":
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                where, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
            )
            _set_up(connection, where)
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise fault(error, where).error from error
        except PtahkError:
            if connection is not None:
                connection.close()
            raise
        return cls(connection, where)

    def close(self) -> None:
        """Close the file. What was written stays."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the store.

        :raises StoreFault: the file cannot be read.
        """
        with self._lock, self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One atomic, durable write; nobody else writes meanwhile.

        :raises StoreFault: nothing was written, unless it says ``indeterminate``.
        """
        with self._lock, self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        try:
            connection.execute(begin)
            yield connection
        except sqlite3.Error as error:
            self._roll_back()
            raise fault(error, self._where) from error
        except BaseException:
            self._roll_back()
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise fault(error, self._where, committing=True) from error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def fault(error: sqlite3.Error, where: str, *, committing: bool = False) -> StoreFault:
    """What an SQLite error means for the caller.

    A commit that failed for want of space or of a lock was rolled back. A commit that met an
    input/output error may be in the log all the same, so it is indeterminate.
    """
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if primary == sqlite3.SQLITE_FULL:
        said = _unreachable("StoreFull", where, "the disk is full", _FREE)
        return StoreFault(said, indeterminate=False, transient=False)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        said = _unreachable("StoreBusy", where, "another process keeps it locked", "Try again")
        return StoreFault(said, indeterminate=False, transient=True)
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreFault(_damaged(where, str(error)), indeterminate=False, transient=False)
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        said = _not_writable(where, str(error))
        return StoreFault(said, indeterminate=False, transient=False)
    if primary == sqlite3.SQLITE_IOERR:
        said = _unreachable("StoreFailed", where, f"{error} ({name})", "Check the disk")
        return StoreFault(said, indeterminate=committing, transient=True)
    said = _unreachable("StoreFailed", where, f"{error} ({name})", "Check the state directory")
    return StoreFault(said, indeterminate=committing, transient=False)


def _set_up(connection: sqlite3.Connection, where: str) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if version == 0 and application == 0 and empty:
        _mode(connection, where)
        _create(connection)
        return
    if application != APPLICATION_ID:
        raise _damaged(where, "it is not a state file of ptahk")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"state file ({where}) was written by a newer ptahk: its version is {version}, "
            f"this ptahk reads up to {SCHEMA_VERSION}",
            reason="StoreTooNew",
            field="--state",
            hint="Use that ptahk, or another state directory; nothing was changed",
        )
    _mode(connection, where)
    for (verdict,) in connection.execute("PRAGMA quick_check(1)"):
        if verdict != "ok":
            raise _damaged(where, str(verdict).splitlines()[0])


def _mode(connection: sqlite3.Connection, where: str) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if where != ":memory:" and mode != "wal":
        raise _not_writable(where, f"its file system does not support WAL (mode {mode})")
    connection.execute("PRAGMA synchronous = FULL")


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute("INSERT INTO counter VALUES (1, 0)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _private_directory(directory: Path) -> int:
    """Make the directory, see that only its owner may write into it, and open it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise os_fault(error, str(directory)) from error
    about = os.fstat(handle)
    if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(handle)
        raise UsageError(
            f"state directory (--state={directory}) is not private: others own it or may "
            "write into it",
            reason="StoreNotPrivate",
            field="--state",
            hint="Name a directory of your own; ptahk creates it with mode 0700",
        )
    return handle


def _private_file(path: Path) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise os_fault(error, str(path)) from error
    try:
        # SQLite gives its log and index files the mode of this one.
        about = os.fstat(handle)
        if stat.S_IMODE(about.st_mode) != 0o600:
            os.fchmod(handle, 0o600)
    except OSError as error:
        raise os_fault(error, str(path)) from error
    finally:
        os.close(handle)
    # SQLite takes either for a new file, and would drop what the log holds.
    if 0 < about.st_size < HEADER_BYTES or (about.st_size == 0 and _log_of(path)):
        raise _damaged(str(path), "it was cut short")


def _log_of(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def os_fault(error: OSError, where: str) -> PtahkError:
    """What an operating-system error about the state directory means for a person."""
    why = (error.strerror or type(error).__name__).lower()
    if error.errno in _FULL:
        return _unreachable("StoreFull", where, why, _FREE)
    return _not_writable(where, why)


def _not_writable(where: str, why: str) -> PtahkError:
    hint = "Name another directory with --state; plan, observe and census need none"
    return _unreachable("StoreNotWritable", where, why, hint)


def _damaged(where: str, why: str) -> PtahkError:
    hint = (
        "Restore the directory or name another with --state: the attempt ledger in the database "
        "still keeps anything from running twice"
    )
    return _unreachable("StoreDamaged", where, why, hint)


def _unreachable(reason: str, where: str, why: str, hint: str) -> PtahkError:
    return Unreachable(
        f"state ({where}): {why}; what it holds was not changed",
        reason=reason,
        field="--state",
        hint=hint,
    )
