"""Connections that are passed on byte for byte, such as those of Pods to the API server.

A node here runs no service proxy, so a Pod is told another address of the API server.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

from tests.kit.clusters import PodCluster
from tests.kit.waiting import until

_HOSTS = ("127.0.0.1", "localhost", "10.96.0.1", "kubernetes.default")

Reach = Callable[[], socket.socket | None]
"""A connection to what is behind the relay; None: the client is hung up on."""


@contextlib.contextmanager
def api_server(cluster: PodCluster) -> Iterator[tuple[str, int]]:
    """Address and port at which Pods reach the API server; its certificate names them."""
    plane, address = cluster.own_plane, cluster.guests.address
    plane.authority.server("apiserver", [*_HOSTS, address])

    def reach() -> socket.socket:
        return socket.create_connection(("127.0.0.1", plane.port), 10)

    with socket.create_server((address, 0)) as listener, serving(listener, reach):
        port = listener.getsockname()[1]
        # The API server reads its certificate again by itself.
        until(lambda: _trusted(str(plane.ca), address, port), "the new certificate", 120)
        yield address, port


@contextlib.contextmanager
def serving(listener: socket.socket, reach: Reach) -> Iterator[None]:
    """Pass on what comes in, while the block runs."""
    threading.Thread(target=_accept, args=(listener, reach), daemon=True).start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _trusted(ca: str, address: str, port: int) -> bool:
    context = ssl.create_default_context(cafile=ca)
    try:
        with (
            socket.create_connection((address, port), 10) as plain,
            context.wrap_socket(plain, server_hostname=address),
        ):
            return True
    except OSError:
        return False


def _accept(listener: socket.socket, reach: Reach) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(near, reach), daemon=True).start()


def _serve(near: socket.socket, reach: Reach) -> None:
    """One connection, until either end closes."""
    with near, contextlib.suppress(OSError):
        far = reach()
        if far is None:
            return
        with far:
            far.settimeout(None)
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
