"""The informer and the census index over a real API server."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.backends.kube.census import CensusIndex
from ptahk.backends.kube.informer import Informer, Timing
from ptahk.engine.ports import Conflict, Document, Key
from ptahk.wire.digest import coordination_digest
from tests.kit.controlplane import ControlPlane
from tests.kit.kubecolumn import Column, Group
from tests.kit.waiting import until

REALM = coordination_digest("postgresql", "orders")
SPEC = {
    "target": {
        "engine": "postgresql", "coordinationKey": "orders", "urlFrom": {"name": "u", "key": "k"},
    },
    "desired": {"inline": "CREATE TABLE a (b int);"},
}  # fmt: skip
QUICK = Timing(backoff_s=0.05, backoff_max_s=0.5, idle_s=2.0)


class Follower:
    """An informer of one test's namespace, and what it told."""

    def __init__(self, column: Column, timing: Timing | None = None) -> None:
        self.column = column
        self.namespace = column.namespace("local")
        self.events: list[tuple[str, str]] = []
        self.informer = Informer(
            column.client, "PtahSchema", on_change=lambda key: None, namespace=self.namespace,
            kinds=column.group.kinds, timing=timing,
        )  # fmt: skip
        self.informer.subscribe(self._note)

    def _note(self, old: Document | None, new: Document | None) -> None:
        what = "added" if old is None else "deleted" if new is None else "changed"
        self.events.append((what, ((new or old) or {})["metadata"]["name"]))

    def document(self, name: str, **more: Any) -> Document:
        metadata = {"namespace": self.namespace, "name": name} | more.pop("metadata", {})
        api = self.column.group.api_version
        spec = more.pop("spec", SPEC)
        return {
            "apiVersion": api, "kind": "PtahSchema", "metadata": metadata, "spec": spec, **more,
        }  # fmt: skip

    def key(self, name: str) -> Key:
        return Key("PtahSchema", self.namespace, name)

    def until_seen(self, document: Document) -> None:
        """Wait until the informer shows this write."""
        metadata = document["metadata"]
        key = self.key(metadata["name"])
        until(lambda: self.informer.seen(key, metadata["resourceVersion"]), "the write to be seen")


@pytest.fixture
def follower(column: Column) -> Iterator[Follower]:
    made = Follower(column)
    yield made
    made.informer.stop()


def test_each_write_of_ours_is_seen(follower: Follower) -> None:
    objects, informer = follower.column.objects, follower.informer
    early = objects.create(follower.document("early"))
    informer.start()
    assert informer.synced.wait(30.0)
    assert informer.get(follower.key("early")) == early
    made = objects.create(follower.document("one", metadata={"finalizers": ["ptahk.dev/x"]}))
    follower.until_seen(made)
    assert informer.get(follower.key("one")) == made
    made["status"] = {"phase": "Pending"}
    made = objects.replace_status(made)
    follower.until_seen(made)
    assert informer.get(follower.key("one")) == made
    objects.delete(made)
    marked = objects.get(follower.key("one"))
    follower.until_seen(marked)
    marked["metadata"]["finalizers"] = []
    gone = objects.replace(marked)
    follower.until_seen(gone)
    until(lambda: informer.get(follower.key("one")) is None, "the end of it")
    objects.create(follower.document("one"))
    until(lambda: informer.get(follower.key("one")), "its successor")
    assert follower.events == [
        ("added", "early"), ("added", "one"), ("changed", "one"), ("changed", "one"),
        ("deleted", "one"), ("added", "one"),
    ]  # fmt: skip
    assert informer.age_s() < 30.0


def test_one_poison_object_stops_no_other(follower: Follower) -> None:
    objects, informer = follower.column.objects, follower.informer
    objects.create(follower.document("bad", spec={"target": "?"}))
    informer.start()
    good = objects.create(follower.document("good"))
    follower.until_seen(good)
    assert [key.name for key, _ in informer.poison()] == ["bad"]
    assert {d["metadata"]["name"] for d in informer.list()} == {"bad", "good"}


