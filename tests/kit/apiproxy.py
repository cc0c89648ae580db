"""A proxy between clients and the API server that breaks what the test tells it to break.

Loopback and tests only. It ends TLS with an authority of its own and asks every client for a
certificate of that authority, which names the client; towards the API server it uses a real
certificate of the client's user. So two clients of one user can be told apart, counted and cut
off one by one, and the API server sees nothing but its ordinary users. Pods come another way in
(``listen``): each is named by its address, and its token is passed on.

Every request is passed on once, or not at all; what becomes of it and of its answer is decided by
the first rule that fits. Without a rule nothing is changed.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import select
import socket
import ssl
import struct
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.kit.apifaults import Action, Cut, Drip, Hang, LoseAnswer, Refuse, Reply, Rule, Seen
from tests.kit.controlplane import Cluster, write_kubeconfig
from tests.kit.pki import Authority, Pair

_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
     "upgrade", "host", "content-length"}
)  # fmt: skip
_LOOK_S: Final = 0.02
_CHUNK: Final = 65536
_HANDSHAKE_S: Final = 20.0


class _Gone(Exception):
    """The client has hung up, or the proxy hangs up on it: nothing more to say."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, proxy: ApiProxy, context: ssl.SSLContext) -> None:
        super().__init__((address, 0), _Handler)
        self.proxy = proxy
        self._context = context
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def get_request(self) -> tuple[Any, Any]:
        raw, address = super().get_request()
        # The handshake belongs to the connection's own thread: a slow client delays no other.
        wrapped = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def shutdown_request(self, request: Any) -> None:
        self.proxy.ended(request)
        request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is this proxy's trade; anything else is kept for the test."""
        self.proxy.failed(request)


