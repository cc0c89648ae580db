"""The Objects port over a server that says what a real one says only on a bad day."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ptahk.api import crd
from ptahk.backends.kube import kinds, reading
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.objects import KubeObjects
from ptahk.engine.ports import (
    Conflict,
    Document,
    Indeterminate,
    Invalid,
    Key,
    NotFound,
    Unavailable,
)
from tests.kit.loopback import Handler, Loopback, Reply, Request, loopback

Serve = Callable[[Handler], tuple[Loopback, KubeObjects]]
KEY = Key("PtahSchema", "n", "one")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(handler: Handler) -> tuple[Loopback, KubeObjects]:
            server = stack.enter_context(loopback(handler))
            made = Client.load(server.kubeconfig(tmp_path), None)
            stack.callback(made.close)
            return server, KubeObjects(made)

        yield start


def stored(name: str = "one", version: str = "7", **more: Any) -> Document:
    metadata = {
        "namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": version,
        "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return {
        "apiVersion": "ptahk.dev/v1alpha1",
        "kind": "PtahSchema",
        "metadata": metadata | more.pop("metadata", {}),
        **more,
    }


def listed(*items: Any, version: str = "9", token: str = "") -> Document:
    return {"metadata": {"resourceVersion": version, "continue": token}, "items": list(items)}


def test_a_list_goes_on_to_its_last_page(serve: Serve) -> None:
    def handler(request: Request, reply: Reply) -> None:
        start = int(request.query.get("continue", "0"))
        token = str(start + 2) if start < 4 else ""
        names = ["d", "a", "c", "b", "e"][start : start + 2]
        reply.json(200, listed(*map(stored, names), token=token))

    server, objects = serve(handler)
    found = objects.list("PtahSchema", "n", {"b": "2", "a": "1"})
    assert [item["metadata"]["name"] for item in found] == ["a", "b", "c", "d", "e"]
    assert [request.query.get("continue") for request in server.requests] == [None, "2", "4"]
    for request in server.requests:
        assert request.query["limit"] == str(reading.PAGE)
        assert request.query["labelSelector"] == "a=1,b=2"
        assert "resourceVersion" not in request.query
        assert request.path == "/apis/ptahk.dev/v1alpha1/namespaces/n/ptahschemas"


def test_a_list_that_expires_begins_again(serve: Serve) -> None:
    expired: list[str] = []

    def handler(request: Request, reply: Reply) -> None:
        if "continue" not in request.query:
            reply.json(200, listed(stored(f"first-{len(expired)}"), token="t"))
        elif len(expired) < 2:
            expired.append("x")
            reply.status(410, "Expired")
        else:
            reply.json(200, listed(stored("last")))

    _, objects = serve(handler)
    found = objects.list("PtahSchema")
    assert [item["metadata"]["name"] for item in found] == ["first-2", "last"]


def test_a_list_that_always_expires_ends(serve: Serve) -> None:
    def handler(request: Request, reply: Reply) -> None:
        if "continue" in request.query:
            reply.status(410, "Expired")
        else:
            reply.json(200, listed(stored(), token="t"))

    server, objects = serve(handler)
    with pytest.raises(Unavailable, match="expired"):
        objects.list("PtahSchema")
    assert len(server.requests) == 2 * reading.RESTARTS_MAX


@pytest.mark.parametrize(
    "answer",
    [
        {"items": []},
        {"metadata": {"resourceVersion": ""}, "items": []},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"resourceVersion": "1"}, "items": {}},
        {"metadata": {"resourceVersion": "1", "continue": "t"}, "items": []},
        listed("text"),
        listed({"metadata": {"name": "x"}}),
        listed({"metadata": None}),
    ],
)
def test_a_strange_list_is_none(serve: Serve, answer: Any) -> None:
    _, objects = serve(lambda request, reply: reply.json(200, answer))
    with pytest.raises(Unavailable):
        objects.list("PtahSchema")


def test_an_empty_list_may_be_null(serve: Serve) -> None:
    _, objects = serve(lambda request, reply: reply.json(200, listed() | {"items": None}))
    assert objects.list("PtahSchema") == ()


def test_what_is_read_has_a_kind_and_no_account_of_fields(serve: Serve) -> None:
    item = stored(metadata={"managedFields": [{"manager": "kubectl"}], "labels": {"a": "b"}})
    del item["apiVersion"], item["kind"]
    answers = {True: item, False: listed(item)}
    _, objects = serve(lambda request, reply: reply.json(200, answers["one" in request.path]))
    assert (
        objects.get(KEY) == objects.list("PtahSchema")[0] == stored(metadata={"labels": {"a": "b"}})
    )


@pytest.mark.parametrize(
    "answer", [{}, {"metadata": {}}, stored("two"), stored(metadata={"uid": 1})]
)
def test_an_answer_that_is_another_object(serve: Serve, answer: Document) -> None:
    _, objects = serve(lambda request, reply: reply.json(200, answer))
    with pytest.raises(Unavailable):
        objects.get(KEY)
    with pytest.raises(Indeterminate):
        objects.create({k: v for k, v in stored().items() if k != "metadata"} | {
            "metadata": {"namespace": "n", "name": "one"}
        })  # fmt: skip
    with pytest.raises(Indeterminate):
        objects.replace(stored())
    with pytest.raises(Indeterminate):
        objects.replace_status(stored())


def test_what_each_write_sends(serve: Serve) -> None:
    server, objects = serve(lambda request, reply: reply.json(200, stored()))
    given = stored(
        spec={"n": 1}, status={"phase": "InSync"},
        metadata={"managedFields": [{}], "annotations": {"a": "b"}, "deletionTimestamp": "x"},
    )  # fmt: skip
    fresh = json.loads(json.dumps(given))
    del fresh["metadata"]["resourceVersion"]
    objects.create(fresh)
    objects.replace(given)
    objects.replace_status(given)
    objects.delete(given)
    create, replace, status, delete = server.requests
    base = "/apis/ptahk.dev/v1alpha1/namespaces/n/ptahschemas"
    assert [(r.method, r.path) for r in server.requests] == [
        ("POST", base),
        ("PUT", f"{base}/one"),
        ("PUT", f"{base}/one/status"),
        ("DELETE", f"{base}/one"),
    ]
    head = {"apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema"}
    bare = {"namespace": "n", "name": "one", "annotations": {"a": "b"}}
    seen = {"uid": "uid-one", "resourceVersion": "7"}
    assert create.document == head | {"metadata": bare, "spec": {"n": 1}}
    assert replace.document == head | {"metadata": bare | seen, "spec": {"n": 1}}
    place = {"namespace": "n", "name": "one"}
    assert status.document == head | {"metadata": place | seen, "status": {"phase": "InSync"}}
    assert delete.document["preconditions"] == seen
    assert delete.document["propagationPolicy"] == "Background"
    assert given == stored(
        spec={"n": 1}, status={"phase": "InSync"},
        metadata={"managedFields": [{}], "annotations": {"a": "b"}, "deletionTimestamp": "x"},
    )  # fmt: skip


@pytest.mark.parametrize("verb", ["replace", "replace_status", "delete"])
@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_no_write_without_what_its_writer_saw(serve: Serve, verb: str, field: str) -> None:
    server, objects = serve(lambda request, reply: reply.json(200, stored()))
    for nothing in ({field: ""}, {field: None}, {field: 7}):
        with pytest.raises(Invalid, match=field):
            getattr(objects, verb)(stored(metadata=nothing))
    assert server.requests == []


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Secret"},
        {"kind": None},
        {"apiVersion": "ptahk.dev/v1"},
        {"metadata": {"name": ".."}},
        {"metadata": {"name": "a/b"}},
        {"metadata": {"namespace": ""}},
        {"metadata": {"namespace": "../../nodes"}},
        {"metadata": {"generateName": "x-"}},
    ],
)
def test_a_wrong_head_reaches_no_server(serve: Serve, change: dict[str, Any]) -> None:
    server, objects = serve(lambda request, reply: reply.json(200, stored()))
    document = stored(metadata={"resourceVersion": ""} | change.pop("metadata", {})) | change
    with pytest.raises(Invalid):
        objects.create(document)
    assert server.requests == []


def test_a_precondition_on_nothing_says_that_it_is_gone(serve: Serve) -> None:
    text = (
        'Operation cannot be fulfilled on leases "one": StorageError: invalid object, Code: 4, '
        "AdditionalErrorMsg: Precondition failed: UID in precondition: uid-one, "
        "UID in object meta: {}"
    )
    told = [""]
    _, objects = serve(lambda request, reply: reply.status(409, "Conflict", text.format(told[0])))
    with pytest.raises(NotFound):
        objects.replace(stored())
    told[0] = "uid-two"
    with pytest.raises(Conflict):
        objects.replace(stored())


def watched(*events: tuple[str, Any]) -> Handler:
    def handler(request: Request, reply: Reply) -> None:
        reply.chunked()
        for type, document in events:
            reply.event(type, document)
        reply.chunk(b"")

    return handler


def test_a_watch_goes_on_from_where_it_ended(serve: Serve) -> None:
    bookmark = {"metadata": {"resourceVersion": "15"}}
    turns = [
        watched(("ADDED", stored(version="11")), ("BOOKMARK", bookmark)),
        watched(("DELETED", stored(version="16"))),
    ]
    server, objects = serve(lambda request, reply: turns.pop(0)(request, reply))
    changes = objects.watch("PtahSchema", None, "10", 30.0)
    told = [next(changes), next(changes)]
    assert [change.type for change in told] == ["Added", "Deleted"]
    queries = [request.query for request in server.requests]
    assert [query["resourceVersion"] for query in queries] == ["10", "15"]
    assert {query["allowWatchBookmarks"] for query in queries} == {"true"}


@pytest.mark.parametrize("answer", ["status", "event"])
def test_a_watch_from_too_long_ago_is_refused(serve: Serve, answer: str) -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    turn = watched(("ERROR", gone))

    def handler(request: Request, reply: Reply) -> None:
        if answer == "status":
            reply.json(410, gone)
        else:
            turn(request, reply)

    _, objects = serve(handler)
    with pytest.raises(Invalid, match="too old"):
        list(objects.watch("PtahSchema", None, "10", 0.0))


@pytest.mark.parametrize(
    "line", [b"{\n", b"[]\n", b"{}\n", b'{"type":"ADDED","object":3}\n', b"\xff\n", b'{"type"']
)
def test_an_unreadable_event_is_no_event(line: bytes) -> None:
    good = b'{"type":"ADDED","object":{}}\n'
    seen = []
    with pytest.raises(Unavailable):
        for event in reading.events([good, line]):
            seen.append(event["type"])
    assert seen == ["ADDED"]


def test_an_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_BYTES_MAX", 10)
    with pytest.raises(Unavailable, match="too long"):
        list(reading.events([b"x" * 6] * 9))


def test_events_in_any_chunks_are_the_same() -> None:
    text = b'{"type":"A","object":{}}\n\n{"type":"B","object":{"x":"\xc3\xa9"}}\n'
    whole = list(reading.events([text]))
    assert [event["type"] for event in whole] == ["A", "B"]
    for size in range(1, len(text)):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        assert list(reading.events(parts)) == whole


def test_the_table_names_what_the_crds_name() -> None:
    for item in crd.RESOURCES:
        kind = kinds.KINDS[item.kind]
        assert (kind.plural, kind.status) == (item.plural, item.status is not None)
        assert kind.api_version == f"{crd.GROUP}/{crd.VERSION}"


def test_paths_of_kinds() -> None:
    table = kinds.KINDS
    assert table["ConfigMap"].path("n", "c") == "/api/v1/namespaces/n/configmaps/c"
    assert table["Lease"].path("n") == "/apis/coordination.k8s.io/v1/namespaces/n/leases"
    assert table["PtahSchema"].path() == "/apis/ptahk.dev/v1alpha1/ptahschemas"
    assert table["PtahSchema"].path("n", "s", "status").endswith("/ptahschemas/s/status")
    assert table["PriorityClass"].path("", "system-node-critical").endswith("/system-node-critical")
    with pytest.raises(Invalid):
        table["Lease"].path(None, "x")
    with pytest.raises(Invalid):
        kinds.kind_of("Secret")
