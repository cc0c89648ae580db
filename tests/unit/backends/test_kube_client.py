"""The client against a server that hangs, cuts, drips, redirects and answers garbage."""

import json
import os
import random
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube import answers, client, transport
from ptahk.backends.kube.client import Client
from ptahk.engine.ports import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Indeterminate,
    Invalid,
    NotFound,
    PortError,
    Unavailable,
)
from ptahk.errors import UsageError
from tests.kit.loopback import Handler, Loopback, Reply, Request, loopback
from tests.kit.pki import Authority
from tests.kit.waiting import until

TOKEN = "correct-horse-battery"
WRITES = ("POST", "PUT", "PATCH", "DELETE")
PATH = "/api/v1/namespaces/n/configmaps/c"

Serve = Callable[..., tuple[Loopback, Client]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(handler: Handler, **user: Any) -> tuple[Loopback, Client]:
            server = stack.enter_context(loopback(handler))
            made = Client.load(server.kubeconfig(tmp_path, user or {"token": TOKEN}), None)
            stack.callback(made.close)
            return server, made

        yield start


def body_of(method: str) -> dict[str, Any] | None:
    return {"a": 1} if method in ("POST", "PUT", "PATCH") else None


def test_a_request_is_what_was_asked_for(serve: Serve) -> None:
    server, made = serve(lambda request, reply: reply.json(201, {"kind": "é", "x": 1.5}))
    answer = made.request("POST", PATH, query={"fieldManager": "a b"}, body={"é": None})
    assert (answer.status, answer.document()) == (201, {"kind": "é", "x": 1.5})
    (request,) = server.requests
    assert (request.method, request.path, request.query) == ("POST", PATH, {"fieldManager": "a b"})
    assert request.document == {"é": None}
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept"] == "application/json"
    assert request.headers["user-agent"].startswith("ptahk/")
    assert made.namespace == "team"


def test_connections_are_kept(serve: Serve) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {}))
    for _ in range(5):
        made.request("GET", PATH)
    assert (len(server.requests), server.connections) == (5, 1)


def test_a_connection_that_lay_idle_is_not_used_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {}))
    made.request("GET", PATH)
    monkeypatch.setattr(transport, "IDLE_MAX_S", 0.0)
    made.request("PUT", PATH, body={})
    assert (len(server.requests), server.connections) == (2, 2)


def hang(request: Request, reply: Reply) -> None:
    reply.hang()


