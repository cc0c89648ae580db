"""The API server, one request at a time, in raw JSON.

The official client reads the configuration and sets up TLS, proxies and tokens; its models,
retries, redirects and timeouts are left out, for each can turn one call into several or a success
into an error (hazards A4, A5, C10, F9, F10). One call here is one request on the wire.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode

from ptahk import __version__
from ptahk.backends.kube.answers import Answer, Unauthenticated, check
from ptahk.backends.kube.credentials import Access, loader
from ptahk.backends.kube.transport import Cancel, Cut, Wire, send, watch_connections
from ptahk.engine.ports import Document, Indeterminate, Invalid, PortError, Unavailable
from ptahk.errors import UsageError

TIMEOUT_S = 10.0
"""Outer deadline of one call, unless its caller names another."""

ANSWER_BYTES_MAX = 128 * 1024 * 1024
"""Largest answer: a page of objects of the largest size that etcd stores."""

REFUSAL_BYTES_MAX = 64 * 1024
"""Of an answer that is an error, this much is read."""

RELOAD_MIN_S = 1.0
"""Refused credentials are loaded again, but not more often."""

_CHUNK = 64 * 1024
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_AGENT = f"ptahk/{__version__}"


class Client:
    """One identity at one cluster; may be shared between threads."""

    def __init__(self, load: Callable[[], Access]) -> None:
        """:param load: reads the credentials; called again when the server refuses them.

        :raises PtahkError: they cannot be read.
        """
        self._load = load
        self._loading = threading.Lock()
        self._refused = False
        self._cluster_uid: str | None = None
        self._use(load())

    @classmethod
    def load(cls, kubeconfig: Path | None = None, context: str | None = None) -> "Client":
        """The cluster that these name; with neither, as ``credentials.loader`` says.

        :raises UsageError: the kubeconfig or the context is not usable.
        :raises Unreachable: the service account or an exec plugin gives no credentials.
        """
        return cls(loader(kubeconfig, context))

    @property
    def namespace(self) -> str:
        """The context's namespace, or the Pod's own."""
        return self._access.namespace

    @property
    def host(self) -> str:
        """The API server's URL, for messages."""
        return self._redactor.text(str(self._access.configuration.host))

    def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        pools = self._manager.pools
        for key in list(pools.keys()):
            pools[key].close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Document | None = None,
        timeout_s: float = TIMEOUT_S,
        accept: str | None = None,
        content_type: str = "application/json",
        bytes_max: int = ANSWER_BYTES_MAX,
        cancel: Cancel | None = None,
    ) -> Answer:
        """Exactly one request, and its whole answer: never sent again, never redirected.

        :param timeout_s: until the last byte of the answer, name lookup and TLS included.
        :param cancel: ends it sooner, from another thread.
        :returns: an answer that says success.
        :raises PortError: else, as ``answers.check`` maps it. What went wrong before the first
            byte was sent is ``Unavailable``; afterwards ``Indeterminate`` for a write.
        """
        write = method in _WRITES
        what = f"{method} {path}"
        data = None if body is None else _encode(body, what)
        wire = Wire(time.monotonic() + timeout_s)
        headers = {"Accept": accept or "application/json", "User-Agent": _AGENT}
        if data is not None:
            headers["Content-Type"] = content_type
        response = None
        if cancel is not None:
            cancel.add(wire)
        try:
            response = self._send(wire, method, path, query, headers, data)
            limit = bytes_max if response.status < 300 else REFUSAL_BYTES_MAX
            answer = _whole(response, limit, what, write)
            if wire.ended is not None:
                raise Cut(wire.ended)  # what was read may end where the socket was shut
        except Exception as error:
            wire.abort("failed")
            self._failed(error, wire, what, write)
        finally:
            wire.finish()
            if cancel is not None:
                cancel.drop(wire)
            if response is not None:
                response.close()
        return self._checked(answer)

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, deadline_s: float,
        bytes_max: int, idle_s: float | None = None, accept: str | None = None,
        cancel: Cancel | None = None,
    ) -> "Stream":  # fmt: skip
        """The body of one GET as it comes: a watch or a log. Sent when first asked for bytes.

        :param deadline_s: seconds from now until it ends, whatever happens.
        :param bytes_max: after these it ends with ``Unavailable``.
        :param idle_s: longest silence.
        :param cancel: ends it from another thread, as its own ``close`` does.
        """
        return Stream(self, path, query, deadline_s, bytes_max, idle_s, accept, cancel)

    def cluster_uid(self) -> str:
        """UID of the ``kube-system`` namespace: the store's identity.

        :raises PortError: it cannot be read.
        """
        if self._cluster_uid is None:
            found = self.request("GET", "/api/v1/namespaces/kube-system").document()
            uid = (found.get("metadata") or {}).get("uid")
            if not isinstance(uid, str) or not uid:
                raise Unavailable("namespace kube-system has no uid")
            self._cluster_uid = uid
        return self._cluster_uid

    def _send(
        self, wire: Wire, method: str, path: str, query: Mapping[str, str] | None,
        headers: dict[str, str], data: bytes | None, idle_s: float | None = None,
    ) -> Any:  # fmt: skip
        access = self._fresh(wire)
        manager = self._manager
        token = self._authorization(access, wire)
        if token is not None:
            headers["Authorization"] = token
        url = access.configuration.host.rstrip("/") + path
        if query:
            url += "?" + urlencode(query)
        return send(manager, wire, method, url, headers=headers, body=data, idle_s=idle_s)

    def _fresh(self, wire: Wire) -> Access:
        """The credentials, loaded again if the server refused them."""
        if not self._refused or time.monotonic() - self._loaded_at < RELOAD_MIN_S:
            return self._access
        self._held(wire, self._reload)
        return self._access

    def _reload(self) -> None:
        if self._refused:
            self._use(self._load())

    def _authorization(self, access: Access, wire: Wire) -> str | None:
        found: list[str | None] = []
        if access.slow:
            self._held(wire, lambda: found.append(access.authorization()))
        else:
            found.append(access.authorization())
        value = found[0]
        if value is not None and not (value.isascii() and value.isprintable()):
            # The HTTP library would quote it in its error.
            raise ValueError("the token is no header value")
        return value

    def _held(self, wire: Wire, work: Callable[[], None]) -> None:
        """Run what may hang, one at a time, no longer than the request may last."""

        def locked() -> None:
            if not self._loading.acquire(timeout=wire.left_s):
                raise TimeoutError("the credentials are still being loaded")
            try:
                work()
            finally:
                self._loading.release()

        wire.bounded(locked)

    def _use(self, access: Access) -> None:
        from kubernetes.client.rest import RESTClientObject

        redactor = access.redactor()
        try:
            pools = RESTClientObject(access.configuration).pool_manager
        except Exception as error:  # a proxy of a kind that nobody here can speak, mostly
            text = redactor.text(f"{type(error).__name__}: {error}", 300)
            raise UsageError(f"the kubeconfig's connection cannot be set up: {text}") from None
        # One assignment each: a request beside this one uses the old or the new.
        self._manager = watch_connections(pools)
        self._redactor = redactor
        self._access = access
        self._refused = False
        self._loaded_at = time.monotonic()

    def _checked(self, answer: Answer) -> Answer:
        try:
            return check(answer)
        except Unauthenticated:
            self._refused = True
            raise

    def _failed(self, error: Exception, wire: Wire, what: str, write: bool) -> NoReturn:
        """Raise what a failed request means: only the phase counts, not the error's class."""
        text = self._redactor.text(f"{what}: {_describe(error, wire)}", 500)
        # Without its cause, whose text nobody has masked.
        raise (Indeterminate if write and wire.sent else Unavailable)(text) from None


