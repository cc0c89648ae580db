"""The webhook's server: a certificate renewed under it, bounds, a denial for whatever is wrong."""

from __future__ import annotations

import datetime
import http.client
import json
import select
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube import pod
from ptahk.engine.admission import review
from ptahk.engine.ports import Document, Key, NotFound, Unavailable
from ptahk.serve import webhook
from ptahk.serve.webhook import PATH, Guard, Webhook
from tests.kit.gate import Issued
from tests.kit.memory import MemoryClock
from tests.kit.reviews import recorded, review_of
from tests.kit.ward import Counted

FOUND = recorded()
JSON = {"Content-Type": "application/json"}


class Stored:
    """What was recorded, as an Objects port reads it."""

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def get(self, key: Key) -> Document:
        if self.fault is not None:
            raise self.fault
        for document in (FOUND.job, FOUND.resource):
            metadata = document["metadata"]
            if key == Key(document["kind"], metadata["namespace"], metadata["name"]):
                return document
        raise NotFound(key.name)


class Then(MemoryClock):
    """The time of the recording."""

    def now(self) -> datetime.datetime:
        return FOUND.now


class Bench:
    """A webhook over what was recorded, and one client."""

    def __init__(self, folder: Path) -> None:
        self.stored, self.told = Stored(), Counted()
        self.certificates = Issued(folder)
        guard = Guard(self.stored, pod.differs, Then())  # type: ignore[arg-type]
        self.webhook = Webhook(("127.0.0.1", 0), self.certificates, guard, self.told)
        self.webhook.start()

    def connection(self) -> http.client.HTTPSConnection:
        trusted = ssl.create_default_context(cafile=str(self.certificates.authority.certificate))
        return http.client.HTTPSConnection(
            "127.0.0.1", self.webhook.port, timeout=20, context=trusted
        )

    def ask(
        self, body: bytes, method: str = "POST", path: str = PATH, headers: Any = JSON
    ) -> tuple[int, bytes]:
        connection = self.connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def response(self, body: bytes) -> dict[str, Any]:
        status, text = self.ask(body)
        assert status == 200, text
        found: dict[str, Any] = json.loads(text)["response"]
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "pki")
    yield made
    made.webhook.stop()


def test_a_review_is_answered_and_counted(bench: Bench) -> None:
    assert bench.response(review_of(FOUND.pod))["allowed"] is True
    changed = FOUND.pod | {"spec": FOUND.pod["spec"] | {"hostPID": True}}
    denied = bench.response(review_of(changed))
    assert denied["allowed"] is False and denied["status"]["code"] == 403
    assert "spec.hostPID was added" in denied["status"]["message"]
    assert bench.told.verdicts == {("Pod", "Allowed"): 1, ("Pod", "Changed"): 1}


def test_what_cannot_be_read_or_judged_is_denied(bench: Bench) -> None:
    for fault in (Unavailable("no answer"), RuntimeError("a fault of our own")):
        bench.stored.fault = fault
        denied = bench.response(review_of(FOUND.pod))
        assert denied["allowed"] is False
        assert denied["status"]["message"].startswith("Unreadable")


def test_what_is_no_review_gets_no_review(bench: Bench) -> None:
    body = review_of(FOUND.pod)
    assert bench.ask(body, path="/")[0] == 404
    assert bench.ask(b"", method="GET")[0] == 405
    assert bench.ask(body, headers={"Content-Type": "text/plain"})[0] == 415
    assert bench.ask(b"{}")[0] == 400
    long = JSON | {"Content-Length": str(review.BODY_BYTES_MAX + 1)}
    assert bench.ask(b"", headers=long)[0] == 413, "before a byte of it is read"
    assert bench.response(body)["allowed"] is True


def test_a_renewed_certificate_is_shown_to_the_next_connection(bench: Bench) -> None:
    body = review_of(FOUND.pod)
    kept = bench.connection()
    kept.request("POST", PATH, body, JSON)
    assert kept.getresponse().read()
    assert isinstance(kept.sock, ssl.SSLSocket)
    before = kept.sock.getpeercert(binary_form=True)
    bench.certificates.renew()
    fresh = bench.connection()
    fresh.connect()
    assert isinstance(fresh.sock, ssl.SSLSocket)
    assert fresh.sock.getpeercert(binary_form=True) != before
    for connection in (kept, fresh):  # and the one that was open goes on
        connection.request("POST", PATH, body, JSON)
        assert connection.getresponse().status == 200
        connection.close()


def test_who_says_nothing_is_hung_up_on_within_a_request_and_kept_between_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that uses a kept connection at its very end loses the review (500)."""
    monkeypatch.setattr(webhook, "IDLE_S", 0.2)
    bench, body = Bench(tmp_path / "pki"), review_of(FOUND.pod)
    kept, silent = bench.connection(), bench.connection()
    try:
        kept.request("POST", PATH, body, JSON)
        assert kept.getresponse().read()
        silent.putrequest("POST", PATH)
        silent.putheader("Content-Length", "9")
        silent.endheaders()
        assert silent.sock is not None and kept.sock is not None
        assert select.select([silent.sock], [], [], 20)[0], "its end"
        assert select.select([kept.sock], [], [], 3)[0] == [], "no end in ten times that"
        kept.request("POST", PATH, body, JSON)
        assert kept.getresponse().status == 200
    finally:
        kept.close()
        silent.close()
        bench.webhook.stop()


def test_a_certificate_that_ended_and_a_server_that_ended_are_not_ready(bench: Bench) -> None:
    assert bench.webhook.unready() == []
    bench.certificates.renew(FOUND.now - datetime.datetime.now(datetime.UTC))
    assert "ended" in bench.webhook.unready()[0]
    bench.certificates.renew()
    assert bench.webhook.unready() == []
    bench.webhook.stop()
    assert "does not answer" in bench.webhook.unready()[0]