def hang_in_the_head(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\nContent-Le")
    reply.hang()


def drip_the_head(request: Request, reply: Reply) -> None:
    reply.drip(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 1000, 0.02)


def drip_the_body(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
    reply.drip(b"{" * 9999, 0.02)


def drip_without_a_length(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")
    reply.drip(b" " * 9999, 0.02)


def go_on_for_ever(request: Request, reply: Reply) -> None:
    while not reply.wait(0.02):
        reply.raw(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize(
    "handler",
    [hang, hang_in_the_head, drip_the_head, drip_the_body, drip_without_a_length, go_on_for_ever],
)
def test_no_call_outlives_its_deadline(serve: Serve, method: str, handler: Handler) -> None:
    server, made = serve(handler)
    began = time.monotonic()
    with pytest.raises(Unavailable if method == "GET" else Indeterminate, match="in time"):
        made.request(method, PATH, body=body_of(method), timeout_s=0.3)
    assert time.monotonic() - began < 1.3
    assert len(server.requests) == 1


def cut_at_once(request: Request, reply: Reply) -> None:
    reply.cut()


def cut_in_the_body(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}")
    reply.cut()


def cut_in_a_chunk(request: Request, reply: Reply) -> None:
    reply.chunked()
    reply.raw(b"10\r\n{}")
    reply.cut()


def cut_between_chunks(request: Request, reply: Reply) -> None:
    reply.chunked()
    reply.chunk(b"{}")
    reply.cut()


def no_http(request: Request, reply: Reply) -> None:
    reply.raw(b"\x15\x03\x01\x00\x02\x02\x16" * 9)
    reply.cut()


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize(
    "handler", [cut_at_once, cut_in_the_body, cut_in_a_chunk, cut_between_chunks, no_http]
)
def test_a_lost_answer_is_never_asked_for_again(
    serve: Serve, method: str, handler: Handler
) -> None:
    server, made = serve(handler)
    with pytest.raises(Unavailable if method == "GET" else Indeterminate):
        made.request(method, PATH, body=body_of(method))
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff{}", b'{"a": NaN}', b"[" * 100_000])
def test_a_garbled_success_is_no_success(serve: Serve, method: str, body: bytes) -> None:
    server, made = serve(lambda request, reply: reply.body(200, body))
    with pytest.raises(Unavailable if method == "GET" else Indeterminate):
        made.request(method, PATH, body=body_of(method)).document()
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(serve: Serve, method: str, code: int) -> None:
    server, made = serve(
        lambda request, reply: reply.body(code, b"", Location=f"{server.url}/elsewhere")
    )
    with pytest.raises(Unavailable if method == "GET" else Indeterminate):
        made.request(method, PATH, body=body_of(method))
    assert [request.path for request in server.requests] == [PATH]


@pytest.mark.parametrize("method", ["GET", *WRITES])
@pytest.mark.parametrize(
    ("code", "reason", "read", "written"),
    [
        (400, "BadRequest", Invalid, Invalid),
        (401, "Unauthorized", Unavailable, Unavailable),
        (403, "Forbidden", Forbidden, Forbidden),
        (405, "MethodNotAllowed", Invalid, Invalid),
        (408, "Timeout", Unavailable, Indeterminate),
        (409, "AlreadyExists", AlreadyExists, AlreadyExists),
        (409, "Conflict", Conflict, Conflict),
        (409, "Strange", Unavailable, Indeterminate),
        (410, "Expired", answers.Expired, answers.Expired),
        (413, "RequestEntityTooLarge", Invalid, Invalid),
        (418, "Teapot", Unavailable, Indeterminate),
        (422, "Invalid", Invalid, Invalid),
        (429, "TooManyRequests", Unavailable, Unavailable),
        (500, "InternalError", Unavailable, Indeterminate),
        (502, "BadGateway", Unavailable, Indeterminate),
        (503, "ServiceUnavailable", Unavailable, Indeterminate),
        (504, "Timeout", Unavailable, Indeterminate),
    ],
)
def test_what_the_server_said(
    serve: Serve, method: str, code: int, reason: str, read: type, written: type
) -> None:
    server, made = serve(lambda request, reply: reply.status(code, reason, "exceeded quota: q"))
    with pytest.raises(PortError, match=r"exceeded quota: q") as caught:
        made.request(method, PATH, body=body_of(method))
    wanted = read if method == "GET" else written
    assert isinstance(caught.value, wanted)
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [400, 403, 409, 413, 422, 500, 503])
def test_an_error_of_somebody_in_between(serve: Serve, code: int) -> None:
    """No Status object: who says so may have passed the write on."""
    _, made = serve(lambda request, reply: reply.body(code, b"<html>\n\x00 a proxy's words"))
    with pytest.raises(Indeterminate, match="a proxy's words"):
        made.request("PUT", PATH, body={})
    with pytest.raises(PortError, match="a proxy's words") as caught:
        made.request("GET", PATH)
    assert not isinstance(caught.value, Indeterminate)


@pytest.mark.parametrize("code", [401, 404, 429])
def test_what_is_said_before_the_api_is_reached(serve: Serve, code: int) -> None:
    _, made = serve(lambda request, reply: reply.body(code, b"404 page not found"))
    with pytest.raises(Unavailable):
        made.request("PUT", PATH, body={})


def test_a_long_error_is_cut(serve: Serve) -> None:
    _, made = serve(lambda request, reply: reply.body(403, b"x" * 1_000_000))
    with pytest.raises(Forbidden) as caught:
        made.request("GET", PATH)
    assert len(str(caught.value)) < 2 * answers.TEXT_MAX


def test_throttling_tells_how_long(serve: Serve) -> None:
    _, made = serve(lambda request, reply: reply.body(429, b"", Retry_After="7"))
    with pytest.raises(answers.Throttled) as caught:
        made.request("PUT", PATH, body={})
    assert caught.value.retry_after_s == 7.0


def test_absent_objects_kinds_and_namespaces_are_told_apart(serve: Serve) -> None:
    def handler(request: Request, reply: Reply) -> None:
        if request.path.endswith("/gone"):
            reply.status(404, "NotFound", 'x "gone" not found', name="gone", kind="ptahschemas")
        elif request.path.endswith("/namespaces/n/ptahschemas"):
            reply.status(404, "NotFound", 'namespaces "n" not found', name="n", kind="namespaces")
        elif "v1alpha1" in request.path:
            reply.body(404, b"404 page not found")
        else:
            reply.status(404, "NotFound", "the server could not find the requested resource")

    _, made = serve(handler)
    collection = "/apis/ptahk.dev/v1/namespaces/n/ptahschemas"
    with pytest.raises(NotFound):
        made.request("GET", f"{collection}/gone")
    with pytest.raises(Invalid, match="namespaces"):
        made.request("POST", collection, body={})
    for path in ("/apis/ptahk.dev/v1alpha1/ptahschemas", "/apis/ptahk.dev/v1/ptahschemas"):
        with pytest.raises(answers.NotServed, match="CRDs"):
            made.request("GET", path)


def test_an_answer_beyond_the_bound_is_refused(serve: Serve) -> None:
    _, made = serve(lambda request, reply: reply.body(200, b"x" * 100_000))
    with pytest.raises(Unavailable, match="too long"):
        made.request("GET", PATH, bytes_max=99_999)
    with pytest.raises(Indeterminate, match="too long"):
        made.request("PUT", PATH, body={}, bytes_max=99_999)
    assert len(made.request("GET", PATH, bytes_max=100_000).body) == 100_000


@pytest.mark.parametrize("body", [{"a": float("nan")}, {"a": b"x"}, {"a": "\ud800"}])
def test_what_is_no_json_is_not_sent(serve: Serve, body: dict[str, Any]) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {}))
    with pytest.raises(Invalid):
        made.request("PUT", PATH, body=body)
    assert server.requests == []


@pytest.mark.parametrize("method", ["GET", *WRITES])
def test_nobody_listens(serve: Serve, method: str) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {}))
    server.stop()
    with pytest.raises(Unavailable, match="refused"):
        made.request(method, PATH, body=body_of(method))


