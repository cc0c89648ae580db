"""A command's follower against a server that ends, stalls and tells rubbish."""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.follow import Follow
from ptahk.engine.ports import Unavailable
from tests.kit.loopback import Reply, Request, loopback
from tests.kit.waiting import until


def item(name: str, version: str) -> dict[str, Any]:
    metadata = {"namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return {"apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema", "metadata": metadata}


class World:
    """A server of one kind, and what was told of it."""

    def __init__(self) -> None:
        self.lists = 0
        self.watches = 0
        self.feed: Callable[[Reply, int], None] = lambda reply, number: reply.hang()
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()

    def handler(self, request: Request, reply: Reply) -> None:
        if request.query.get("watch") == "true":
            self.watches += 1
            self.feed(reply, self.watches)
            return
        self.lists += 1
        reply.json(200, {"metadata": {"resourceVersion": "100"}, "items": [item("a", "1")]})

    def next(self) -> tuple[str, Any]:
        return self.told.get(timeout=30)


Start = Callable[[World], Follow]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(world: World) -> Follow:
            server = stack.enter_context(loopback(world.handler))
            client = Client.load(server.kubeconfig(tmp_path), None)
            stack.callback(client.close)
            follow = Follow(
                client, "PtahSchema", namespace="n", name="a",
                tell=lambda what, told: world.told.put((what, told)),
            )  # fmt: skip
            stack.callback(follow.close)
            follow.start()
            return follow

        yield begin


def test_what_is_stored_comes_first_and_then_each_change(start: Start) -> None:
    world = World()

    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        reply.event("MODIFIED", item("a", "101"))
        reply.event("BOOKMARK", {"metadata": {"resourceVersion": "102"}})
        reply.event("DELETED", item("a", "103"))
        reply.hang()

    world.feed = feed
    start(world)
    assert [world.next()[0] for _ in range(3)] == ["Listed", "Changed", "Gone"]


def test_watches_that_end_at_once_are_no_hot_loop(start: Start) -> None:
    world = World()

    def feed(reply: Reply, number: int) -> None:
        reply.chunked()
        reply.chunk(b"")

    world.feed = feed
    began = time.monotonic()
    start(world)
    until(lambda: world.watches >= 4, "four watches")
    # Pauses of at least 0.1, 0.2 and 0.4 s lie between them.
    assert time.monotonic() - began > 0.6
    assert [what for what, _ in list(world.told.queue)][:2] == ["Listed", "Trouble"]


@pytest.mark.parametrize("document", [{}, {"metadata": None}, {"metadata": {"name": "a"}}])
def test_an_event_that_cannot_be_read_is_told_and_listed_anew(
    start: Start, document: dict[str, Any]
) -> None:
    world = World()

    def feed(reply: Reply, number: int) -> None:
        if number > 1:
            reply.hang()
            return
        reply.chunked()
        reply.event("MODIFIED", document)
        reply.hang()

    world.feed = feed
    start(world)
    assert world.next()[0] == "Listed"
    what, trouble = world.next()
    assert what == "Trouble" and isinstance(trouble, Unavailable)
    assert world.next()[0] == "Listed"
