"""An HTTP server on loopback that misbehaves as told, and counts what reaches it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kit.waiting import until


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Reply:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket, closing: threading.Event) -> None:
        self._connection = connection
        self._closing = closing
        self.kept = True
        """The connection stays open for another request."""

    def json(self, status: int, document: Any, **headers: str) -> None:
        """A whole answer."""
        self.body(status, json.dumps(document).encode(), **headers)

    def body(self, status: int, body: bytes, **headers: str) -> None:
        """A whole answer with these bytes."""
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    def status(self, code: int, reason: str, message: str = "told", **details: Any) -> None:
        """A Kubernetes Status object."""
        document: dict[str, Any] = {"kind": "Status", "code": code, "reason": reason}
        self.json(code, document | {"message": message, "details": details})

    def chunked(self, status: int = 200) -> None:
        """The head of an answer whose body follows in chunks."""
        self.raw(f"HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n".encode())

    def chunk(self, data: bytes) -> None:
        """One chunk; an empty one ends the body."""
        self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, type: str, document: Any) -> None:
        """One event of a watch."""
        self.chunk(json.dumps({"type": type, "object": document}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._connection.sendall(data)

    def drip(self, data: bytes, pause_s: float) -> None:
        """One byte at a time, for as long as the other side listens."""
        for byte in data:
            self.raw(bytes([byte]))
            if self.wait(pause_s):
                return

    def wait(self, seconds: float) -> bool:
        """Let time pass; True where the server is being closed."""
        return self._closing.wait(seconds)

    def hang(self) -> None:
        """Say nothing more until the server is closed or the client goes away."""
        self.kept = False
        self._connection.settimeout(0.05)
        while not self._closing.is_set():
            try:
                if not self._connection.recv(1):
                    return
            except TimeoutError:
                continue

    def cut(self) -> None:
        """Close the connection."""
        self.kept = False


Handler = Callable[[Request, Reply], None]


@dataclass
class Loopback:
    """A running server."""

    listener: socket.socket
    handler: Handler
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    open: list[socket.socket] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def kubeconfig(self, folder: Path, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
        """A kubeconfig that leads here."""
        path = folder / "kubeconfig"
        document = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": self.url} | cluster}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [
                {"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}
            ],
        }
        path.write_text(json.dumps(document))
        return path

    def count(self, number: int) -> list[Request]:
        """Wait until that many requests came."""
        until(lambda: len(self.requests) >= number, f"{number} requests", 20.0)
        return self.requests

    def stop(self) -> None:
        """Listen no longer, and end every connection; idempotent."""
        self.closing.set()
        for each in (self.listener, *self.open):
            with suppress(OSError):  # closed already
                each.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(5.0)

    def accept(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def serve(self, connection: socket.socket) -> None:
        if self.tls is not None:
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:
                return  # the client does not trust us, or we do not trust it
        self.open.append(connection)
        reply = Reply(connection, self.closing)
        stream = connection.makefile("rb")
        with connection:
            try:
                while reply.kept and (request := read_request(stream)) is not None:
                    self.requests.append(request)
                    self.handler(request, reply)
            except OSError:
                return  # the client went away
            finally:
                stream.close()


def read_request(stream: Any) -> Request | None:
    """The next request; None where the client closed."""
    head = stream.readline()
    if not head:
        return None
    method, target, _ = head.decode().split()
    headers = {}
    while (line := stream.readline().decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Request(method, target, headers, stream.read(int(headers.get("content-length", 0))))


@contextmanager
def loopback(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[Loopback]:
    """Run a server that answers every request with ``handler``."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Loopback(listener, handler, tls=tls)
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(5.0)
