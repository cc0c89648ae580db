"""Health, readiness and metrics over HTTP: every replica, from before its start to after its end.

``/healthz`` 200 while every thread makes its rounds; ``/readyz`` 200 while the caches are synced
and fresh; ``/metrics`` as Prometheus reads them.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app
from prometheus_client.registry import CollectorRegistry

LOG = logging.getLogger(__name__)
REQUEST_TIMEOUT_S = 10.0

Check = Callable[[], list[str]]
"""What is wrong now, one line each; empty: nothing."""


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S  # a client that says nothing is hung up on

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds; what is wrong is logged where it happens."""


class _Server4(ThreadingWSGIServer):
    address_family = socket.AF_INET


class _Server6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class Probes:
    """The server, on one thread of its own and one for each request.

    :param address: host and port; port 0 chooses a free one.
    :raises OSError: the address cannot be had.
    """

    def __init__(
        self, address: tuple[str, int], registry: CollectorRegistry, healthy: Check, ready: Check
    ) -> None:
        self._metrics: Any = make_wsgi_app(registry)
        self._checks = {"/healthz": healthy, "/readyz": ready}
        kind = _Server6 if ":" in address[0] else _Server4
        self._server = make_server(*address, self._answer, kind, handler_class=_Handler)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="probes", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        check = self._checks.get(path)
        if check is None:
            return _text(start_response, "404 Not Found", "not found")
        wrong = check()
        if wrong:
            return _text(start_response, "503 Service Unavailable", "\n".join(wrong))
        return _text(start_response, "200 OK", "ok")


def _text(start_response: Any, status: str, text: str) -> list[bytes]:
    body = f"{text}\n".encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]
