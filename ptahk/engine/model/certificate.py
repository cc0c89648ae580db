"""The webhook's certificates as one Secret holds them. No engine reads them; no log shows them."""

from dataclasses import dataclass

CA_KEY, CA, KEY, CERTIFICATE = "ca.key", "ca.crt", "tls.key", "tls.crt"
"""Keys of the Secret, as cert-manager names them; ``ca.crt`` is the bundle, the newest CA last."""


@dataclass(frozen=True, slots=True)
class Material:
    """PEM texts; empty where nothing is stored. :ivar version: of the Secret that was read."""

    bundle: bytes = b""
    ca_key: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    version: str = ""

    def __repr__(self) -> str:
        return f"Material(version={self.version!r})"
