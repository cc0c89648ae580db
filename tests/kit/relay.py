"""The API server on the Pods' bridge: a node without a service proxy, so its address is told."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator

from tests.kit.clusters import PodCluster
from tests.kit.waiting import until

_HOSTS = ("127.0.0.1", "localhost", "10.96.0.1", "kubernetes.default")


@contextlib.contextmanager
def api_server(cluster: PodCluster) -> Iterator[tuple[str, int]]:
    """Address and port at which Pods reach the API server; its certificate names them."""
    plane, address = cluster.own_plane, cluster.guests.address
    plane.authority.server("apiserver", [*_HOSTS, address])
    with socket.create_server((address, 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=_accept, args=(listener, plane.port), daemon=True).start()
        # The API server reads its certificate again by itself.
        until(lambda: _trusted(str(plane.ca), address, port), "the new certificate", 120)
        yield address, port
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


def _accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(near, port), daemon=True).start()


def _serve(near: socket.socket, port: int) -> None:
    """One connection, until either end closes."""
    with (
        near, contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), 10) as far,
    ):  # fmt: skip
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
