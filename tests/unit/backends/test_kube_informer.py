"""The informer against a server that forgets, ends, hangs, throttles and sends rubbish."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube import cache
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.informer import Informer, Timing
from ptahk.backends.kube.kinds import KINDS
from ptahk.engine.ports import Document, Key
from tests.kit.loopback import Reply, Request, loopback
from tests.kit.waiting import until

FAST = Timing(watch_s=30.0, idle_s=30.0, relist_s=600.0, backoff_s=0.01, backoff_max_s=0.05)
SPEC = {
    "target": {"engine": "postgresql", "coordinationKey": "k"},
    "desired": {"inline": "CREATE TABLE a (b int);"},
}


def item(name: str, version: str, uid: str = "", **more: Any) -> Document:
    metadata = {
        "namespace": "n", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": version,
    }  # fmt: skip
    return {
        "apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema", "metadata": metadata,
        "spec": SPEC, **more,
    }  # fmt: skip


def key(name: str) -> Key:
    return Key("PtahSchema", "n", name)


Feed = Callable[[Reply, int], None]


class World:
    """A server of one kind: what a list shows, and what each watch does."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.version = "100"
        self.lists = 0
        self.watches: list[dict[str, str]] = []
        self.feed: Feed = lambda reply, number: reply.hang()
        self.fail_lists = 0
        self.hang_lists = False
        self.changes: list[Key] = []
        self.events: list[tuple[str, str]] = []

    def handler(self, request: Request, reply: Reply) -> None:
        if request.query.get("watch") == "true":
            self.watches.append(request.query)
            self.feed(reply, len(self.watches))
            return
        self.lists += 1
        if self.hang_lists:
            reply.hang()
            return
        if self.fail_lists:
            self.fail_lists -= 1
            reply.status(503, "ServiceUnavailable")
            return
        reply.json(200, {"metadata": {"resourceVersion": self.version}, "items": list(self.items)})

    def observe(self, old: Document | None, new: Document | None) -> None:
        what = "added" if old is None else "deleted" if new is None else "changed"
        self.events.append((what, ((new or old) or {})["metadata"]["uid"]))


Start = Callable[..., Informer]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(timing: Timing = FAST, **options: Any) -> Informer:
            server = stack.enter_context(loopback(world.handler))
            made = Client.load(server.kubeconfig(tmp_path), None)
            stack.callback(made.close)
            informer = Informer(
                made, "PtahSchema", on_change=world.changes.append, timing=timing, **options
            )
            informer.subscribe(world.observe)
            informer.start()
            stack.callback(informer.stop)
            return informer

        yield begin


def told(*events: tuple[str, Any]) -> Feed:
    """The first watch tells these and hangs; later ones hang."""

    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        if number == 1:
            for type, document in events:
                reply.event(type, document)
        reply.hang()

    return feed


def bookmark(version: str) -> tuple[str, Document]:
    return "BOOKMARK", {"kind": "PtahSchema", "metadata": {"resourceVersion": version}}


def test_a_list_then_what_happens(world: World, start: Start) -> None:
    world.items = [item("b", "2"), item("a", "1")]
    world.feed = told(
        ("ADDED", item("c", "101")), ("MODIFIED", item("a", "102", status=None)),
        ("DELETED", item("b", "103")),
    )  # fmt: skip
    informer = start(namespace="n", labels={"x": "y"})
    until(lambda: len(world.changes) == 5, "five changes")
    assert informer.synced.is_set()
    assert world.changes == [key("b"), key("a"), key("c"), key("a"), key("b")]
    assert [d["metadata"]["name"] for d in informer.list()] == ["a", "c"]
    found = informer.get(key("a"))
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "102"
    assert informer.get(key("b")) is None
    (query,) = world.watches
    assert query["resourceVersion"] == "100"
    assert query["allowWatchBookmarks"] == "true"
    assert query["labelSelector"] == "x=y"
    assert 20 <= int(query["timeoutSeconds"]) <= 40


def test_a_watch_that_ends_goes_on_from_the_last_bookmark(world: World, start: Start) -> None:
    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        if number == 1:
            reply.event("ADDED", item("a", "101"))
            reply.event(*bookmark("150"))
            reply.chunk(b"")
        else:
            reply.hang()

    world.feed = feed
    start()
    until(lambda: len(world.watches) == 2, "the next watch")
    assert [query["resourceVersion"] for query in world.watches] == ["100", "150"]
    assert world.lists == 1


