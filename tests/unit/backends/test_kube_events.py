"""Events: bounded, aggregated, off the reconcile path, and never in anybody's way."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ptahk.backends.kube import events
from ptahk.backends.kube.events import Book, KubeRecorder, Told
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import Key, Unavailable
from tests.kit.waiting import until

KEY = Key("PtahSchema", "apps", "db")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def told(reason: str = "WriteClaim", text: str = "Plan 1", key: Key = KEY) -> Told:
    return Told(key, "uid-1", "Normal", reason, text)


def test_a_new_event_names_its_object_by_uid() -> None:
    write = Book("replica-1").write(told(), NOW, 0.0)
    assert write is not None and not write.patch
    body = write.body
    assert body["metadata"]["namespace"] == write.namespace == "apps"
    assert write.name.startswith("db.")
    assert body["involvedObject"] == {
        "apiVersion": "ptahk.dev/v1alpha1", "kind": "PtahSchema", "namespace": "apps",
        "name": "db", "uid": "uid-1",
    }  # fmt: skip
    assert (body["type"], body["reason"], body["message"]) == ("Normal", "WriteClaim", "Plan 1")
    assert body["reportingInstance"] == "replica-1"


def test_a_repeat_is_a_count_and_not_too_often() -> None:
    book = Book("x")
    first = book.write(told(), NOW, 0.0)
    assert first is not None
    assert book.write(told(), NOW, 1.0) is None
    again = book.write(told(), NOW + timedelta(seconds=20), 20.0)
    assert again is not None and again.patch and again.name == first.name
    assert again.body == {"count": 3, "lastTimestamp": "2026-01-01T12:00:20Z"}
    later = book.write(told(), NOW, 20.0 + events.REPEAT_S)
    assert later is not None and not later.patch, "long after, it is another"


def test_what_differs_is_another_event() -> None:
    book = Book("x")
    made = [book.write(told(text=text), NOW, 0.0) for text in ("a", "b", "")]
    assert all(item is not None and not item.patch for item in made)
    assert made[2] is not None and made[2].body["message"] == "WriteClaim", "never empty"


def test_an_object_that_tells_too_much_is_cut_short_alone() -> None:
    book = Book("x")
    kept = [book.write(told(text=str(n)), NOW, 0.0) for n in range(300)]
    assert sum(item is not None for item in kept) == events.BURST_MAX
    other = told(key=Key("PtahSchema", "apps", "other"))
    assert book.write(other, NOW, 0.0) is not None
    assert book.write(told(text="later"), NOW, events.REFILL_S) is not None


def test_memory_is_bounded() -> None:
    book = Book("x")
    for number in range(3 * events.KNOWN_MAX):
        book.write(told(key=Key("PtahSchema", "apps", f"n{number}"), text="t" * 5000), NOW, 0.0)
    assert len(book.known) == len(book.budgets) == events.KNOWN_MAX


def test_names_and_messages_are_within_what_the_api_takes() -> None:
    write = Book("i" * 500).write(told(text="x" * 9000, key=KEY._replace(name="n" * 253)), NOW, 0.0)
    assert write is not None and len(write.name) <= 253
    assert len(write.body["message"]) == events.MESSAGE_MAX
    assert len(write.body["reportingInstance"]) == 128


class FakeClient:
    """Takes requests, or hangs, or fails."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: Exception | None = None

    def request(self, method: str, path: str, **more: Any) -> None:
        self.go_on.wait(30)
        self.sent.append((method, path, more["body"]))
        if self.error is not None:
            raise self.error


def recorder(client: FakeClient) -> KubeRecorder:
    made: Any = client
    return KubeRecorder(made, SystemClock(), "x", uid_of=lambda key: None)


def test_it_sends_in_order_and_ends_with_what_was_queued() -> None:
    client = FakeClient()
    made = recorder(client)
    made.start()
    for reason in ("WriteClaim", "Report", "AcquireLease"):
        made.event(KEY, "Normal", reason, "")
    made.stop(30)
    assert [body["reason"] for _, _, body in client.sent] == ["WriteClaim", "AcquireLease"]
    assert {(m, path) for m, path, _ in client.sent} == {("POST", "/api/v1/namespaces/apps/events")}
    assert made.dropped == 0


def test_a_server_that_hangs_costs_no_caller_any_time() -> None:
    client = FakeClient()
    client.go_on.clear()
    made = recorder(client)
    made.start()
    for number in range(events.QUEUE_MAX + 500):
        made.event(KEY, "Normal", "WriteClaim", str(number))
    assert 490 <= made.dropped <= 500
    client.go_on.set()
    made.stop(30)


@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("a bug")])
def test_a_failure_is_counted_and_the_next_is_sent(error: Exception) -> None:
    client = FakeClient()
    client.error = error
    made = recorder(client)
    made.start()
    made.event(KEY, "Normal", "WriteClaim", "")
    until(lambda: made.dropped, "the first to be dropped")
    client.error = None
    made.event(KEY, "Normal", "AcquireLease", "")
    made.stop(30)
    assert len(client.sent) == 2


def test_an_event_that_was_not_stored_is_told_anew_when_it_repeats() -> None:
    """Counting it on an Event that nobody has would hide it for as long as it goes on."""
    client = FakeClient()
    client.error = Unavailable("away")
    made = recorder(client)
    made.start()
    made.event(KEY, "Warning", "StoreFault", "again")
    until(lambda: made.dropped, "the first to be dropped")
    client.error = None
    made.event(KEY, "Warning", "StoreFault", "again")
    made.stop(30)
    assert [method for method, _, _ in client.sent] == ["POST", "POST"]
