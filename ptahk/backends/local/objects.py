"""The Objects port on one SQLite file: compare-and-swap, one counter of resource versions."""

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ptahk.backends.local import documents
from ptahk.backends.local.statefile import BUSY_TIMEOUT_S, StateFile, StoreFault
from ptahk.engine.ports import (
    AlreadyExists,
    Change,
    Clock,
    Document,
    Indeterminate,
    Invalid,
    Key,
    NotFound,
    Unavailable,
    key_of,
)

DOCUMENT_BYTES_MAX = 16 * 1024 * 1024
"""Largest stored document as JSON: a plan and a source with room to spare."""

DELETIONS_MAX = 4096
"""Deletions that a watch can still tell of; a watch from before the oldest is refused."""

WATCH_POLL_S = 0.2
"""How late a watch may learn of another process's write. SQLite has no event between processes;
a write of this process wakes it at once."""

_COLUMNS = "body, status, rv"


class LocalObjects:
    """Documents of one state directory, shared by every ptahk process that uses it.

    :param clock: stamps creation and deletion times; for people only.
    """

    def __init__(self, state: StateFile, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._written = threading.Condition()
        self._uid = self._own_uid()

    @classmethod
    def open(
        cls, directory: Path, clock: Clock, *, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> "LocalObjects":
        """Open the store of a state directory, making it where there is none.

        :raises PtahkError: it cannot be used; nothing was changed (see ``StateFile.open``).
        """
        return cls._of(StateFile.open(directory, busy_timeout_s=busy_timeout_s), clock)

    @classmethod
    def in_memory(cls, clock: Clock) -> "LocalObjects":
        """A store that ends with this process, for commands that only read (C-14.6)."""
        return cls._of(StateFile.in_memory(), clock)

    @classmethod
    def _of(cls, state: StateFile, clock: Clock) -> "LocalObjects":
        try:
            return cls(state, clock)
        except StoreFault as fault:
            state.close()
            raise fault.error from fault

    @property
    def uid(self) -> str:
        """The store's random UID, kept in the state directory (contract section 1)."""
        return self._uid

    @property
    def resource_version(self) -> str:
        """The newest one; ``watch`` from here sees only what comes after."""
        with self._faults(), self._state.read() as connection:
            return str(_newest(connection))

    def close(self) -> None:
        self._state.close()

    def get(self, key: Key) -> Document:
        with self._faults(), self._state.read() as connection:
            return _find(connection, key)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Document, ...]:
        query = (
            f"SELECT labels, {_COLUMNS} FROM documents WHERE kind = ? "
            "AND (? IS NULL OR namespace = ?) ORDER BY namespace, name"
        )
        wanted = (labels or {}).items()
        with self._faults(), self._state.read() as connection:
            rows = connection.execute(query, (kind, namespace, namespace))
            return tuple(_load(row) for held, *row in rows if wanted <= json.loads(held).items())

    def create(self, document: Document) -> Document:
        with self._write() as connection:
            rv = _next(connection)
            stored = documents.created(document, uid=str(uuid.uuid4()), rv=rv, now=self._time())
            try:
                connection.execute(
                    "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*key_of(stored), stored["metadata"]["uid"], rv, rv, *_stored(stored)),
                )
                _count(connection, rv)
            except sqlite3.IntegrityError:
                raise AlreadyExists(documents.describe(stored)) from None
        return stored

    def replace(self, document: Document) -> Document:
        key = documents.key(document)
        with self._write() as connection:
            old = _find(connection, key)
            new = documents.replaced(old, document, rv=_next(connection))
            if new is None:
                self._remove(connection, key, old)
                return old
            return _swap(connection, key, old, new)

    def replace_status(self, document: Document) -> Document:
        key = documents.key(document)
        with self._write() as connection:
            old = _find(connection, key)
            new = documents.with_status(old, document, rv=_next(connection))
            return _swap(connection, key, old, new)

    def delete(self, document: Document) -> None:
        key = documents.key(document)
        with self._write() as connection:
            old = _find(connection, key)
            documents.check_expected(old, document["metadata"], needed=True)
            self._delete(connection, key, old)

    def watch(
        self, kind: str, namespace: str | None, since: str, timeout_s: float
    ) -> Iterator[Change]:
        """Changes after ``since``, several writes of one object between two looks as one.

        :raises Invalid: ``since`` is malformed, or from before the oldest deletion still known:
            list again.
        """
        if not since.isdecimal() or len(since) > 18:
            raise Invalid("since is not a resourceVersion")
        seen = int(since)
        deadline = time.monotonic() + timeout_s
        while True:
            changes, newest = self._changes(kind, namespace, seen)
            for change in changes:
                yield change
                deadline = time.monotonic() + timeout_s
            seen = max(seen, newest)
            left = deadline - time.monotonic()
            if left <= 0:
                return
            with self._written:
                self._written.wait(min(left, WATCH_POLL_S))

    def _changes(
        self, kind: str, namespace: str | None, seen: int
    ) -> tuple[tuple[Change, ...], int]:
        scope = "kind = ? AND (? IS NULL OR namespace = ?) AND rv > ?"
        given = (kind, namespace, namespace, seen)
        found = []
        with self._faults(), self._state.read() as connection:
            newest = _newest(connection)
            if newest == seen:
                return (), newest
            _check_horizon(connection, seen)
            query = f"SELECT created_rv, {_COLUMNS} FROM documents WHERE {scope}"
            for created, *row in connection.execute(query, given):
                new = created > seen
                found.append((row[2], Change("Added" if new else "Modified", _load(row))))
            query = f"SELECT rv, created_rv, document FROM deletions WHERE {scope}"
            for rv, created, text in connection.execute(query, given):
                # What came and went between two looks was never seen, so it is not missed.
                if created <= seen:
                    found.append((rv, Change("Deleted", json.loads(text))))
        found.sort(key=lambda item: item[0])
        return tuple(change for _, change in found), newest

    def _delete(self, connection: sqlite3.Connection, key: Key, old: Document) -> None:
        marked = documents.marked_deleted(old, rv=_next(connection), now=self._time())
        if marked is None:
            self._remove(connection, key, old)
        else:
            _swap(connection, key, old, marked)

    def _remove(self, connection: sqlite3.Connection, key: Key, old: Document) -> None:
        """Remove the document, and in the same transaction what it alone owned."""
        gone, rv = documents.copy(old), _next(connection)
        gone["metadata"]["resourceVersion"] = str(rv)
        _count(connection, rv)
        for bulky in ("binaryData", "data"):
            gone.pop(bulky, None)
        connection.execute(
            "INSERT INTO deletions SELECT ?, kind, namespace, name, created_rv, ? "
            "FROM documents WHERE kind = ? AND namespace = ? AND name = ?",
            (rv, _json(gone), *key),
        )
        connection.execute(
            "DELETE FROM documents WHERE kind = ? AND namespace = ? AND name = ?", key
        )
        connection.execute(
            "DELETE FROM deletions WHERE rv <= "
            "(SELECT rv FROM deletions ORDER BY rv DESC LIMIT 1 OFFSET ?)",
            (DELETIONS_MAX,),
        )
        owner = old["metadata"]["uid"]
        query = "SELECT uid FROM documents WHERE instr(owners, ?) ORDER BY rv"
        for (uid,) in connection.execute(query, (owner,)).fetchall():
            # What one of them owned in turn may be gone by now.
            dependent = _by_uid(connection, uid)
            if dependent is not None and not any(
                _by_uid(connection, other) for other in documents.owners(dependent)
            ):
                self._delete(connection, key_of(dependent), dependent)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._faults(), self._state.write() as connection:
            yield connection
        with self._written:
            self._written.notify_all()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn the file's faults into the port's errors; the cause is what a person is told."""
        try:
            yield
        except StoreFault as fault:
            kind = Indeterminate if fault.indeterminate else Unavailable
            raise kind(fault.error.message) from fault.error

    def _own_uid(self) -> str:
        with self._state.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO meta VALUES ('store_uid', ?)", (str(uuid.uuid4()),)
            )
            row = connection.execute("SELECT value FROM meta WHERE key = 'store_uid'").fetchone()
            return str(row[0])

    def _time(self) -> str:
        return f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _find(connection: sqlite3.Connection, key: Key) -> Document:
    query = f"SELECT {_COLUMNS} FROM documents WHERE kind = ? AND namespace = ? AND name = ?"
    row = connection.execute(query, key).fetchone()
    if row is None:
        raise NotFound(str(key))
    return _load(row)


def _by_uid(connection: sqlite3.Connection, uid: str) -> Document | None:
    query = f"SELECT {_COLUMNS} FROM documents WHERE uid = ?"
    row = connection.execute(query, (uid,)).fetchone()
    return None if row is None else _load(row)


def _swap(connection: sqlite3.Connection, key: Key, old: Document, new: Document) -> Document:
    if new is old:
        return old
    rv = int(new["metadata"]["resourceVersion"])
    labels, owners, body, status = _stored(new)
    done = connection.execute(
        "UPDATE documents SET rv = ?, labels = ?, owners = ?, body = ?, status = ? "
        "WHERE kind = ? AND namespace = ? AND name = ? AND rv = ?",
        (rv, labels, owners, body, status, *key, int(old["metadata"]["resourceVersion"])),
    )
    assert done.rowcount == 1, "the write lock is held, so nobody can have come between"
    _count(connection, rv)
    return new


def _next(connection: sqlite3.Connection) -> int:
    """The resource version of the next change; ``_count`` makes it the newest."""
    return _newest(connection) + 1


def _count(connection: sqlite3.Connection, rv: int) -> None:
    connection.execute("UPDATE counter SET rv = ?", (rv,))


def _newest(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT rv FROM counter").fetchone()[0])


def _check_horizon(connection: sqlite3.Connection, seen: int) -> None:
    query = "SELECT min(rv), count(*) FROM deletions"
    oldest, count = connection.execute(query).fetchone()
    if count >= DELETIONS_MAX and seen < oldest:
        raise Invalid("since is too old: list again")


def _stored(document: Document) -> tuple[str, str, str, str | None]:
    """Columns labels, owners, body, status."""
    metadata = document["metadata"]
    body = {key: value for key, value in document.items() if key != "status"}
    status = _json(document["status"]) if "status" in document else None
    text = _json(body)
    if len(text) + len(status or "") > DOCUMENT_BYTES_MAX:
        raise Invalid(f"{documents.describe(document)} is larger than {DOCUMENT_BYTES_MAX} bytes")
    return (
        _json(metadata.get("labels", {})),
        " ".join(sorted(documents.owners(document))),
        text,
        status,
    )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _load(row: Any) -> Document:
    body, status, rv = row
    document: Document = json.loads(body)
    document["metadata"]["resourceVersion"] = str(rv)
    if status is not None:
        document["status"] = json.loads(status)
    return document
