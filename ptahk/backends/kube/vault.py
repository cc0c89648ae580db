"""The webhook's own certificate in a cluster: one Secret by name, and one ``caBundle``.

The one Secret that ptahk ever reads; the chart makes it, empty, and grants get and update of that
name alone. Secrets with database credentials are the kubelet's (C-8.2).
"""

import base64
import binascii
from typing import Any, Final

from ptahk.backends.kube.client import TIMEOUT_S, Client
from ptahk.backends.kube.kinds import Kind
from ptahk.engine.model.certificate import CA, CA_KEY, CERTIFICATE, KEY, Material
from ptahk.engine.ports import Conflict, Document, Unavailable

SECRET: Final = "ptahk-webhook-certificate"
CONFIGURATION: Final = "ptahk"
SERVICE: Final = "ptahk-webhook"
_SECRETS: Final = Kind("Secret", "v1", "secrets", status=False)
_CONFIGURATIONS: Final = Kind(
    "ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations", namespaced=False, status=False,
)  # fmt: skip
_WRITER: Final = {"fieldManager": "ptahk", "fieldValidation": "Strict"}


def names(namespace: str) -> tuple[str, ...]:
    """What an API server calls the webhook by."""
    return (f"{SERVICE}.{namespace}.svc",)


class KubeVault:
    """The Vault port. One thread uses it.

    :param namespace: of the release.
    :param configuration: name of the webhook's configuration.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        configuration: str = CONFIGURATION,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._client = client
        self._secret = _SECRETS.path(namespace, SECRET)
        self._configuration = _CONFIGURATIONS.path(None, configuration)
        self._timeout_s = timeout_s
        self._seen: Document | None = None

    def load(self) -> Material:
        """:raises PortError: the Secret is not there, or cannot be read."""
        return _material(self._get(self._secret))

    def store(self, material: Material) -> Material:
        """:raises Conflict: another replica was first."""
        stored = self._get(self._secret)
        if stored["metadata"]["resourceVersion"] != material.version:
            raise Conflict(f"Secret {SECRET}")
        data = {
            CA: material.bundle, CA_KEY: material.ca_key, CERTIFICATE: material.certificate,
            KEY: material.key,
        }  # fmt: skip
        encoded = {name: base64.b64encode(value).decode("ascii") for name, value in data.items()}
        body = {**stored, "data": encoded}
        return _material(self._put(self._secret, body))

    def published(self) -> bytes:
        """:raises PortError: the configuration is not there, or cannot be read."""
        self._seen = self._get(self._configuration)
        bundles = {str(client.get("caBundle") or "") for client in _clients(self._seen)}
        # Hooks that differ are as good as none: all are written alike.
        return _decoded(bundles.pop()) if len(bundles) == 1 else b""

    def publish(self, bundle: bytes) -> None:
        """Over the version that ``published`` saw. :raises Conflict: it is another one now."""
        seen = self._seen
        assert seen is not None, "published() is asked first"
        text = base64.b64encode(bundle).decode("ascii")
        if all(client.get("caBundle") == text for client in _clients(seen)):
            return
        for client in _clients(seen):
            client["caBundle"] = text
        self._seen = self._put(self._configuration, seen)

    def _get(self, path: str) -> Document:
        return self._client.request("GET", path, timeout_s=self._timeout_s).document()

    def _put(self, path: str, body: Document) -> Document:
        answer = self._client.request(
            "PUT", path, query=_WRITER, body=body, timeout_s=self._timeout_s
        )
        return answer.document()


def _clients(configuration: Document) -> list[dict[str, Any]]:
    return [hook["clientConfig"] for hook in configuration.get("webhooks") or ()]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _material(secret: Document) -> Material:
    data = secret.get("data") or {}
    try:
        version = str(secret["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise Unavailable(f"Secret {SECRET}: the answer is no such object") from None
    value = {name: _decoded(str(data.get(name) or "")) for name in (CA, CA_KEY, CERTIFICATE, KEY)}
    return Material(value[CA], value[CA_KEY], value[CERTIFICATE], value[KEY], version)
