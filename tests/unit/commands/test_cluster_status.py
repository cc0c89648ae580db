"""``status --watch`` of a cluster: a watch that breaks once ends nothing."""

from dataclasses import replace
from typing import Any, cast

import pytest

from ptahk.backends.system import SystemClock
from ptahk.commands import _cluster_status
from ptahk.commands._wiring import Reader
from ptahk.engine.model.status import Phase, Status, render
from ptahk.engine.ports import Document, Forbidden, PortError, Unavailable
from ptahk.errors import PtahkError
from tests.kit.memory import MemoryClock


def item(version: str, phase: Phase) -> Document:
    return {
        "apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema",
        "metadata": {"namespace": "n", "name": "a", "uid": "u", "resourceVersion": version},
        "spec": {
            "target": {"engine": "postgresql", "coordinationKey": "k"}, "desired": {"inline": ""},
        },
        "status": render(replace(Status("u"), phase=phase)),
    }  # fmt: skip


class Follower:
    """Tells what a test says."""

    def __init__(self) -> None:
        self.closed = False

    def follow(self, kind: str, namespace: str, name: str, tell: Any) -> "Follower":
        self.tell = tell
        return self

    def start(self) -> None:
        self.tell("Listed", (item("1", "Pending"),))

    def close(self) -> None:
        self.closed = True


class Enough(Exception):
    """What is waited for was shown."""


def watch(trouble: PortError) -> Follower:
    """Watch a resource that is shown, in trouble, and then changed."""
    follower, shown = Follower(), []
    reader: Any = type("", (), {"clock": SystemClock(), "follow": follower.follow})()

    def emit(document: Any) -> None:
        shown.append(document)
        if len(shown) == 2:
            raise Enough
        follower.tell("Trouble", trouble)
        follower.tell("Changed", item("2", "InSync"))

    try:
        _cluster_status._watched(cast(Reader, reader), "PtahSchema", "n", "a", 30.0, emit)
    finally:
        assert follower.closed
    return follower


def test_what_passes_ends_nothing() -> None:
    with pytest.raises(Enough):
        watch(Unavailable("the connection was reset"))


def test_what_does_not_pass_ends_it() -> None:
    with pytest.raises(PtahkError) as caught:
        watch(Forbidden("no"))
    assert caught.value.exit_code in (3, 6)


def test_patience_ends_after_a_minute_and_begins_anew_with_each_word() -> None:
    clock = MemoryClock()
    patience = _cluster_status._Patience(clock)
    away = Unavailable("away")
    for what in ("Trouble", "Changed", "Trouble"):
        patience.check(what, away, started=True)
        clock.advance(59)
    patience.check("wake", None, started=True)
    clock.advance(2)
    with pytest.raises(PtahkError) as caught:
        patience.check("Trouble", away, started=True)
    assert caught.value.exit_code == 6


def test_a_cluster_that_never_answered_is_not_waited_for() -> None:
    with pytest.raises(PtahkError):
        _cluster_status._Patience(MemoryClock()).check("Trouble", Unavailable(""), started=False)
