"""A TCP proxy that loses a COMMIT, or its answer, of one application's sessions."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Lost = Literal["request", "answer"]
COMMIT = b"COMMIT\0"
CHUNK = 65536
START_BYTES_MAX = 10_000


class Proxy:
    """Passes everything on, but once cuts a session at its n-th COMMIT.

    :param application: how the names of the sessions that may be cut begin.
    :param number: of the COMMIT; 0: none is ever cut.
    :param listen: a port of one's own; 0: any that is free.
    :param lost: what never arrives: the request at the server, or the answer at the client.
    """

    def __init__(
        self, port: int, application: str = "", number: int = 0, lost: Lost = "request",
        listen: int = 0,
    ) -> None:  # fmt: skip
        self._server_port = port
        self._application = application.encode()
        self._number = number
        self._lost = lost
        self.cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", listen))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []

    @contextmanager
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

    def _accept(self) -> None:
        sessions: list[threading.Thread] = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._sockets += [client, server]
            session = threading.Thread(target=self._serve, args=(client, server))
            session.start()
            sessions.append(session)
        for end in self._sockets:
            close(end)
        for session in sessions:
            session.join()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        deaf = threading.Event()
        back = threading.Thread(target=self._back, args=(client, server, deaf))
        back.start()
        begun, commits = b"", 0
        with contextlib.suppress(OSError):
            while data := client.recv(CHUNK):
                if len(begun) < START_BYTES_MAX:
                    begun += data
                commits += COMMIT in data
                here = COMMIT in data and commits == self._number and self._application in begun
                if here and not self.cut.is_set():
                    if self._lost == "answer":
                        deaf.set()
                        server.sendall(data)
                        back.join()  # until the server has answered
                    self.cut.set()
                    break
                server.sendall(data)
        close(client)
        close(server)
        back.join()

    @staticmethod
    def _back(client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                if deaf.is_set():
                    return
                client.sendall(data)
            close(client)


def close(end: socket.socket) -> None:
    """End both directions at once and let the descriptor go."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