def _shows(pair: Pair) -> ssl.SSLContext:
    """A server's context with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def _reset(connection: socket.socket) -> None:
    """Have the socket's end be a reset, and wake whoever reads from it."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # Not the method of an SSLSocket, which would go on in clear text.
        socket.socket.shutdown(connection, socket.SHUT_RD)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        self.connection = self.request
        self.connection.settimeout(_HANDSHAKE_S)
        self.connection.do_handshake()
        self.connection.settimeout(None)
        self.name, self.number = self.server.proxy.remember(self.connection)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what was seen is counted."""

    def handle(self) -> None:
        with contextlib.suppress(_Gone, OSError, http.client.HTTPException):
            super().handle()

    def _pass(self) -> None:
        proxy = self.server.proxy
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        seen = Seen(self.name, self.command, self.path, self.number, body)
        rule = proxy.meet(seen)
        proxy.wait_connected(self.connection, self._check_client)
        action = rule.action if rule is not None else None
        if isinstance(action, Refuse):
            self._hang_up()
        if isinstance(action, Reply) and not action.done:
            self._reply(action)
            return
        if isinstance(action, Hang) and not action.done:
            self._wait(rule)
        with proxy.upstream(self.name, self.connection) as upstream:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
            upstream.request(self.command, self.path, body=body or None, headers=headers)
            answer = upstream.getresponse()
            if rule is not None:
                rule.note(answer.status)
            proxy.wait_connected(self.connection, self._check_client)
            if isinstance(action, LoseAnswer):
                answer.read()
                self._hang_up()
            if isinstance(action, Hang) and action.done:
                self._wait(rule)
            if isinstance(action, Reply):
                answer.read()
                self._reply(action)
            else:
                self._relay(answer, action)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _pass

    def _hang_up(self) -> None:
        _reset(self.connection)
        raise _Gone

    def _check_client(self) -> None:
        """Whoever waits for its answer sends nothing; what can be read is the end."""
        if select.select([self.connection], [], [], _LOOK_S)[0] or self.server.proxy.closed:
            raise _Gone

    def _wait(self, rule: Rule | None) -> None:
        assert rule is not None
        outlives = isinstance(rule.action, Hang) and rule.action.outlives
        while not rule.released:
            if not outlives:
                self._check_client()
            elif self.server.proxy.closed:
                raise _Gone
            else:
                rule.wait_released(_LOOK_S)

    def _reply(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def _relay(self, answer: http.client.HTTPResponse, action: Action | None) -> None:
        """Send the answer on as it comes in, chunked unless its length is known."""
        length = answer.getheader("Content-Length")
        bodyless = self.command == "HEAD" or answer.status in (204, 304)
        cut = action if isinstance(action, Cut) else None
        if cut is not None and cut.clean and length is not None:
            length = str(min(int(length), cut.after))
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", length)
        elif not bodyless:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if bodyless:
            return
        chunked, left = length is None, None if cut is None else cut.after
        for piece in self._pieces(answer, action):
            self.server.proxy.wait_connected(self.connection, self._check_client)
            sent = piece if left is None else piece[:left]
            left = None if left is None else left - len(sent)
            if sent:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent) if chunked else sent)
            if left == 0:
                break
        if cut is not None and left == 0 and not cut.clean:
            self._hang_up()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _pieces(self, answer: http.client.HTTPResponse, action: Action | None) -> Iterator[bytes]:
        size = action.size if isinstance(action, Drip) else _CHUNK
        pause = threading.Event()
        while piece := answer.read1(size):
            if isinstance(action, Drip):
                pause.wait(action.every_s)
            yield piece


class ApiProxy:
    """The proxy, while its ``with`` block runs."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """:param folder: of the test; keys and kubeconfigs go below it."""
        self._cluster = cluster
        self._folder = Path(tempfile.mkdtemp(prefix="apiproxy-", dir=folder))
        self._authority = Authority.create(self._folder)
        self.closed = False
        self._lock = threading.Condition()
        self._identities: dict[str, Pair] = {}
        self._rules: list[Rule] = []
        self._seen: list[Seen] = []
        self._apart: set[str] = set()
        self._open: dict[socket.socket, str] = {}
        self._doomed: set[socket.socket] = set()
        self._upstreams: dict[socket.socket, http.client.HTTPSConnection] = {}
        self._failures: list[str] = []
        self._connections = 0
        context = _shows(self._authority.server("apiproxy", ["127.0.0.1", "localhost"]))
        context.load_verify_locations(self._authority.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        parts = urllib.parse.urlsplit(cluster.url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port or 443
        self._servers = [_Server("127.0.0.1", self, context)]

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"https://127.0.0.1:{self._servers[0].server_port}"

    @property
    def ca(self) -> Path:
        """The certificate that its clients trust."""
        return self._authority.certificate

    def kubeconfig(self, client: str, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig that goes through the proxy.

        :param client: names it to the rules; several clients may be one user.
        :param user, groups: who it is to the API server.
        """
        with self._lock:
            self._identities[client] = self._cluster.identity(user, groups)
        pair = self._authority.client(client, (), f"proxied-{client}")
        return write_kubeconfig(self._folder / f"{client}.kubeconfig", self.url, self.ca, pair)

    def listen(self, address: str, pair: Pair) -> int:
        """Let Pods in too, which trust their cluster's CA and show a token; the port.

        The rules know a Pod by its address; to the API server it is whom its token names.

        :param address: of this machine, as Pods see it.
        :param pair: a certificate of the cluster's CA for that address.
        """
        made = _Server(address, self, _shows(pair))
        self._servers.append(made)
        made.start()
        return made.server_port

    def rule(
        self,
        action: Action,
        *,
        method: str = ".*",
        path: str = "",
        client: str | None = None,
        times: int | None = None,
        when: Callable[[Seen], bool] = lambda seen: True,
    ) -> Rule:
        """Break the requests that fit, from now on. Older rules are asked first.

        :param method: a regular expression for the whole method.
        :param path: one for any part of path and query.
        :param times: how many requests to meet; every one if not given.
        :param when: what else has to hold of a request; asked only where the others do.
        """
        made = Rule(action, method, path, client, times, when)
        with self._lock:
            self._rules.append(made)
        return made

    def seen(self, *, method: str = ".*", path: str = "", client: str | None = None) -> list[Seen]:
        """The requests that came in so far, in order."""
        with self._lock:
            return [
                seen
                for seen in self._seen
                if re.fullmatch(method, seen.method)
                and re.search(path, seen.path)
                and client in (None, seen.client)
            ]

    def partition(self, client: str) -> None:
        """Cut a client off: its connections stay open, and nothing passes in either direction."""
        with self._lock:
            self._apart.add(client)

    def heal(self, client: str) -> None:
        """End the partition. What was on its way is lost: those connections are reset."""
        with self._lock:
            self._reset_all(client)
            self._apart.discard(client)
            self._lock.notify_all()

    def reset(self, client: str) -> None:
        """Reset every connection that a client has now, watches included."""
        with self._lock:
            self._reset_all(client)

    def forget(self) -> None:
        """End every rule and partition, and forget what was seen, as before the first of them."""
        with self._lock:
            rules, self._rules, self._seen = self._rules, [], []
            apart = list(self._apart)
        for rule in rules:
            rule.release()
        for client in apart:
            self.heal(client)

    def _reset_all(self, client: str | None) -> None:
        for connection, name in self._open.items():
            if client in (None, name):
                self._doomed.add(connection)
                _reset(connection)
                upstream = self._upstreams.get(connection)
                if upstream is not None and upstream.sock is not None:
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(upstream.sock, socket.SHUT_RDWR)

    def __enter__(self) -> ApiProxy:
        self._servers[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closed = True
        with self._lock:
            rules = list(self._rules)
            self._reset_all(None)
        for rule in rules:
            rule.release()
        for server in self._servers:
            server.end()
        assert kind is not None or not self._failures, self._failures

    # What follows is for the proxy's own threads.

    def remember(self, connection: ssl.SSLSocket) -> tuple[str, int]:
        """Whose connection this is, and its number."""
        certificate = connection.getpeercert() or {}
        subject: Any = certificate.get("subject", ())
        names = [value for pairs in subject for key, value in pairs if key == "commonName"]
        name = names[0] if names else str(connection.getpeername()[0])
        with self._lock:
            self._connections += 1
            self._open[connection] = name
            return name, self._connections

    def ended(self, connection: socket.socket) -> None:
        """The connection has ended."""
        with self._lock:
            self._open.pop(connection, None)
            self._doomed.discard(connection)

    def meet(self, seen: Seen) -> Rule | None:
        """Count a request, and find the rule that it falls under."""
        with self._lock:
            self._seen.append(seen)
            rules = list(self._rules)
        return next((rule for rule in rules if rule.takes(seen)), None)

    def wait_connected(self, connection: socket.socket, check: Callable[[], None]) -> None:
        """Return when the connection's client is not cut off, and raise when it was reset."""
        while True:
            with self._lock:
                if connection in self._doomed:
                    raise _Gone
                if self._open[connection] not in self._apart:
                    return
            check()

    @contextlib.contextmanager
    def upstream(self, client: str, asking: socket.socket) -> Iterator[http.client.HTTPSConnection]:
        """A connection to the API server as the client's user; a Pod's token says whose."""
        with self._lock:
            pair = self._identities.get(client)
        context = ssl.create_default_context(cafile=str(self._cluster.ca))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        connection = http.client.HTTPSConnection(self._host, self._port, context=context)
        with self._lock:
            self._upstreams[asking] = connection
        try:
            yield connection
        finally:
            with self._lock:
                self._upstreams.pop(asking, None)
            connection.close()

    def failed(self, connection: socket.socket) -> None:
        """A connection's thread ended with an error that is no broken connection."""
        error = sys.exception()
        if isinstance(error, OSError | http.client.HTTPException):
            return
        with self._lock:
            self._failures.append(repr(error))