def test_a_name_lookup_that_hangs_ends_at_the_deadline(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def never(*_: Any, **__: Any) -> Any:
        released.wait(20.0)
        raise socket.gaierror("late")

    server, made = serve(lambda request, reply: reply.json(200, {}))
    monkeypatch.setattr(socket, "getaddrinfo", never)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="in time"):
        made.request("PUT", PATH, body={}, timeout_s=0.3)
    assert time.monotonic() - began < 1.3
    released.set()
    assert server.requests == []


def test_a_tls_handshake_that_hangs_ends_at_the_deadline(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = tmp_path / "kubeconfig"
        document = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {
                "server": f"https://127.0.0.1:{silent.getsockname()[1]}"}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }  # fmt: skip
        path.write_text(json.dumps(document))
        made = Client.load(path, None)
        assert made.namespace == "default"
        began = time.monotonic()
        with pytest.raises(Unavailable, match="in time"):
            made.request("PUT", PATH, body={}, timeout_s=0.3)
        assert time.monotonic() - began < 1.3


def test_a_process_that_stood_still_sends_nothing_afterwards(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watchdog stood still as well; another may lead by now (C-13.1)."""

    class Asleep:
        def watch(self, wire: transport.Wire) -> None:
            """Wakes too late."""

    server, made = serve(lambda request, reply: reply.json(200, {}))
    monkeypatch.setattr(transport, "_watchdog", Asleep())
    made.request("GET", PATH)
    for _ in range(2):  # over the kept connection, then over a new one
        with pytest.raises(Unavailable, match="in time"):
            made.request("PUT", PATH, body={}, timeout_s=0.0)
    assert len(server.requests) == 1


def test_a_proxys_refusal_has_sent_nothing(tmp_path: Path) -> None:
    """The CONNECT of a tunnel is no part of the request."""
    with loopback(lambda request, reply: reply.body(403, b"")) as proxy:
        path = proxy.kubeconfig(tmp_path, {"token": TOKEN})
        document = json.loads(path.read_text())
        document["clusters"][0]["cluster"] = {
            "server": "https://api.example",
            "proxy-url": f"http://me:{TOKEN}@127.0.0.1:{proxy.port}",
        }
        path.write_text(json.dumps(document))
        made = Client.load(path, None)
        with pytest.raises(Unavailable) as caught:
            made.request("PUT", PATH, body={})
        assert TOKEN not in str(caught.value)
        (request,) = proxy.requests
        assert (request.method, request.target) == ("CONNECT", "api.example:443")
        assert request.headers["proxy-authorization"].startswith("Basic ")
        assert "authorization" not in request.headers


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "pki").mkdir()
    return Authority.create(tmp_path / "pki")


def tls_of(authority: Authority, host: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = authority.server("api", [host])
    context.load_cert_chain(pair.certificate, pair.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def secure_client(server: Loopback, authority: Authority, folder: Path, ca: Path) -> Client:
    pair = authority.client("me")
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    path = server.kubeconfig(folder, user, **{"certificate-authority": str(ca)})
    return Client.load(path, None)


@pytest.mark.parametrize(
    "handler", [hang, hang_in_the_head, drip_the_head, drip_the_body, drip_without_a_length]
)
def test_deadlines_hold_over_tls(tmp_path: Path, authority: Authority, handler: Handler) -> None:
    turns: list[Handler] = [lambda request, reply: reply.json(200, {}), handler]
    with loopback(lambda q, a: turns.pop(0)(q, a), tls_of(authority)) as server:
        made = secure_client(server, authority, tmp_path, authority.certificate)
        made.request("GET", PATH)
        began = time.monotonic()
        with pytest.raises(Indeterminate, match="in time"):
            made.request("PUT", PATH, body={}, timeout_s=0.3)
        assert time.monotonic() - began < 1.3
        assert (len(server.requests), server.connections) == (2, 1)
        made.close()


@pytest.mark.parametrize("fault", ["authority", "host"])
def test_a_server_that_is_not_the_cluster_gets_nothing(
    tmp_path: Path, authority: Authority, fault: str
) -> None:
    ca, host = authority.certificate, "127.0.0.1"
    if fault == "authority":
        ca = Authority.create(tmp_path / "pki", "other").certificate
    else:
        host = "elsewhere.example"
    with loopback(lambda q, a: a.json(200, {}), tls_of(authority, host)) as server:
        made = secure_client(server, authority, tmp_path, ca)
        with pytest.raises(Unavailable, match="certificate"):
            made.request("PUT", PATH, body={})
        assert server.requests == []
        made.close()


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", f"gopher://me:{TOKEN}@127.0.0.1:1"])
def test_a_proxy_that_nobody_can_speak(serve: Serve, tmp_path: Path, proxy: str) -> None:
    server, _ = serve(hang)
    path = server.kubeconfig(tmp_path, **{"proxy-url": proxy})
    with pytest.raises(UsageError) as caught:
        Client.load(path, None)
    assert TOKEN not in str(caught.value)


def test_deadlines_of_many_calls_at_once(serve: Serve) -> None:
    server, made = serve(hang)
    late: list[float] = []

    def call(timeout_s: float) -> None:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            made.request("GET", PATH, timeout_s=timeout_s)
        late.append(time.monotonic() - began - timeout_s)

    threads = [threading.Thread(target=call, args=(0.2 + 0.02 * n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert len(late) == 20
    assert max(late) < 1.0
    until(lambda: not transport._watchdog._running, "the watchdog's end")
    assert len(server.requests) == 20


def test_calls_that_are_cut_never_meet_another_calls_answer(serve: Serve) -> None:
    dice = random.Random(7)
    pauses = [dice.choice((0.0, 0.0, 0.01, 0.03, 0.06)) for _ in range(997)]

    def handler(request: Request, reply: Reply) -> None:
        number = int(request.query["n"])
        reply.chunked()
        for part in (b'{"n":', b"%d" % number, b"}"):
            reply.wait(pauses[number % len(pauses)] / 3)
            reply.chunk(part)
        reply.chunk(b"")

    server, made = serve(handler)
    outcomes: list[str] = []

    def call(start: int) -> None:
        for number in range(start, start + 60):
            timeout_s = 0.02 + pauses[(number * 7) % len(pauses)]
            try:
                answer = made.request("GET", PATH, query={"n": str(number)}, timeout_s=timeout_s)
                outcomes.append("right" if answer.document() == {"n": number} else "wrong")
            except Unavailable:
                outcomes.append("cut")

    threads = [threading.Thread(target=call, args=(1000 * n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(outcomes) == 360
    assert set(outcomes) == {"right", "cut"}
    assert len(server.requests) <= 360


def test_an_old_deadline_does_not_cut_the_next_request(serve: Serve) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {}))
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        made.request("GET", PATH, timeout_s=0.15)
    assert server.connections == 1


def test_no_secret_is_shown(serve: Serve) -> None:
    def echo(request: Request, reply: Reply) -> None:
        reply.raw(b"HTTP/1.1 2x0 " + request.headers["authorization"].encode() + b"\r\n\r\n")
        reply.cut()

    _, made = serve(echo)
    with pytest.raises(Unavailable) as caught:
        made.request("GET", PATH)
    assert TOKEN not in str(caught.value)
    assert "BadStatusLine" in str(caught.value)
    assert TOKEN not in repr(made._access)


def test_a_token_that_is_no_header_is_not_quoted(serve: Serve) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {}), token="bad\x00horse")
    with pytest.raises(Unavailable) as caught:
        made.request("GET", PATH)
    assert "horse" not in str(caught.value)
    assert server.requests == []


def test_refused_credentials_are_loaded_again(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RELOAD_MIN_S", 0.0)
    token = tmp_path / "token"
    token.write_text("old")

    def handler(request: Request, reply: Reply) -> None:
        if request.headers["authorization"] == "Bearer new":
            reply.json(200, {})
        else:
            reply.status(401, "Unauthorized")

    server, made = serve(handler, tokenFile=str(token))
    for _ in range(2):
        with pytest.raises(Unavailable, match="credentials"):
            made.request("PUT", PATH, body={})
    token.write_text("new\n")
    made.request("PUT", PATH, body={})
    assert len(server.requests) == 3


def plugin(folder: Path, body: str) -> dict[str, Any]:
    script = folder / "plugin"
    script.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "command": str(script), "interactiveMode": "Never"}


def credential(token: str) -> str:
    return (
        'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": '
        f'"ExecCredential", "status": {{"token": {token}, "expirationTimestamp": '
        '"2001-01-01T00:00:00Z"}}))'
    )


def test_an_exec_plugins_token_is_renewed(serve: Serve, tmp_path: Path) -> None:
    count = tmp_path / "count"
    body = f"open({str(count)!r}, 'a').write('x')\n" + credential(f"open({str(count)!r}).read()")
    server, made = serve(lambda request, reply: reply.json(200, {}), exec=plugin(tmp_path, body))
    made.request("GET", PATH)
    made.request("GET", PATH)
    seen = [request.headers["authorization"] for request in server.requests]
    assert seen == ["Bearer xx", "Bearer xxx"]


def test_an_exec_plugin_that_hangs_ends_at_the_deadline(serve: Serve, tmp_path: Path) -> None:
    flag = tmp_path / "hang"
    body = f"while os.path.exists({str(flag)!r}): time.sleep(0.01)\n" + credential('"t"')
    server, made = serve(lambda request, reply: reply.json(200, {}), exec=plugin(tmp_path, body))
    flag.touch()
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(Unavailable, match="in time"):
            made.request("PUT", PATH, body={}, timeout_s=0.3)
        assert time.monotonic() - began < 5, "it hangs for as long as the plugin does"
    flag.unlink()
    made.request("PUT", PATH, body={})
    assert len(server.requests) == 1


def test_an_exec_plugin_that_fails_is_told(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"gave no credentials.*sorry"):
        serve(hang, exec=plugin(tmp_path, "sys.exit('sorry')"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("current-context"),
        lambda d: d.pop("clusters"),
        lambda d: d["contexts"][0]["context"].pop("cluster"),
        lambda d: d["users"][0].pop("name"),
        lambda d: d.update(users=[TOKEN]),
        lambda d: d["users"][0]["user"].update(exec={"args": [TOKEN]}, token=None),
        lambda d: d["users"].append(d["users"][0]),
    ],
)
def test_a_damaged_kubeconfig_is_told_without_its_secrets(
    serve: Serve, tmp_path: Path, damage: Callable[[Any], None]
) -> None:
    server, _ = serve(hang)
    path = server.kubeconfig(tmp_path, {"token": TOKEN})
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    try:
        Client.load(path, None)
    except Exception as error:
        assert TOKEN not in str(error)


def test_a_kubeconfig_that_is_no_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(f"token: [{TOKEN}\n: :")
    with pytest.raises(UsageError) as caught:
        Client.load(path, None)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("context", [None, "elsewhere"])
def test_a_missing_kubeconfig_or_context_is_named(
    serve: Serve, tmp_path: Path, context: str | None
) -> None:
    server, _ = serve(hang)
    path = tmp_path / "nowhere" if context is None else server.kubeconfig(tmp_path)
    with pytest.raises(UsageError, match=r"nowhere|elsewhere"):
        Client.load(path, context)


def test_a_pods_service_account_is_used_and_its_token_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    from ptahk.backends.kube import credentials

    for name, text in (("token", "first\n"), ("ca.crt", "no pem"), ("namespace", "ops")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    load = credentials.loader(None, None)
    access = load()
    assert (access.configuration.host, access.namespace) == ("https://[fd00::1]:443", "ops")
    assert access.authorization() == "bearer first"
    (tmp_path / "token").write_text("second")
    assert load().authorization() == "bearer second"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "named"))
    with pytest.raises(UsageError, match="named"):
        credentials.loader(None, None)()


def test_the_cluster_is_named_by_kube_systems_uid(serve: Serve) -> None:
    server, made = serve(lambda request, reply: reply.json(200, {"metadata": {"uid": "u-1"}}))
    assert (made.cluster_uid(), made.cluster_uid()) == ("u-1", "u-1")
    assert [request.path for request in server.requests] == ["/api/v1/namespaces/kube-system"]


# Streams


def test_a_stream_gives_bytes_as_they_come(serve: Serve) -> None:
    go_on = threading.Event()

    def handler(request: Request, reply: Reply) -> None:
        reply.chunked()
        reply.chunk(b"one\n")
        go_on.wait(20.0)
        reply.chunk(b"two\n")
        reply.chunk(b"")

    server, made = serve(handler)
    stream = made.stream("/log", {"a": "b"}, deadline_s=20.0, bytes_max=100)
    assert server.requests == []
    assert next(stream) == b"one\n"
    go_on.set()
    assert list(stream) == [b"two\n"]
    made.request("GET", PATH)
    assert server.connections == 1


def test_a_cut_stream_does_not_end_as_a_whole_one(serve: Serve) -> None:
    for handler in (cut_in_the_body, cut_in_a_chunk, cut_between_chunks):
        _, made = serve(handler)
        with pytest.raises(Unavailable):
            list(made.stream("/log", deadline_s=20.0, bytes_max=100))


def test_a_stream_ends_at_its_deadline_and_at_silence(serve: Serve) -> None:
    _, made = serve(drip_the_body)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="in time"):
        list(made.stream("/log", deadline_s=0.3, bytes_max=10_000))
    assert time.monotonic() - began < 1.3
    _, made = serve(hang_in_the_head)
    with pytest.raises(Unavailable):
        list(made.stream("/log", deadline_s=20.0, bytes_max=10_000, idle_s=0.1))
    assert time.monotonic() - began < 2.3


def test_a_stream_has_a_bound(serve: Serve) -> None:
    _, made = serve(lambda request, reply: reply.body(200, b"x" * 101))
    with pytest.raises(Unavailable, match="too long"):
        list(made.stream("/log", deadline_s=20.0, bytes_max=100))


@pytest.mark.parametrize("handler", [hang, hang_in_the_head, drip_the_body])
def test_another_thread_ends_a_stream_at_once(serve: Serve, handler: Handler) -> None:
    server, made = serve(handler)
    stream = made.stream("/log", deadline_s=60.0, bytes_max=1_000_000)
    ended: list[PortError] = []

    def read() -> None:
        with pytest.raises(Unavailable, match="closed") as caught:
            list(stream)
        ended.append(caught.value)

    reader = threading.Thread(target=read)
    reader.start()
    server.count(1)
    began = time.monotonic()
    stream.close()
    reader.join(20.0)
    assert time.monotonic() - began < 1.0
    assert len(ended) == 1


def test_a_stream_closed_before_it_began_sends_nothing(serve: Serve) -> None:
    server, made = serve(hang)
    stream = made.stream("/log", deadline_s=60.0, bytes_max=100)
    stream.close()
    with pytest.raises(Unavailable, match="closed"):
        next(stream)
    assert server.requests == []


def test_a_refused_stream_is_mapped(serve: Serve) -> None:
    _, made = serve(lambda request, reply: reply.status(410, "Expired"))
    with pytest.raises(answers.Expired):
        next(made.stream("/watch", deadline_s=20.0, bytes_max=100))


def run_code(code: str) -> None:
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_official_client_is_loaded_late() -> None:
    run_code(
        "import sys, ptahk.backends.kube.client, ptahk.backends.kube.informer\n"
        "assert not {'kubernetes', 'urllib3', 'pydantic', 'ssl'} & set(sys.modules)"
    )


def test_little_is_loaded_beside_the_official_client(serve: Serve, tmp_path: Path) -> None:
    """What a cluster command loads is the official client and the engine's pure values."""
    server, _ = serve(hang)
    path = server.kubeconfig(tmp_path)
    run_code(
        "import sys, pathlib, kubernetes.client.rest, kubernetes.config.kube_config\n"
        "before = set(sys.modules)\n"
        "from ptahk.backends.kube.client import Client\n"
        f"Client.load(pathlib.Path({str(path)!r}), None)\n"
        "more = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert more <= {'ptahk', *sys.stdlib_module_names}, more\n"
        "assert len(set(sys.modules) - before) < 40, sorted(set(sys.modules) - before)"
    )
