"""A proxy that multiplexes: clients of MySQL's protocol who share sessions of the server.

As ProxySQL or a cloud's proxy does it, reduced to what a client can notice: each command goes to
one of the server's sessions, whoever sent it, and the proxy itself answers the login.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from itertools import cycle
from typing import Any, Final

from tests.kit.mydatabases import MyDatabase

_QUIT: Final = 1
_OK: Final = b"\x00\x00\x00\x02\x00\x00\x00"
_CAPABILITIES: Final = 0x0000_A20D | 0x0018_0000
"""LONG_PASSWORD, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION;
PLUGIN_AUTH, CONNECT_ATTRS. No TLS."""
_OWN_THREAD: Final = 4_000_001
"""What the proxy tells each client of its session."""


class Proxy:
    """Answers on a port of its own, with so many sessions of the server."""

    def __init__(self, database: MyDatabase, sessions: int) -> None:
        self._database = database
        self._backends: list[Any] = [
            database.server.connect(database.name) for _ in range(sessions)
        ]
        self._next = cycle(self._backends)
        self._turn = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._clients: list[socket.socket] = []

    def url(self) -> str:
        """The database's, through the proxy."""
        return self._database.url(port=str(self.port))

    @contextlib.contextmanager
    def running(self) -> Iterator[Proxy]:
        """Serve until the block ends, then cut what is left."""
        thread = threading.Thread(target=self._accept)
        thread.start()
        try:
            yield self
        finally:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join()
            for backend in self._backends:
                backend.close()

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            self._clients.append(client)
            thread = threading.Thread(target=self._serve, args=(client,))
            thread.start()
            threads.append(thread)
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream, contextlib.suppress(OSError):
            _send(client, 0, self._greeting())
            _receive(stream)
            _send(client, 2, _OK)
            while command := _receive(stream):
                if command[0] == _QUIT:
                    return
                with self._turn:
                    answer = _ask(next(self._next), command)
                client.sendall(answer)

    def _greeting(self) -> bytes:
        version = self._backends[0].server_version.encode()
        low, high = _CAPABILITIES & 0xFFFF, _CAPABILITIES >> 16
        return b"".join(
            (
                b"\x0a", version, b"\0", struct.pack("<I", _OWN_THREAD), b"a" * 8, b"\0",
                struct.pack("<HBHH", low, 45, 2, high), b"\x15", b"\0" * 10, b"a" * 12, b"\0",
                b"mysql_native_password\0",
            )
        )  # fmt: skip


def _send(client: socket.socket, number: int, body: bytes) -> None:
    client.sendall(struct.pack("<I", len(body))[:3] + bytes([number]) + body)


def _receive(stream: Any) -> bytes:
    """The body of the next packet; empty at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return b""
    return bytes(stream.read(head[0] | head[1] << 8 | head[2] << 16))


def _ask(backend: Any, command: bytes) -> bytes:
    """One command to the server, and all the packets of its answer."""
    backend._write_bytes(struct.pack("<I", len(command))[:3] + b"\0" + command)
    answer = bytearray()
    first = _copy(backend, answer)
    if first[0] in (0x00, 0xFF):
        return bytes(answer)
    for _ in range(2):  # the columns, then the rows: each ends with EOF, or with an error
        while True:
            packet = _copy(backend, answer)
            if packet[0] == 0xFF:
                return bytes(answer)
            if packet[0] == 0xFE and len(packet) < 9:
                break
    return bytes(answer)


def _copy(backend: Any, into: bytearray) -> bytes:
    head = backend._read_bytes(4)
    body = backend._read_bytes(head[0] | head[1] << 8 | head[2] << 16)
    into += head + body
    return bytes(body)
