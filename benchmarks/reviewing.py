"""The admission webhook under load: reviews over TLS, a hundred a second, for a whole Pod.

Server and client are this one process on one core, so the figure has both in it. The live reads
answer at once: what an API server takes for them is its own.
"""

from __future__ import annotations

import http.client
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks._report import Row, median
from ptahk.backends.kube import pod
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import Document, Key
from ptahk.serve.webhook import PATH, Guard, Webhook
from tests.kit.gate import Issued
from tests.kit.reviews import Recorded, recorded, review_of
from tests.kit.ward import Counted

RATE = 100
CLIENTS = 8
BOUND_MS = 50.0


class _Stored:
    def __init__(self, found: Recorded) -> None:
        self._documents = {each["kind"]: each for each in (found.job, found.resource)}

    def get(self, key: Key) -> Document:
        return self._documents[key.kind]


class _Then(SystemClock):
    def __init__(self, then: datetime) -> None:
        self._then = then

    def now(self) -> datetime:
        return self._then


def rows(rounds: int, version: int) -> list[Row]:
    """The figures. ``version`` plays no part."""
    found = recorded()
    with tempfile.TemporaryDirectory() as folder:
        certificates = Issued(Path(folder) / "pki")
        guard = Guard(_Stored(found), pod.differs, _Then(found.now))  # type: ignore[arg-type]
        webhook = Webhook(("127.0.0.1", 0), certificates, guard, Counted())
        trusted = ssl.create_default_context(cafile=str(certificates.authority.certificate))
        with _one_core():
            webhook.start()
            try:
                times = _load(webhook.port, trusted, review_of(found.pod), rounds * RATE * 4)
            finally:
                webhook.stop()
    times.sort()
    note = f"{len(times)} reviews, {RATE} a second"
    return [
        Row("webhook: one review", median(times) * 1e3, "ms", note=note),
        Row("webhook: 99th percentile", times[len(times) * 99 // 100] * 1e3, "ms", BOUND_MS),
    ]


@contextmanager
def _one_core() -> Iterator[None]:
    """This thread, and those that it starts while the block runs, share one core."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _load(port: int, trusted: ssl.SSLContext, body: bytes, count: int) -> list[float]:
    """Seconds of each review, from when it was due: what waits behind another counts too."""
    times: list[float] = []
    began = time.monotonic() + 0.2

    def client(first: int) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=trusted)
        for number in range(first, count, CLIENTS):
            due = began + number / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            connection.request("POST", PATH, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert b'"allowed": true' in answer.read()
            times.append(time.monotonic() - due)
        connection.close()

    threads = [threading.Thread(target=client, args=(first,)) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == count, "every review was answered"
    return times
