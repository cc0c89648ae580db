"""The admission webhook: HTTPS around ``engine.admission``, on every ready replica.

It changes nothing anywhere, so every replica answers, leader or not. An answer takes two live
reads at most, each with a deadline of its own; whatever goes wrong is a denial. What is refused
is logged and counted, by its code: no name is a label.
"""

import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final, Protocol

from cheroot import wsgi
from cheroot.makefile import MakeFile
from cheroot.server import HTTPConnection
from cheroot.ssl import Adapter
from cryptography import x509

from ptahk.engine.admission import review
from ptahk.engine.admission.review import Denied, Reference, Request, Verdict
from ptahk.engine.ports import Clock, Document, Key, NotFound, Objects, PortError
from ptahk.serve.logs import fields

LOG = logging.getLogger(__name__)

PATH: Final = "/operations"
THREADS: Final = 16
"""Reviews at once; more wait, and the API server gives them up after its own timeout."""
QUEUE: Final = 64
"""Connections that wait; more are refused at once."""
READ_S: Final = 1.5
"""One live read. Two of them and the comparison end before the API server's five seconds."""
IDLE_S: Final = 4
"""A client that says nothing in the middle of a request is hung up on."""
KEPT_S: Final = 600
"""A connection without a request is kept so long. An API server keeps it too, and does not send a
review again that met its end: with fewer ends fewer creates are of an outcome that nobody knows."""
HEADER_BYTES_MAX: Final = 64 * 1024
PROBE_S: Final = 1.0


class Certificates(Protocol):
    """Where the webhook's certificate comes from; renewed while it serves."""

    def context(self) -> ssl.SSLContext:
        """A server's context as of now: asked anew for every connection.

        :raises OSError: there is none yet; the connection is refused.
        """


@dataclass(frozen=True, slots=True)
class Guard:
    """What a review is judged by."""

    objects: Objects
    """Of connections of its own, whose calls end within ``READ_S``."""
    differs: review.Differs
    clock: Clock

    def judge(self, found: Request) -> Verdict:
        """Read live what the request must be compared with, and compare."""
        owner = review.asked(found)
        if not isinstance(owner, Reference):
            return owner
        try:
            if found.kind == "Job":
                job: Document | None = found.object
                resource = self._get(owner, found.namespace)
            else:
                job = self._get(owner, found.namespace)
                named = None if job is None else review.owner_of(job, review.RESOURCES)
                resource = None if named is None else self._get(named, found.namespace)
        except PortError as error:
            text = f"{owner.kind} {owner.name} cannot be read now ({type(error).__name__})"
            return Denied(review.UNREADABLE, text)
        return review.verdict(found, job, resource, self.clock.now(), self.differs)

    def _get(self, named: Reference, namespace: str) -> Document | None:
        try:
            return self.objects.get(Key(named.kind, namespace, named.name))
        except NotFound:
            return None


Told = Callable[[str, str, float], None]
"""Told of every review: kind, verdict (``Allowed`` or a code), seconds."""


class _Tls(Adapter):
    """Every connection takes the context of its moment, and shakes hands in its own thread."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates

    def bind(self, sock: socket.socket) -> socket.socket:
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        context = self._certificates.context()
        # Not here: a client that is silent would keep every other one waiting.
        wrapped = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        return MakeFile(sock, mode, bufsize)


class _Connection(HTTPConnection):
    """One client's; how long it is kept is the server's own timeout."""

    def __init__(self, server: Any, sock: socket.socket, makefile: Any = MakeFile) -> None:
        sock.settimeout(IDLE_S)
        super().__init__(server, sock, makefile)


class _Server(wsgi.Server):
    ConnectionClass = _Connection

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """A client that broke off is its own business; the text may quote what it sent."""
        LOG.debug("a connection of the webhook failed", exc_info=traceback)


class Webhook:
    """The server, on threads of its own.

    :param address: host and port; port 0 chooses a free one.
    :raises OSError: the address cannot be had.
    """

    def __init__(
        self, address: tuple[str, int], certificates: Certificates, guard: Guard, told: Told
    ) -> None:
        self._guard = guard
        self._told = told
        self._server = _Server(
            address, self._answer, numthreads=THREADS, max=THREADS, request_queue_size=QUEUE,
            timeout=KEPT_S, shutdown_timeout=IDLE_S, accepted_queue_size=QUEUE,
            accepted_queue_timeout=1, server_name="ptahk",
        )  # fmt: skip
        self._server.max_request_body_size = review.BODY_BYTES_MAX
        self._server.max_request_header_size = HEADER_BYTES_MAX
        self._server.ssl_adapter = _Tls(certificates)
        self._server.prepare()
        self.port: int = self._server.bind_addr[1]
        self._host = "127.0.0.1" if address[0] in ("", "0.0.0.0", "::") else address[0]
        self._thread = threading.Thread(target=self._server.serve, name="webhook", daemon=True)
        self._started = False

    def start(self) -> None:
        """Answer from now on."""
        self._started = True
        self._thread.start()

    def stop(self) -> None:
        """Answer no more; what is under way may end."""
        self._server.stop()
        if self._started:
            self._thread.join(IDLE_S)

    def unready(self) -> list[str]:
        """Why no API server would get an answer here; found out as it would find out.

        Connections that are kept outlive a certificate (C-12.4), so its end is looked at.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with (
                socket.create_connection((self._host, self.port), PROBE_S) as plain,
                context.wrap_socket(plain) as wrapped,
            ):
                served = wrapped.getpeercert(binary_form=True)
            assert served is not None, "a server always shows its certificate"
            ends = x509.load_der_x509_certificate(served).not_valid_after_utc
        except (OSError, ValueError) as error:
            return [f"the webhook does not answer: {type(error).__name__}"]
        if ends <= self._guard.clock.now():
            return [f"the webhook's certificate ended at {ends.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"]
        return []

    # -- requests -----------------------------------------------------------------------------

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return _plain(start_response, 404, "not found")
        if environ.get("REQUEST_METHOD") != "POST":
            return _plain(start_response, 405, "only POST")
        if not str(environ.get("CONTENT_TYPE", "")).startswith("application/json"):
            return _plain(start_response, 415, "only application/json")
        began_s = time.monotonic()
        body = environ["wsgi.input"].read()
        try:
            found = review.request(body)
        except review.Malformed as error:
            self._told("", review.MALFORMED, time.monotonic() - began_s)
            return _plain(start_response, 400, str(error))
        judged = self._judged(found)
        code = judged.code if isinstance(judged, Denied) else "Allowed"
        self._told(found.kind, code, time.monotonic() - began_s)
        document = review.answer(found.uid, judged)
        return _bytes(start_response, 200, "application/json", json.dumps(document).encode())

    def _judged(self, found: Request) -> Verdict:
        try:
            judged = self._guard.judge(found)
        except Exception:
            LOG.exception("a review could not be judged")
            return Denied(review.UNREADABLE, "a fault of ptahk's own; its log says more")
        if isinstance(judged, Denied):
            LOG.warning(
                "an operation's %s was denied", found.kind or "object",
                extra=fields(
                    namespace=found.namespace, code=judged.code, message_text=judged.message
                ),
            )  # fmt: skip
        return judged


def _plain(start_response: Any, status: int, text: str) -> list[bytes]:
    return _bytes(start_response, status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _bytes(start_response: Any, status: int, kind: str, body: bytes) -> list[bytes]:
    headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    start_response(f"{status} {http.client.responses[status]}", headers)
    return [body]