def test_what_keeps_it_from_the_first_list_is_said_once(
    world: World, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else tells why a manager does not start: a Role, or a CRD, that is missing."""
    world.fail_lists = 4
    informer = start()
    until(informer.synced.is_set, "the fifth list")
    said = [item for item in caplog.records if item.levelname == "WARNING"]
    assert len(said) == 1 and "watch of PtahSchema" in said[0].getMessage()


@pytest.mark.parametrize("form", ["status", "event"])
def test_what_the_server_forgot_is_listed_again(world: World, start: Start, form: str) -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}

    def feed(reply: Reply, number: int) -> None:
        if number > 1:
            reply.hang()
            return
        world.items, world.version = [item("b", "200")], "200"
        if form == "status":
            reply.json(410, gone)
        else:
            reply.chunked()
            reply.event("ERROR", gone)
            reply.hang()

    world.items = [item("a", "1"), item("b", "2")]
    world.feed = feed
    informer = start()
    until(lambda: len(world.watches) == 2, "the next watch")
    assert [query["resourceVersion"] for query in world.watches] == ["100", "200"]
    assert [d["metadata"]["name"] for d in informer.list()] == ["b"]
    assert world.events[2:] == [("deleted", "uid-a"), ("changed", "uid-b")]


@pytest.mark.parametrize("trouble", ["410", "ends", "rubbish", "500", "throttled"])
def test_no_trouble_makes_a_hot_loop(world: World, start: Start, trouble: str) -> None:
    def feed(reply: Reply, number: int) -> None:
        if trouble == "410":
            reply.status(410, "Expired")
        elif trouble == "500":
            reply.status(500, "InternalError")
        elif trouble == "throttled":
            reply.body(429, b"", Retry_After="1")
        else:
            reply.chunked()
            reply.chunk(b"rubbish\n" if trouble == "rubbish" else b"")

    world.feed = feed
    informer = start(Timing(backoff_s=0.05, backoff_max_s=5.0))
    began = time.monotonic()
    until(lambda: len(world.watches) >= 5 or time.monotonic() - began > 2.5, "five watches")
    lasted = time.monotonic() - began
    # 0.05, 0.1, 0.2, 0.4 s between five watches, each at least three quarters of that.
    assert lasted > 0.5
    assert world.lists + len(world.watches) <= 12
    assert informer.last_fault
    assert informer.synced.is_set()


def test_a_server_that_is_down_at_first(world: World, start: Start) -> None:
    world.fail_lists = 3
    world.items = [item("a", "1")]
    informer = start()
    assert informer.age_s() == float("inf") or informer.synced.is_set()
    assert informer.synced.wait(20.0)
    assert world.lists == 4
    assert informer.age_s() < 20.0


def test_lost_events_are_found_by_the_next_list(world: World, start: Start) -> None:
    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        reply.wait(float(world.watches[-1]["timeoutSeconds"]))
        reply.chunk(b"")

    world.items = [item("a", "1"), item("b", "1"), item("c", "1")]
    world.feed = feed
    start(Timing(watch_s=0.3, relist_s=0.3, backoff_s=0.01))
    until(lambda: world.lists == 1 and len(world.watches) == 1, "the first watch")
    world.items = [item("a", "1"), item("b", "2"), item("d", "3")]
    until(lambda: world.lists >= 2 and len(world.events) >= 6, "what was lost")
    assert sorted(world.events[3:6]) == [
        ("added", "uid-d"), ("changed", "uid-b"), ("deleted", "uid-c"),
    ]  # fmt: skip
    count = len(world.changes)
    until(lambda: world.lists >= 4, "lists that show nothing new")
    assert len(world.changes) == count


@pytest.mark.parametrize("type", ["ADDED", "MODIFIED"])
def test_a_name_given_again_is_another_object(world: World, start: Start, type: str) -> None:
    world.items = [item("a", "1", "first")]
    world.feed = told((type, item("a", "101", "second")), ("DELETED", item("a", "1", "first")))
    informer = start()
    until(lambda: len(world.changes) == 3, "three changes")
    assert world.events == [("added", "first"), ("deleted", "first"), ("added", "second")]
    found = informer.get(key("a"))
    assert found is not None
    assert found["metadata"]["uid"] == "second"


def test_a_store_that_was_put_back_is_shown_as_it_is(world: World, start: Start) -> None:
    """The same version again, with another content; and a watch from a version to come."""
    world.items = [item("a", "90")]

    def feed(reply: Reply, number: int) -> None:
        if number == 1:
            world.items, world.version = [item("a", "90", status={"phase": "Failed"})], "95"
            reply.cut()
        else:
            reply.hang()

    world.feed = feed
    informer = start()
    until(lambda: len(world.watches) == 2, "the next watch")
    assert [query["resourceVersion"] for query in world.watches] == ["100", "95"]
    assert informer.list() == (item("a", "90", status={"phase": "Failed"}),)
    assert world.changes == [key("a"), key("a")]


def test_an_event_told_twice_is_one_change(world: World, start: Start) -> None:
    world.items = [item("a", "1")]
    world.feed = told(
        ("ADDED", item("a", "1")), ("MODIFIED", item("a", "5")), ("MODIFIED", item("a", "5")),
        ("DELETED", item("z", "6")), ("MODIFIED", item("a", "7")),
    )  # fmt: skip
    start()
    until(lambda: len(world.changes) == 3, "three changes")
    assert world.events == [("added", "uid-a"), ("changed", "uid-a"), ("changed", "uid-a")]


POISON: list[tuple[Any, Key, str]] = [
    ({}, Key("PtahSchema", "", "?"), "metadata"),
    ({"metadata": {"namespace": "n", "name": "x"}}, key("x"), "uid"),
    ({"metadata": {"namespace": "n", "name": "x", "uid": 7}}, key("x"), "uid"),
    (item("x", "1", status={"protocolVersion": 99}), key("x"), "protocolVersion"),
    (item("x", "1", status=[1]), key("x"), ""),
    (item("x", "1") | {"spec": {"target": 3}}, key("x"), "target"),
    (item("x", "1") | {"spec": None}, key("x"), ""),
]


@pytest.mark.parametrize(("document", "where", "reason"), POISON)
def test_one_poison_object_stops_no_other(
    world: World, start: Start, document: Any, where: Key, reason: str
) -> None:
    world.items = [document, item("a", "1")]
    world.feed = told(("MODIFIED", document), ("ADDED", item("b", "102")))
    informer = start()
    until(lambda: key("b") in world.changes, "the object after it")
    assert {key("a"), key("b")} <= set(world.changes)
    ((found, why),) = informer.poison()
    assert found == where
    assert reason in why
    assert world.lists == 1, "and it costs no second list"


def test_a_poison_object_that_is_mended_or_gone_is_none(world: World, start: Start) -> None:
    bad: Document = {"spec": {}}
    world.items = [item("x", "1") | bad, item("y", "1") | bad]
    world.feed = told(("MODIFIED", item("x", "2")), ("DELETED", item("y", "3") | bad))
    informer = start()
    until(lambda: len(world.changes) == 4, "four changes")
    assert informer.poison() == ()


def test_every_kind_of_the_model_is_checked() -> None:
    head = {"namespace": "n", "name": "x", "uid": "u", "resourceVersion": "1"}
    for kind in ("PtahSchema", "PtahMigration", "PtahPlan", "PtahApproval"):
        held = cache.Cache(KINDS[kind], lambda key: None)
        held.apply("ADDED", {"metadata": dict(head), "spec": {"odd": 1}})
        assert [key.kind for key, _ in held.poison()] == [kind]
    held = cache.Cache(KINDS["Lease"], lambda key: None)
    held.apply("ADDED", {"metadata": dict(head), "spec": {"leaseDurationSeconds": "x"}})
    assert len(held.poison()) == 1
    held = cache.Cache(KINDS["ConfigMap"], lambda key: None)
    held.apply("ADDED", {"metadata": dict(head)})
    assert held.poison() == ()


def test_what_is_poison_to_the_model_is_shown_all_the_same(world: World, start: Start) -> None:
    """The engine has to tell a person what is wrong with it."""
    world.items = [item("x", "1") | {"spec": {}}]
    informer = start()
    assert informer.synced.wait(20.0)
    assert informer.get(key("x")) is not None
    assert world.changes == [key("x")]


def test_a_reader_that_fails_on_one_object_is_isolated(world: World, start: Start) -> None:
    def check(document: Document) -> str | None:
        if document["metadata"]["name"] == "x":
            raise RecursionError("too deep")
        return cache.model_fault(document)

    world.items = [item("x", "1"), item("a", "1")]
    informer = start(check=check)
    assert informer.synced.wait(20.0)
    assert informer.poison() == ((key("x"), "too deep"),)
    assert world.changes == [key("x"), key("a")]


def test_an_unreadable_event_is_passed_by_a_list(world: World, start: Start) -> None:
    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        if number == 1:
            world.version = "200"
            reply.chunk(b'{"type":"ADDED","obj')
            reply.chunk(b"\n")
        reply.hang()

    world.feed = feed
    start()
    until(lambda: len(world.watches) == 2, "the next watch")
    assert (world.lists, world.watches[1]["resourceVersion"]) == (2, "200")


def test_a_failing_callback_stops_nothing(
    world: World, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    informer = start()
    assert informer.synced.wait(20.0)
    made: list[Key] = []

    def fail(key: Key) -> None:
        made.append(key)
        raise RuntimeError("told")

    other = cache.Cache(KINDS["PtahSchema"], fail)
    other.replace([item("a", "1"), item("b", "1")], other.begin_list())
    assert made == [key("a"), key("b")]
    assert caplog.text.count("told") >= 2


def test_freshness_is_proved_by_events_and_bookmarks(world: World, start: Start) -> None:
    go_on = threading.Event()

    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        go_on.wait(20.0)
        reply.event(*bookmark("150"))
        reply.hang()

    world.feed = feed
    informer = start()
    until(lambda: len(world.watches) == 1, "the watch")
    until(lambda: informer.age_s() > 0.2, "time to pass")
    go_on.set()
    until(lambda: informer.age_s() < 0.2, "the bookmark")
    assert world.changes == []


def test_a_half_open_watch_is_given_up(world: World, start: Start) -> None:
    world.feed = lambda reply, number: (reply.chunked(), reply.hang())[1]
    informer = start(Timing(idle_s=0.2, backoff_s=0.01))
    until(lambda: len(world.watches) >= 3, "watches anew")
    assert world.lists >= 3, "who answers next may be another server"
    assert informer.last_fault


@pytest.mark.parametrize("where", ["head", "body", "list", "backoff"])
def test_it_stops_at_once_whatever_it_waits_for(world: World, start: Start, where: str) -> None:
    if where == "list":
        world.hang_lists = True
    elif where == "backoff":
        world.feed = lambda reply, number: reply.status(500, "InternalError")
    elif where == "body":
        world.feed = lambda reply, number: (reply.chunked(), reply.hang())[1]
    slow = Timing(watch_s=300.0, idle_s=300.0, backoff_s=60.0, backoff_max_s=60.0)
    informer = start(slow)
    until(lambda: world.lists + len(world.watches) == (1 if where == "list" else 2), "the wait")
    if where == "backoff":
        until(lambda: informer.last_fault, "the failure")
    began = time.monotonic()
    informer.stop()
    assert time.monotonic() - began < 1.0
    assert not informer.running
    informer.stop()


def test_a_write_is_seen_when_its_version_was_told(world: World, start: Start) -> None:
    go_on = threading.Event()

    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        go_on.wait(20.0)
        reply.event("MODIFIED", item("a", "101"))
        reply.event("MODIFIED", item("a", "102"))
        reply.event("DELETED", item("a", "103"))
        reply.hang()

    world.items = [item("a", "1")]
    world.feed = feed
    informer = start()
    assert informer.synced.wait(20.0)
    assert informer.seen(key("a"), "1")
    assert not informer.seen(key("a"), "101")
    assert not informer.seen(key("b"), "1")
    go_on.set()
    until(lambda: len(world.changes) == 4, "four changes")
    for version in ("1", "101", "102", "103"):
        assert informer.seen(key("a"), version), "also when later ones have come, or its end"
    assert not informer.seen(key("a"), "104")


def test_a_write_that_no_event_told_is_seen_by_a_later_list() -> None:
    held = cache.Cache(KINDS["PtahSchema"], lambda key: None)
    number = held.begin_list()
    assert not held.seen(key("a"), "7"), "asked while a list is under way that may be older"
    held.replace([item("a", "9")], number)
    assert not held.seen(key("a"), "7")
    number = held.begin_list()
    assert not held.seen(key("a"), "7")
    held.replace([item("a", "9")], number)
    assert held.seen(key("a"), "7")
    assert not held.seen(key("b"), "8")
    held.replace([], held.begin_list())
    assert held.seen(key("b"), "8"), "made and gone again"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FORGOTTEN_AFTER", 3)
    monkeypatch.setattr(cache, "PENDING_MAX", 3)
    held = cache.Cache(KINDS["PtahSchema"], lambda key: None)
    for number in range(10):
        held.apply("ADDED", item(f"x{number}", "1"))
        held.apply("DELETED", item(f"x{number}", "2"))
        held.seen(key("never"), str(number))
    assert len(held._gone) == len(held._pending) == 3
    assert held._versions == {}
    for number in range(100):
        held.apply("MODIFIED", item("a", str(number)))
    assert len(held._versions[key("a")]) == cache.VERSIONS_KEPT
    assert not held.seen(key("a"), "3") and held.seen(key("a"), "99")


def test_documents_are_kept_without_the_account_of_fields() -> None:
    held = cache.Cache(KINDS["PtahSchema"], lambda key: None)
    written = json.loads(json.dumps(item("a", "1")))
    written["metadata"]["managedFields"] = [{"manager": "x"}]
    del written["kind"]
    held.apply("ADDED", written)
    assert held.get(key("a")) == item("a", "1")
