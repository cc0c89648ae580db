"""The webhook's certificate: made and renewed by the manager itself, or mounted and re-read.

Made here: a CA and a certificate for the webhook's Service, kept in one Secret that the chart
creates empty. Every replica keeps it: whoever writes first wins, the others read again. A renewal
never leaves the API server with a certificate that it does not trust:

1. the new CA goes into the Secret and into the ``caBundle`` beside the old one;
2. once it has stood there for a while, a certificate of the new CA is served;
3. once every replica has read that, the old CA leaves the bundle.

``renewed`` is that rule, pure. What is given by somebody else (cert-manager) is a folder.
"""

import abc
import logging
import os
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ptahk.engine.model.certificate import CERTIFICATE, KEY, Material
from ptahk.engine.ports import Clock, Conflict, Indeterminate, PortError
from ptahk.serve.logs import fields

LOG = logging.getLogger(__name__)

BACKDATE: Final = timedelta(hours=1)
"""A certificate is valid since an hour before it was made: no clock is exact."""


@dataclass(frozen=True, slots=True)
class Lives:
    """How long things live. Renewal is due at two thirds of a life."""

    ca: timedelta = timedelta(days=365)
    certificate: timedelta = timedelta(days=90)
    settle: timedelta = timedelta(minutes=5)
    """How long a bundle stands before anything relies on it: every replica has read it by then."""
    look_s: float = 30.0
    """How often each replica looks; well within ``settle``."""


