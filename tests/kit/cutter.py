"""A TCP proxy in front of a server that can cut a connection at a chosen message."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Cutter:
    """Relays bytes both ways; with ``arm``, cuts when the client sends a text.

    :ivar port: where it listens on 127.0.0.1.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._needle: bytes | None = None
        self._after = True
        self.cut = threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, needle: bytes, *, deliver: bool) -> None:
        """Cut both sides at the first client message that holds ``needle``.

        :param deliver: the server still gets that message: only its answer is lost.
        """
        self._needle, self._after = needle, deliver

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                return
            self._sockets += [client, server]
            threading.Thread(target=self._upstream, args=(client, server), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client), daemon=True).start()

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                hit = self._needle is not None and self._needle in data
                if not hit or self._after:
                    server.sendall(data)
                if hit:
                    self._needle = None
                    # First the client's side, so that it can never read the answer.
                    _close(client)
                    if self._after:
                        server.shutdown(socket.SHUT_WR)
                    else:
                        _close(server)
                    self.cut.set()
                    return
        _close(server)

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        _close(target)

    def close(self) -> None:
        """End every connection."""
        for each in (self._listener, *self._sockets):
            _close(each)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextlib.contextmanager
def cutter(server_port: int) -> Iterator[Cutter]:
    """A cutter that ends with the block."""
    made = Cutter(server_port)
    try:
        yield made
    finally:
        made.close()
