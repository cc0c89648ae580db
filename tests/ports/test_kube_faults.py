"""Writes and watches through a proxy that breaks them, in front of a real API server.

Counted at the proxy: one call is one request on the wire. What landed is read without the proxy.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.informer import Informer, Timing
from ptahk.backends.kube.objects import KubeObjects
from ptahk.engine.ports import (
    Document,
    Indeterminate,
    Key,
    NotFound,
    PortError,
    Unavailable,
)
from tests.kit.apifaults import Action, Cut, Drip, Hang, LoseAnswer, Refuse, Reply
from tests.kit.apiproxy import ApiProxy
from tests.kit.controlplane import Cluster
from tests.kit.kubecolumn import MASTERS
from tests.kit.waiting import until

TIMEOUT_S = 1.5
VERBS = ("create", "replace", "delete")
DONE: dict[str, Action] = {
    "lost": LoseAnswer(),
    "kept back": Hang(done=True),
    "cut": Cut(10),
    "cut cleanly": Cut(10, clean=True),
    "dripping": Drip(1, 0.2),
    "another answer": Reply(200, b"<html>welcome</html>", done=True),
    "gateway": Reply(504, b"upstream timed out", done=True),
}
"""Faults after the API server has carried the write out."""


class Pair:
    """The same namespace seen through the proxy, and past it."""

    def __init__(self, cluster: Cluster, proxy: ApiProxy, namespace: str) -> None:
        self.proxy = proxy
        self.namespace = namespace
        self.client = Client.load(proxy.kubeconfig("mine", "ptahk-faults", [MASTERS]), None)
        self.broken = KubeObjects(self.client, timeout_s=TIMEOUT_S)
        self.clear_client = Client.load(cluster.kubeconfig("ptahk-clear", [MASTERS]), None)
        self.clear = KubeObjects(self.clear_client)
        self.key = Key("ConfigMap", namespace, "one")

    def document(self, name: str = "one", **data: str) -> Document:
        metadata = {"namespace": self.namespace, "name": name}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def write(self, verb: str) -> Callable[[], Any]:
        """One write of that verb, ready to go."""
        if verb == "create":
            return lambda: self.broken.create(self.document(n="2"))
        made = self.clear.create(self.document(n="1"))
        if verb == "delete":
            return lambda: self.broken.delete(made)
        return lambda: self.broken.replace({**made, "data": {"n": "2"}})

    def landed(self, verb: str) -> bool:
        """What the API server holds now."""
        try:
            found = self.clear.get(self.key)
        except NotFound:
            return verb == "delete"
        return verb != "delete" and found["data"] == {"n": "2"}

    def requests(self) -> int:
        """Requests about the object that came to the proxy."""
        return len(self.proxy.seen(client="mine", path="configmaps"))


@pytest.fixture
def pair(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Pair]:
    with ApiProxy(control_plane, tmp_path) as proxy:
        made = Pair(control_plane, proxy, namespace)
        yield made
        made.client.close()
        made.clear_client.close()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", DONE)
def test_a_write_that_landed_is_never_told_as_failed(pair: Pair, verb: str, fault: str) -> None:
    write = pair.write(verb)
    rule = pair.proxy.rule(DONE[fault], method="POST|PUT|DELETE", path="configmaps")
    began = time.monotonic()
    with pytest.raises(Indeterminate):
        write()
    assert time.monotonic() - began < TIMEOUT_S + 1.0
    rule.wait_done()
    assert pair.landed(verb)
    assert (pair.requests(), len(rule.done)) == (1, 1)


@pytest.mark.parametrize("verb", VERBS)
def test_a_write_may_land_after_it_was_given_up(pair: Pair, verb: str) -> None:
    write = pair.write(verb)
    rule = pair.proxy.rule(Refuse(), method="POST|PUT|DELETE", path="configmaps")
    with pytest.raises(Indeterminate):
        write()
    assert not pair.landed(verb)
    assert (pair.requests(), rule.done) == (1, [])


@pytest.mark.parametrize("fault", [*DONE, "refused"])
def test_a_read_that_failed_says_nothing(pair: Pair, fault: str) -> None:
    pair.clear.create(pair.document(n="2"))
    pair.proxy.rule(DONE.get(fault, Refuse()), method="GET", path="configmaps")
    for number, read in enumerate(
        (lambda: pair.broken.get(pair.key), lambda: pair.broken.list("ConfigMap", pair.namespace))
    ):
        before = pair.requests()
        with pytest.raises(Unavailable):
            _ = read()
        assert pair.requests() == before + 1, number


def test_a_watch_through_a_partition_shows_what_it_missed(pair: Pair) -> None:
    pair.clear.create(pair.document("early"))
    informer = Informer(
        pair.client, "ConfigMap", on_change=lambda key: None, namespace=pair.namespace,
        timing=Timing(idle_s=1.0, backoff_s=0.05, backoff_max_s=0.5),
    )  # fmt: skip
    informer.start()
    assert informer.synced.wait(30.0)
    pair.proxy.partition("mine")
    early = pair.clear.get(pair.key._replace(name="early"))
    pair.clear.delete(early)
    late = pair.clear.create(pair.document("late"))
    until(lambda: informer.age_s() > 1.5, "the silence")
    assert informer.get(pair.key._replace(name="early")) is not None
    began = time.monotonic()
    pair.proxy.heal("mine")
    until(lambda: informer.get(pair.key._replace(name="late")) == late, "the heal")
    assert informer.get(pair.key._replace(name="early")) is None
    assert time.monotonic() - began < 20.0
    pair.proxy.partition("mine")
    began = time.monotonic()
    informer.stop()
    assert time.monotonic() - began < 1.0
    assert not informer.running


def test_lost_watch_events_are_found_by_a_list(pair: Pair) -> None:
    """A watch whose answer ends cleanly half-way, again and again."""
    pair.proxy.rule(Cut(40, clean=True), method="GET", path="watch=true")
    informer = Informer(
        pair.client, "ConfigMap", on_change=lambda key: None, namespace=pair.namespace,
        timing=Timing(backoff_s=0.05, backoff_max_s=0.5),
    )  # fmt: skip
    informer.start()
    assert informer.synced.wait(30.0)
    for number in range(3):
        made = pair.clear.create(pair.document(f"c{number}"))
        key = pair.key._replace(name=f"c{number}")
        until(lambda key=key, made=made: informer.get(key) == made, "the object")  # type: ignore[misc]
    assert pair.requests() < 60, "and not by asking all the time"
    informer.stop()


def test_port_errors_are_all_that_a_fault_raises(pair: Pair) -> None:
    """Each status that a proxy may make up, for reads and writes."""
    made = pair.clear.create(pair.document(n="1"))
    for status in (199, 204, 301, 308, 400, 402, 404, 408, 409, 421, 499, 500, 502, 503, 520, 599):
        rule = pair.proxy.rule(Reply(status, b"no json"), path="configmaps")
        for call in (
            lambda: pair.broken.get(pair.key),
            lambda: pair.broken.list("ConfigMap", pair.namespace),
            lambda: pair.broken.create(pair.document("two")),
            lambda: pair.broken.replace(made),
            lambda: pair.broken.delete(made),
        ):
            with pytest.raises(PortError) as caught:
                call()
            assert not isinstance(caught.value, NotFound), status
        rule.release()
    assert pair.clear.get(pair.key) == made
