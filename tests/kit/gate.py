"""The guard of a cluster on which managers run as processes of this machine.

As the chart installs it: rights, policies, the webhook's configuration. Two things stand in for
what such a manager lacks. The API server calls the webhook by URL on loopback, and ``Gate`` behind
that URL is the Service: a connection goes to a replica that is ready. The certificate is mounted,
as cert-manager's is, and names this machine.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptahk.backends.kube import admission
from ptahk.engine.model.certificate import CERTIFICATE, KEY
from ptahk.serve import webhook
from tests.kit import policybed, relay, serving
from tests.kit.controlplane import Cluster
from tests.kit.pki import Authority, Pair, write_secret
from tests.kit.rawapi import RawApi
from tests.kit.serving import COORDINATION, Served

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
HOST = "127.0.0.1"
_DATA = "..data"
"""The link by which a mounted Secret changes as one."""


class Issued:
    """Certificates of an authority of the test; ``renew`` is seen by the next connection."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.authority = Authority.create(folder)
        self.renew()

    def renew(self, life: datetime.timedelta = datetime.timedelta(days=1)) -> Pair:
        """Issue another one, for this machine; with a negative life one that has ended."""
        pair = self.authority.server("webhook", [HOST], life)
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(pair.certificate, pair.key)
        self._context = made
        return pair

    def context(self) -> ssl.SSLContext:
        return self._context

    def client_config(self, port: int, path: str = webhook.PATH) -> dict[str, Any]:
        """Where the API server finds a webhook on this machine, and whom it trusts."""
        bundle = base64.b64encode(self.authority.certificate.read_bytes()).decode()
        return {"url": f"https://{HOST}:{port}{path}", "caBundle": bundle}


def configure(api: RawApi, client: dict[str, Any]) -> None:
    """Tell the API server of the webhook, or of another in its place."""
    done = api.call(
        "PATCH", f"{CONFIGURATIONS}/ptahk", admission.configuration(client),
        kind="application/apply-patch+yaml", fieldManager="tests", force="true",
    )  # fmt: skip
    assert done.status in (200, 201), done.message


def unconfigure(api: RawApi) -> None:
    """Take the webhook's configuration away."""
    done = api.call("DELETE", f"{CONFIGURATIONS}/ptahk")
    assert done.status in (200, 404), done.message


def install(cluster: Cluster) -> None:
    """Everything of the chart but the managers and the way to their webhook."""
    serving.install(cluster)
    policybed.install_policies(cluster)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    path = f"/api/v1/namespaces/{COORDINATION}/serviceaccounts"
    made = RawApi(cluster).call("POST", path, account)
    # The proof sends a Pod there; where controllers run, theirs may be the first.
    assert made.status in (201, 409), made.message


@dataclass
class Gate:
    """The way to the webhooks of the replicas, while its ``with`` block runs."""

    api: RawApi
    issued: Issued
    mounted: Path
    """The folder that replicas are told of: ``tls.crt`` and ``tls.key``."""
    listener: socket.socket
    replicas: list[Served] = field(default_factory=list)

    def issue(self, life: datetime.timedelta = datetime.timedelta(days=1)) -> None:
        """Put another certificate where the replicas look for it, as a kubelet does: at once."""
        pair = self.issued.renew(life)
        version = Path(tempfile.mkdtemp(prefix="..", dir=self.mounted))
        write_secret(version / KEY, pair.key.read_bytes())
        write_secret(version / CERTIFICATE, pair.certificate.read_bytes())
        (self.mounted / "..new").symlink_to(version.name)
        (self.mounted / "..new").rename(self.mounted / _DATA)
        for name in (KEY, CERTIFICATE):
            if not (self.mounted / name).is_symlink():
                (self.mounted / name).symlink_to(f"{_DATA}/{name}")

    def open(self) -> None:
        """Have the API server ask here."""
        configure(self.api, self.issued.client_config(self.listener.getsockname()[1]))

    def reach(self) -> socket.socket | None:
        """A connection to a webhook; None: no replica is ready.

        The newest first: a test that cuts a leader off starts the next one, which answers.
        """
        for replica in reversed(self.replicas):
            port = replica.webhook_port
            if port is not None and replica.answers():
                with contextlib.suppress(OSError):
                    return socket.create_connection((HOST, port), 5)
        return None


@contextmanager
def guarded(cluster: Cluster, folder: Path) -> Iterator[Gate]:
    """A cluster with the guard in force as soon as a replica is ready."""
    install(cluster)
    mounted = folder / "mounted"
    mounted.mkdir(mode=0o700)
    with socket.create_server((HOST, 0)) as listener:
        gate = Gate(RawApi(cluster), Issued(folder / "pki"), mounted, listener)
        gate.issue()
        gate.open()
        with relay.serving(listener, gate.reach):
            yield gate