class Vault(Protocol):
    """Where the material is kept, and where the API server finds the bundle."""

    def load(self) -> Material:
        """As it is stored now. :raises PortError: it cannot be read."""

    def store(self, material: Material) -> Material:
        """Over the version that was read. :raises Conflict: another replica was first."""

    def published(self) -> bytes:
        """The bundle that the API server trusts now."""

    def publish(self, bundle: bytes) -> None:
        """Make the API server trust this one; no write where it does."""


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key(pem, None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError("not a key of ours")
    return found


def _text(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(item.public_bytes(serialization.Encoding.PEM) for item in certificates)


def authority(now: datetime, life: timedelta) -> tuple[x509.Certificate, bytes]:
    """A new CA and its key."""
    key = _key()
    # Two CAs of one name are told apart by their key identifiers.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ptahk webhook CA")])
    builder = _builder(name, name, key.public_key(), now, life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(sign=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return builder.sign(key, hashes.SHA256()), _pem(key)


def issue(
    ca: x509.Certificate, ca_key: bytes, names: Sequence[str], now: datetime, life: timedelta
) -> tuple[bytes, bytes]:
    """A server certificate of that CA and its key, PEM; it ends no later than the CA."""
    key = _key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    signer = _private(ca_key)
    life = min(life, ca.not_valid_after_utc - now)
    builder = _builder(subject, ca.subject, key.public_key(), now, life)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(sign=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return _text([builder.sign(signer, hashes.SHA256())]), _pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:  # fmt: skip
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + life)
    )


def _usage(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=sign, crl_sign=sign,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _made(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + BACKDATE


def _due(certificate: x509.Certificate, now: datetime) -> bool:
    """Two thirds of its life are over."""
    made = _made(certificate)
    return now >= made + (certificate.not_valid_after_utc - made) * 2 / 3


def _signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read(material: Material) -> tuple[list[x509.Certificate], x509.Certificate] | None:
    """The CAs and the certificate; None: nothing, or nothing usable, is stored."""
    try:
        cas = x509.load_pem_x509_certificates(material.bundle)
        found = x509.load_pem_x509_certificates(material.certificate)[0]
        newest = _private(material.ca_key).public_key()
        same = _private(material.key).public_key() == found.public_key()
    except (ValueError, TypeError, IndexError):
        return None
    trusted = any(_signed_by(found, ca) for ca in cas)
    return (cas, found) if same and trusted and newest == cas[-1].public_key() else None


def renewed(
    material: Material, published: bytes, names: Sequence[str], now: datetime, lives: Lives
) -> Material:
    """What should be stored now; the same object where nothing is due.

    :param published: the bundle that the API server trusts.
    """
    stored = read(material)
    if stored is None or stored[1].not_valid_after_utc <= now or not _named(stored[1], names):
        ca, ca_key = authority(now, lives.ca)
        certificate, key = issue(ca, ca_key, names, now, lives.certificate)
        return Material(_text([ca]), ca_key, certificate, key, material.version)
    cas, served = stored
    newest = cas[-1]
    of_newest = _signed_by(served, newest)
    if of_newest and len(cas) > 1 and now >= _made(served) + lives.settle:
        return replace(material, bundle=_text([newest]))
    settled = _has(published, newest) and now >= _made(newest) + lives.settle
    if (not of_newest and settled) or (of_newest and _due(served, now) and not _due(newest, now)):
        certificate, key = issue(newest, material.ca_key, names, now, lives.certificate)
        return replace(material, certificate=certificate, key=key)
    if _due(newest, now):
        ca, ca_key = authority(now, lives.ca)
        return replace(material, bundle=_text([*cas[-1:], ca]), ca_key=ca_key)
    return material


def _named(certificate: x509.Certificate, names: Sequence[str]) -> bool:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(found.get_values_for_type(x509.DNSName)) == set(names)


def _has(bundle: bytes, ca: x509.Certificate) -> bool:
    try:
        return ca in x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return False


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A server's context. :raises ssl.SSLError, ValueError: they do not belong together."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # OpenSSL reads files; this one is in memory alone, whatever is mounted.
    handle = os.memfd_create("webhook", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(handle), "wb") as stream:
            stream.write(key + b"\n" + certificate)
        made.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
    return made


class _Served:
    """The context of now, and why there may be none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    def show(self, certificate: bytes, key: bytes) -> None:
        """Serve this pair from the next connection on."""
        if self._shown == (certificate, key):
            return
        made = server_context(certificate, key)
        with self._lock:
            self._shown, self._context = (certificate, key), made
        ends = x509.load_pem_x509_certificates(certificate)[0].not_valid_after_utc
        LOG.info("the webhook has a certificate", extra=fields(until=ends.isoformat()))

    def context(self) -> ssl.SSLContext:
        """:raises OSError: there is none yet."""
        with self._lock:
            if self._context is None:
                raise OSError("the webhook has no certificate yet")
            return self._context


class _Keeper(threading.Thread, abc.ABC):
    """Looks every so often, and says in the log what went wrong; the next look mends it."""

    def __init__(self, every_s: float, clock: Clock) -> None:
        super().__init__(name="certificates", daemon=True)
        self._every_s = every_s
        self._ended = threading.Event()
        self._served = _Served(clock)

    def context(self) -> ssl.SSLContext:
        """The context of now, asked anew for every connection.

        :raises OSError: there is none yet.
        """
        return self._served.context()

    @abc.abstractmethod
    def look(self) -> None:
        """Once. :raises PortError, OSError, ValueError: the next look may mend it."""

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self.look()
            except (PortError, OSError, ValueError) as error:
                LOG.warning(
                    "the webhook's certificate could not be kept",
                    extra=fields(why=f"{type(error).__name__}: {error}"),
                )
            self._ended.wait(self._every_s)

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        with suppress(RuntimeError):  # never started
            self.join(self._every_s)


class OwnCertificates(_Keeper):
    """Made here. Every replica has one, and all of them share the vault.

    :param names: DNS names of the webhook's Service, the fullest first.
    """

    def __init__(
        self, vault: Vault, names: Sequence[str], clock: Clock, lives: Lives | None = None
    ) -> None:
        self._lives = lives or Lives()
        super().__init__(self._lives.look_s, clock)
        self._vault = vault
        self._names = tuple(names)
        self._clock = clock

    def look(self) -> None:
        """Read, renew what is due, publish the bundle, serve.

        :raises PortError: the cluster does not answer.
        """
        # Before the Secret: a bundle that another replica publishes meanwhile is not put back.
        published = self._vault.published()
        stored = self._vault.load()
        wanted = renewed(stored, published, self._names, self._clock.now(), self._lives)
        if wanted is not stored:
            try:
                stored = self._vault.store(wanted)
                LOG.info("the webhook's certificates were renewed")
            except (Conflict, Indeterminate):
                stored = self._vault.load()
        if read(stored) is None:
            return
        self._vault.publish(stored.bundle)
        self._served.show(stored.certificate, stored.key)


class MountedCertificates(_Keeper):
    """Given by somebody else: ``tls.crt`` and ``tls.key`` in a folder, read again when changed."""

    def __init__(self, folder: Path, clock: Clock, every_s: float = 10.0) -> None:
        super().__init__(every_s, clock)
        self._folder = folder

    def look(self) -> None:
        """:raises OSError, ValueError: a file is missing, or they do not belong together."""
        certificate = (self._folder / CERTIFICATE).read_bytes()
        key = (self._folder / KEY).read_bytes()
        self._served.show(certificate, key)