class Stream(Iterator[bytes]):
    """The chunks of one answer. Ends by itself only where the server ended it properly.

    A body without a length that the connection's close ends cannot be told from a cut one: who
    reads must see by its content whether it is whole (hazard C3).
    """

    def __init__(
        self, client: Client, path: str, query: Mapping[str, str] | None, deadline_s: float,
        bytes_max: int, idle_s: float | None, accept: str | None, cancel: Cancel | None,
    ) -> None:  # fmt: skip
        self._client = client
        self._path = path
        self._query = query
        self._wire = Wire(time.monotonic() + deadline_s)
        self._left = bytes_max
        self._idle_s = idle_s
        self._accept = accept
        self._response: Any = None
        self._what = f"GET {path}"
        self._cancel = cancel
        if cancel is not None:
            cancel.add(self._wire)

    def __next__(self) -> bytes:
        """The next bytes.

        :raises Unavailable: no more came before the deadline, in too long a silence, or at all.
        :raises PortError: the server refused, as ``answers.check`` maps it.
        """
        try:
            if self._response is None:
                self._response = self._open()
            chunk: bytes = self._response.read1(_CHUNK)
        except PortError:
            self._end()
            raise
        except Exception as error:
            self._wire.abort("failed")
            self._end()
            self._client._failed(error, self._wire, self._what, write=False)
        if self._wire.ended is not None:
            self._end()
            raise Unavailable(f"{self._what}: {_ending(self._wire)}")
        if not chunk:
            self._end()
            raise StopIteration
        self._left -= len(chunk)
        if self._left < 0:
            self.close()
            self._end()
            raise Unavailable(f"{self._what}: the answer is too long")
        return chunk

    def close(self) -> None:
        """End it, from any thread; whoever waits for bytes gets ``Unavailable`` at once."""
        self._wire.abort("closed")

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._end()

    def _open(self) -> Any:
        headers = {"Accept": self._accept or "application/json", "User-Agent": _AGENT}
        client = self._client
        response = client._send(
            self._wire, "GET", self._path, self._query, headers, None, self._idle_s
        )
        if response.status != 200:
            self._response = response
            answer = _whole(response, REFUSAL_BYTES_MAX, self._what, write=False)
            client._checked(answer)
            raise Unavailable(f"{self._what}: {answer.status} is no stream")
        return response

    def _end(self) -> None:
        self._wire.finish()
        if self._cancel is not None:
            self._cancel.drop(self._wire)
        if self._response is not None:
            self._response.close()


def _encode(body: Document, what: str) -> bytes:
    try:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid(f"{what}: the document is no JSON: {type(error).__name__}") from None


def _whole(response: Any, limit: int, what: str, write: bool) -> Answer:
    """The answer with its body; of an error, as much as is needed."""
    chunks, size = [], 0
    while chunk := response.read1(_CHUNK):
        size += len(chunk)
        if size > limit:
            if response.status >= 300:
                break
            raise ValueError("the answer is too long")
        chunks.append(chunk)
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status, headers, b"".join(chunks), what, write)


def _ending(wire: Wire) -> str:
    return "it was closed" if wire.ended == "closed" else "no end of it in time"


def _describe(error: Exception, wire: Wire) -> str:
    if wire.ended in ("deadline", "closed"):
        return _ending(wire)
    return f"{type(error).__name__}: {error}"