def test_the_census_follows(follower: Follower) -> None:
    objects, informer = follower.column.objects, follower.informer
    index = CensusIndex(informer)
    assert index.claimants(REALM) is None
    informer.start()
    made = [objects.create(follower.document(name)) for name in ("b", "a")]
    until(lambda: len(index.claimants(REALM) or ()) == 2, "both claimants")
    assert [d["metadata"]["name"] for d in index.claimants(REALM) or ()] == ["a", "b"]
    objects.delete(made[0])
    until(lambda: len(index.claimants(REALM) or ()) == 1, "one claimant")


def test_many_writers_and_one_cache(follower: Follower) -> None:
    """After a storm of contended writes the cache is what a list says."""
    objects, informer = follower.column.objects, follower.informer
    informer.start()
    assert informer.synced.wait(30.0)

    def write(number: int) -> None:
        for turn in range(6):
            name = f"s{(number + turn) % 4}"
            try:
                found = objects.list("PtahSchema", follower.namespace)
                mine = next((d for d in found if d["metadata"]["name"] == name), None)
                if mine is None:
                    objects.create(follower.document(name))
                elif turn % 3:
                    mine["status"] = {"turn": f"{number}/{turn}"}
                    objects.replace_status(mine)
                else:
                    objects.delete(mine)
            except Exception as error:
                assert type(error).__name__ in ("Conflict", "AlreadyExists", "NotFound")

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    last = objects.create(follower.document("last"))
    follower.until_seen(last)
    assert informer.list() == objects.list("PtahSchema", follower.namespace)


@pytest.fixture
def own_column(own_control_plane: ControlPlane) -> Iterator[Column]:
    made = Column(Group(own_control_plane))
    yield made
    made.client.close()


def test_an_api_server_that_is_killed_frozen_and_put_back(
    own_control_plane: ControlPlane, own_column: Column
) -> None:
    follower = Follower(own_column, QUICK)
    objects, informer = own_column.objects, follower.informer
    first = objects.create(follower.document("first"))
    informer.start()
    assert informer.synced.wait(30.0)
    kept = own_control_plane.snapshot("early")
    second = objects.create(follower.document("second"))
    follower.until_seen(second)

    server = own_control_plane.component("apiserver")
    server.kill()
    until(lambda: informer.last_fault, "the loss to be noticed")
    server.start()
    own_control_plane.wait_ready()
    third = objects.create(follower.document("third"))
    follower.until_seen(third)

    server.freeze()
    until(lambda: informer.age_s() > 3.0, "the silence")
    other = Informer(
        own_column.client, "PtahSchema", on_change=lambda key: None, kinds=own_column.group.kinds
    )
    other.start()
    began = time.monotonic()
    other.stop()
    assert time.monotonic() - began < 1.0
    server.thaw()
    until(lambda: informer.age_s() < 2.0, "the thaw")

    own_control_plane.restore(kept)
    until(
        lambda: [d["metadata"]["name"] for d in informer.list()] == ["first"],
        "what the restored store holds",
    )
    assert informer.list() == (first,)
    with pytest.raises(Conflict):
        objects.replace(second | {"metadata": second["metadata"] | {"name": "first"}})
    again = objects.create(follower.document("second"))
    follower.until_seen(again)
    informer.stop()


def test_one_call_is_one_request_on_the_api_servers_own_count(follower: Follower) -> None:
    """The server's own metrics count what reached the kinds of this process."""
    column = follower.column
    objects = column.objects

    def count() -> dict[str, int]:
        text = column.client.request("GET", "/metrics", accept="text/plain").body.decode()
        found: dict[str, int] = {}
        for line in text.splitlines():
            if line.startswith("apiserver_request_total{") and column.group.name in line:
                verb = line.partition('verb="')[2].partition('"')[0]
                found[verb] = found.get(verb, 0) + int(float(line.rpartition(" ")[2]))
        return found

    before = count()
    made = objects.create(follower.document("one"))
    made["status"] = {"phase": "Pending"}
    made = objects.replace_status(made)
    made = objects.replace(made | {"spec": SPEC | {"suspend": True}})
    objects.get(follower.key("one"))
    objects.list("PtahSchema")
    objects.delete(made)
    after = count()
    verbs = ("POST", "PUT", "GET", "LIST", "DELETE")
    assert [after.get(v, 0) - before.get(v, 0) for v in verbs] == [1, 2, 1, 1, 1]
