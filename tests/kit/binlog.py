"""What a MySQL or MariaDB server wrote into its binary log: the statements that took effect.

Only what these tests ask for: the text of each statement, its session and its moment. The servers
write it without checksums, compression and encryption (``SETTINGS``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SETTINGS: Final = {
    "log-bin": "binlog",
    "binlog-checksum": "NONE",
    "binlog-format": "ROW",
    "server-id": "1",
    "sync-binlog": "0",
    "log-bin-trust-function-creators": "ON",
}
_MAGIC: Final = b"\xfebin"
_HEADER: Final = struct.Struct("<IBIIIH")
"""Timestamp, type, server, size of the whole event, next position, flags."""
_QUERY: Final = 2
_QUERY_HEADER: Final = struct.Struct("<IIBHH")
"""Thread, seconds, length of the database's name, error, length of the status variables."""


@dataclass(frozen=True, order=True)
class Place:
    """A place in a server's binary log."""

    file: str
    offset: int


@dataclass(frozen=True)
class Event:
    """A statement that took effect; a row's change is not one, only its transaction's ends are."""

    place: Place
    at: int
    """Seconds since the epoch, when the statement began."""
    thread: int
    database: str
    error: int
    text: str


def events(folder: Path, since: Place | None = None) -> Iterator[Event]:
    """The statements in a server's binary log, oldest first.

    :param folder: the server's data folder.
    :param since: leave out what is before this place.
    """
    for path in sorted(folder.glob("binlog.[0-9]*")):
        if since is None or path.name >= since.file:
            yield from _of_file(path, since)


def end(folder: Path) -> Place:
    """Behind everything that is in it now."""
    path = max(folder.glob("binlog.[0-9]*"))
    return Place(path.name, path.stat().st_size)


def _of_file(path: Path, since: Place | None) -> Iterator[Event]:
    data = path.read_bytes()
    assert data[:4] == _MAGIC, f"{path} is no binary log"
    offset = len(_MAGIC)
    while offset + _HEADER.size <= len(data):
        at, kind, _, size, _, _ = _HEADER.unpack_from(data, offset)
        if size < _HEADER.size or offset + size > len(data):
            return  # the server is writing it, or died while it did
        place = Place(path.name, offset)
        if kind == _QUERY and (since is None or place >= since):
            yield _query(place, at, data[offset + _HEADER.size : offset + size])
        offset += size


def _query(place: Place, at: int, body: bytes) -> Event:
    thread, _, name_length, error, status = _QUERY_HEADER.unpack_from(body)
    name = _QUERY_HEADER.size + status
    text = name + name_length + 1
    return Event(
        place, at, thread, body[name : text - 1].decode(), error,
        body[text:].decode(errors="replace"),
    )  # fmt: skip
