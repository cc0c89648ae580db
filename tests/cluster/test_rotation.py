"""The webhook's own certificates are renewed, and their CA, while a real API server asks it."""

from __future__ import annotations

import base64
import itertools
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.vault import SECRET, KubeVault
from ptahk.backends.system import SystemClock
from ptahk.serve.certs import Lives, OwnCertificates
from ptahk.serve.webhook import PATH, Webhook
from tests.kit import clusters, relay, servers
from tests.kit.chartbed import REFUSED, asked
from tests.kit.gate import CONFIGURATIONS, HOST
from tests.kit.presence import present
from tests.kit.rawapi import ADMINISTRATORS, RawApi
from tests.kit.serving import COORDINATION
from tests.kit.waiting import until
from tests.kit.ward import Ward, ward

NAME = "localhost"
LIVES = Lives(timedelta(seconds=31.5), timedelta(seconds=13.5), timedelta(seconds=4.5), 0.3)
"""Another certificate every nine seconds; after 21 another CA, which is alone after 30."""
CLIENTS = 4


@pytest.fixture
def place(server_run: servers.Run, tmp_path: Path) -> Iterator[Ward]:
    plane = present(lambda: clusters.own(server_run))
    with ward(plane, tmp_path) as made:
        yield made
    clusters.end(plane)


@pytest.fixture
def port(place: Ward) -> Iterator[int]:
    """Of two replicas, each with certificates that it keeps itself, in turn as by a Service."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    made = place.api.call("POST", f"/api/v1/namespaces/{COORDINATION}/secrets", secret)
    assert made.status == 201, made.message
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0)))
        found: int = listener.getsockname()[1]
        place.configure({"url": f"https://{NAME}:{found}{PATH}"})
        replicas = [_replica(place, stack) for _ in range(2)]
        ports = itertools.cycle(item.port for item in replicas)
        stack.enter_context(
            relay.serving(listener, lambda: socket.create_connection((HOST, next(ports)), 5))
        )
        until(lambda: REFUSED in asked(place.api), "the first bundle")
        yield found


def _replica(place: Ward, stack: ExitStack) -> Webhook:
    client = Client.load(place.plane.kubeconfig("keeper", ADMINISTRATORS), None)
    stack.callback(client.close)
    keeper = OwnCertificates(KubeVault(client, COORDINATION), (NAME,), SystemClock(), LIVES)
    keeper.look()
    keeper.start()
    stack.callback(keeper.stop)
    made = Webhook((HOST, 0), keeper, place.guard, place.told)
    made.start()
    stack.callback(made.stop)
    return made


def published(api: RawApi) -> bytes:
    """What the API server trusts now, PEM."""
    (hook,) = api.call("GET", f"{CONFIGURATIONS}/ptahk").document["webhooks"]
    return base64.b64decode(hook["clientConfig"]["caBundle"])


def shown(port: int, bundle: bytes) -> bytes | None:
    """The certificate that a new connection is shown. :raises OSError: it is not trusted."""
    client = ssl.create_default_context(cadata=bundle.decode())
    with (
        socket.create_connection((HOST, port), 10) as plain,
        client.wrap_socket(plain, server_hostname=NAME) as stream,
    ):
        return stream.getpeercert(binary_form=True)


def test_no_review_is_refused_while_everything_is_rotated(place: Ward, port: int) -> None:
    """Several clients create operation Pods all the while; each is judged, none is turned away."""
    over = threading.Event()
    first, seen = published(place.api), set()

    def load() -> tuple[int, list[str]]:
        api, count, wrong = RawApi(place.plane), 0, list[str]()
        while not over.is_set():
            message = asked(api)
            count += 1
            if REFUSED not in message:
                wrong.append(message)
        return count, wrong

    def rotated() -> bool:
        bundle = published(place.api)
        seen.add(shown(port, bundle))
        alone = len(x509.load_pem_x509_certificates(bundle)) == 1
        return alone and bundle != first and len(seen) >= 3

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(load) for _ in range(CLIENTS)]
        try:
            until(rotated, "another CA, alone", 90)
        finally:
            over.set()
        told = [client.result() for client in clients]
    assert [message for _, wrong in told for message in wrong] == []
    assert sum(count for count, _ in told) > 100
    assert place.told.verdicts["Pod", "NotAsked"] > 100
