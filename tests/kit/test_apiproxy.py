"""The fault proxy itself: what it breaks, what it leaves whole, and what it counts."""

import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.apifaults import LOG_GONE, Cut, Drip, Hang, LoseAnswer, Refuse, Reply
from tests.kit.apiproxy import ApiProxy
from tests.kit.controlplane import MASTERS, Cluster, KubectlFailed, run_kubectl
from tests.kit.pki import Authority
from tests.kit.waiting import until

_SHORT_S = 0.5


class Client:
    """The plainest client there is: one connection, nothing tried twice."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        document = json.loads(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        parts = urllib.parse.urlsplit(cluster["server"])
        self.context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        pem = folder / f"{kubeconfig.stem}.pem"
        pem.write_bytes(
            base64.b64decode(user["client-certificate-data"])
            + base64.b64decode(user["client-key-data"])
        )
        self.context.load_cert_chain(pem)
        self.host, self.port = parts.hostname, parts.port
        self.connection = self.connect()

    def connect(self, timeout_s: float = 20.0) -> http.client.HTTPSConnection:
        """A connection of its own."""
        assert self.host is not None
        return http.client.HTTPSConnection(
            self.host, self.port, context=self.context, timeout=timeout_s
        )

    def ask(self, method: str, path: str, document: object = None) -> tuple[int, bytes]:
        """Status and body of one request."""
        body = None if document is None else json.dumps(document)
        self.connection.request(
            method, path, body=body, headers={"Content-Type": "application/json"}
        )
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def renew(self, timeout_s: float = 20.0) -> None:
        """Hang up, and take another connection for the next request."""
        self.connection.close()
        self.connection = self.connect(timeout_s)


@pytest.fixture
def client(api_proxy: ApiProxy, tmp_path: Path) -> Iterator[Client]:
    made = Client(api_proxy.kubeconfig("one", "dora", [MASTERS]), tmp_path)
    yield made
    made.connection.close()


@pytest.fixture
def other(api_proxy: ApiProxy, tmp_path: Path) -> Iterator[Client]:
    made = Client(api_proxy.kubeconfig("two", "dora", [MASTERS]), tmp_path)
    yield made
    made.connection.close()


def _maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _exists(plane: Cluster, namespace: str, name: str) -> bool:
    try:
        plane.kubectl("get", "configmap", name, "--namespace", namespace)
    except KubectlFailed:
        return False
    return True


def _apart(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run in a thread; what it answered, or how it failed, is in the list once it has ended."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(work())
        except (OSError, http.client.HTTPException) as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, result


def _ended(thread: threading.Thread) -> None:
    thread.join(20)
    assert not thread.is_alive()


def test_without_a_rule_nothing_is_changed(
    control_plane: Cluster, api_proxy: ApiProxy, client: Client, namespace: str
) -> None:
    status, body = client.ask("POST", _maps(namespace), _map("one"))
    assert status == 201 and json.loads(body)["metadata"]["name"] == "one"
    assert client.ask("POST", _maps(namespace), _map("one"))[0] == 409
    assert client.ask("DELETE", f"{_maps(namespace)}/one")[0] == 200
    assert client.ask("GET", f"{_maps(namespace)}/one")[0] == 404
    seen = api_proxy.seen(path=_maps(namespace), client="one")
    assert [each.method for each in seen] == ["POST", "POST", "DELETE", "GET"]
    assert len({each.connection for each in seen}) == 1
    assert json.loads(seen[0].body) == _map("one")
    told = run_kubectl(
        api_proxy.kubeconfig("three", "carol", ["g"]), "auth", "whoami", "-o", "json"
    )
    assert json.loads(told)["status"]["userInfo"]["username"] == "carol"


def test_a_watch_comes_event_by_event(client: Client, other: Client, namespace: str) -> None:
    client.connection.request("GET", f"{_maps(namespace)}?watch=1&timeoutSeconds=30")
    stream = client.connection.getresponse()
    for name in ("first", "second"):
        assert other.ask("POST", _maps(namespace), _map(name))[0] == 201
        while json.loads(stream.readline())["object"]["metadata"]["name"] != name:
            pass


def test_a_write_that_lands_late(
    control_plane: Cluster, api_proxy: ApiProxy, client: Client, namespace: str
) -> None:
    rule = api_proxy.rule(Hang(), method="POST", client="one")
    thread, result = _apart(lambda: client.ask("POST", _maps(namespace), _map("late")))
    rule.wait_hit()
    assert not _exists(control_plane, namespace, "late")
    rule.release()
    _ended(thread)
    assert result[0][0] == 201
    assert _exists(control_plane, namespace, "late")
    assert client.ask("POST", _maps(namespace), _map("next"))[0] == 201


def test_an_answer_that_hangs(
    control_plane: Cluster, api_proxy: ApiProxy, client: Client, namespace: str
) -> None:
    rule = api_proxy.rule(Hang(done=True), method="POST", times=1)
    client.renew(timeout_s=_SHORT_S)
    with pytest.raises(TimeoutError):
        client.ask("POST", _maps(namespace), _map("done"))
    rule.wait_done()
    assert rule.done == [201]
    assert _exists(control_plane, namespace, "done")
    assert len(api_proxy.seen(method="POST")) == 1


def test_a_lost_answer_of_a_write_that_was_done(
    control_plane: Cluster, api_proxy: ApiProxy, client: Client, namespace: str
) -> None:
    rule = api_proxy.rule(LoseAnswer(), method="POST", times=1)
    with pytest.raises(ConnectionError):
        client.ask("POST", _maps(namespace), _map("lost"))
    assert rule.done == [201]
    assert _exists(control_plane, namespace, "lost")
    client.renew()
    assert client.ask("POST", _maps(namespace), _map("lost"))[0] == 409


def test_a_request_that_never_arrives(
    control_plane: Cluster, api_proxy: ApiProxy, client: Client, namespace: str
) -> None:
    rule = api_proxy.rule(Refuse(), method="POST")
    with pytest.raises(ConnectionError):
        client.ask("POST", _maps(namespace), _map("never"))
    assert (len(rule.hits), rule.done) == (1, [])
    assert not _exists(control_plane, namespace, "never")


@pytest.mark.parametrize("clean", [False, True], ids=["broken off", "as if whole"])
def test_an_answer_is_cut(api_proxy: ApiProxy, client: Client, clean: bool) -> None:
    whole = client.ask("GET", "/version")[1]
    api_proxy.rule(Cut(40, clean=clean), path="^/version$")
    if clean:
        assert client.ask("GET", "/version") == (200, whole[:40])
    else:
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            client.ask("GET", "/version")


def test_an_answer_drips(api_proxy: ApiProxy, client: Client) -> None:
    whole = client.ask("GET", "/version")[1]
    api_proxy.rule(Drip(size=64, every_s=0.05), path="^/version$")
    began = time.monotonic()
    assert client.ask("GET", "/version") == (200, whole)
    assert time.monotonic() - began >= 0.05 * (len(whole) // 64)


def test_an_answer_of_the_tests_own(api_proxy: ApiProxy, client: Client, namespace: str) -> None:
    logs = f"/api/v1/namespaces/{namespace}/pods/p/log"
    assert client.ask("GET", f"{logs}?container=c")[0] == 404
    rule = api_proxy.rule(LOG_GONE, path="/log(\\?|$)")
    status, body = client.ask("GET", f"{logs}?container=c")
    assert status == 200
    assert body.startswith(b"unable to retrieve container logs")
    assert rule.done == []
    done = api_proxy.rule(Reply(500, b"{}", done=True), method="POST")
    assert client.ask("POST", _maps(namespace), _map("done")) == (500, b"{}")
    assert done.done == [201]


def test_one_client_is_cut_off_and_the_other_is_not(
    control_plane: Cluster, api_proxy: ApiProxy, client: Client, other: Client, namespace: str
) -> None:
    watching = client.connect()
    # Where controllers run, they put a ConfigMap of their own into every namespace.
    only = "fieldSelector=metadata.name%3Dtheirs"
    watching.request("GET", f"{_maps(namespace)}?watch=1&timeoutSeconds=60&{only}")
    stream = watching.getresponse()
    assert client.ask("GET", "/version")[0] == 200
    api_proxy.partition("one")
    writer, written = _apart(lambda: client.ask("POST", _maps(namespace), _map("mine")))
    reader, read = _apart(stream.readline)
    until(lambda: api_proxy.seen(client="one", method="POST"), "the write to be sent")
    assert other.ask("POST", _maps(namespace), _map("theirs"))[0] == 201
    fresh = client.connect(timeout_s=_SHORT_S)
    with pytest.raises(TimeoutError):
        fresh.request("GET", "/version")
        fresh.getresponse()
    fresh.close()
    assert (written, read) == ([], [])
    api_proxy.heal("one")
    _ended(writer)
    _ended(reader)
    assert isinstance(written[0], OSError | http.client.HTTPException)
    assert read[0] == b"" or isinstance(read[0], OSError | http.client.HTTPException)
    watching.close()
    client.renew()
    assert client.ask("GET", f"{_maps(namespace)}/theirs")[0] == 200
    assert client.ask("GET", f"{_maps(namespace)}/mine")[0] == 404


def test_connections_are_reset_on_request(
    api_proxy: ApiProxy, client: Client, other: Client, namespace: str
) -> None:
    client.connection.request("GET", f"{_maps(namespace)}?watch=1&timeoutSeconds=60")
    stream = client.connection.getresponse()
    reader, read = _apart(stream.read)
    assert other.ask("GET", "/version")[0] == 200
    api_proxy.reset("one")
    _ended(reader)
    assert isinstance(read[0], OSError | http.client.HTTPException)
    assert other.ask("GET", "/version")[0] == 200
    assert len({seen.connection for seen in api_proxy.seen(client="two")}) == 1


def test_rules_may_be_of_one_client_or_for_a_number_of_requests(
    api_proxy: ApiProxy, client: Client, other: Client
) -> None:
    api_proxy.rule(Reply(503), client="one", times=2)
    codes = [client.ask("GET", "/version")[0] for _ in range(3)]
    assert codes == [503, 503, 200]
    assert other.ask("GET", "/version")[0] == 200


def test_a_stranger_is_not_let_in(
    api_proxy: ApiProxy, control_plane: Cluster, tmp_path: Path
) -> None:
    stranger = Client(
        control_plane.kubeconfig("eve", [MASTERS], url=api_proxy.url, ca=api_proxy.ca), tmp_path
    )
    with pytest.raises((ssl.SSLError, ConnectionError)):
        stranger.ask("GET", "/version")
    stranger.connection.close()
    assert api_proxy.seen() == []


def test_pods_are_told_apart_by_address_and_keep_their_token(
    control_plane: Cluster, api_proxy: ApiProxy, namespace: str, tmp_path: Path
) -> None:
    where = ("--namespace", namespace)
    control_plane.kubectl("create", "serviceaccount", "walker", *where)
    token = control_plane.kubectl("create", "token", "walker", *where).strip()
    authority = Authority.create(tmp_path)
    port = api_proxy.listen("127.0.0.2", authority.server("pods", ["127.0.0.2"]))

    def ask(source: str, authorization: str) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        connection = http.client.HTTPSConnection(
            "127.0.0.2", port, context=context, timeout=_SHORT_S * 4,
            source_address=(source, 0),
        )  # fmt: skip
        headers = {"Content-Type": "application/json", "Authorization": authorization}
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        with contextlib.closing(connection):
            connection.request("POST", path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    status, told = ask("127.0.0.4", f"Bearer {token}")
    user = json.loads(told)["status"]["userInfo"]["username"]
    assert (status, user) == (201, f"system:serviceaccount:{namespace}:walker")
    assert ask("127.0.0.4", "Bearer none")[0] == 401, "nobody is somebody by the way alone"
    assert {seen.client for seen in api_proxy.seen()} == {"127.0.0.4"}
    api_proxy.rule(Reply(503), client="127.0.0.4")
    api_proxy.partition("127.0.0.5")
    assert ask("127.0.0.4", f"Bearer {token}")[0] == 503
    with pytest.raises(TimeoutError):
        ask("127.0.0.5", f"Bearer {token}")
    api_proxy.forget()
    assert api_proxy.seen() == []
    assert ask("127.0.0.4", f"Bearer {token}")[0] == 201
    assert ask("127.0.0.5", f"Bearer {token}")[0] == 201
