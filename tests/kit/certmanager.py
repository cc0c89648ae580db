"""What cert-manager does for the chart, by the test: it issues what a Certificate asks for.

As its controllers do: a Secret of type ``kubernetes.io/tls`` with ``tls.crt``, ``tls.key`` and
``ca.crt``, and the CA in every webhook configuration that names the Certificate in the annotation
``cert-manager.io/inject-ca-from``.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.controlplane import Cluster
from tests.kit.gate import CONFIGURATIONS
from tests.kit.pki import Authority, Pair
from tests.kit.rawapi import RawApi
from tests.kit.waiting import until

GROUP = "cert-manager.io"
INJECT = f"{GROUP}/inject-ca-from"
_MERGE = "application/merge-patch+json"
_KINDS = {"Certificate": "certificates", "Issuer": "issuers"}


def install_kinds(cluster: Cluster) -> None:
    """The two kinds that the chart makes objects of, whatever is in them."""
    api = RawApi(cluster)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind, plural in _KINDS.items():
        version = {
            "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything},
        }  # fmt: skip
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [version],
            },
        }
        made = api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        assert made.status == 201, made.message
        _wait_served(api, f"/apis/{GROUP}/v1/{plural}")


def _wait_served(api: RawApi, path: str) -> None:
    until(lambda: api.call("GET", path).status == 200, path)


@dataclass
class CertManager:
    """One issuer for the Certificate of a release."""

    cluster: Cluster
    folder: Path
    namespace: str
    number: int = 0

    def __post_init__(self) -> None:
        self.api = RawApi(self.cluster)
        self.authority = self._another()

    def _another(self) -> Authority:
        self.number += 1
        return Authority.create(self.folder, f"ca-{self.number}")

    def another_authority(self) -> None:
        """What follows is issued by another CA: as an issuer's own renewal, or one that signs
        for itself."""
        self.authority = self._another()

    def issue(self) -> None:
        """Once the Certificate is there: make its Secret, or renew what is in it; then the CA."""
        spec = until(self._certificate, "the Certificate")
        pair = self.authority.server("webhook", spec["dnsNames"])
        self._store(spec["secretName"], pair)
        self._inject()

    def _certificate(self) -> dict[str, Any] | None:
        path = f"/apis/{GROUP}/v1/namespaces/{self.namespace}/certificates/ptahk-webhook"
        found: dict[str, Any] | None = self.api.call("GET", path).document.get("spec")
        return found

    def _store(self, name: str, pair: Pair) -> None:
        files = {
            "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": self.authority.certificate,
        }  # fmt: skip
        data = {key: _encoded(path) for key, path in files.items()}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": name, "annotations": {f"{GROUP}/certificate-name": name}},
            "data": data,
        }
        base = f"/api/v1/namespaces/{self.namespace}/secrets"
        done = self.api.call("POST", base, body)
        if done.status == 409:
            done = self.api.call("PATCH", f"{base}/{name}", {"data": data}, kind=_MERGE)
        assert done.status in (200, 201), done.message

    def _inject(self) -> None:
        listed = self.api.call("GET", CONFIGURATIONS).document["items"]
        for item in listed:
            asked = (item["metadata"].get("annotations") or {}).get(INJECT)
            if asked != f"{self.namespace}/ptahk-webhook":
                continue
            for hook in item["webhooks"]:
                hook["clientConfig"]["caBundle"] = _encoded(self.authority.certificate)
            path = f"{CONFIGURATIONS}/{item['metadata']['name']}"
            done = self.api.call("PUT", path, item)
            assert done.status == 200, done.message


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
