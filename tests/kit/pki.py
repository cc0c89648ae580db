"""A certificate authority for the tests: a certificate for every component, user and server."""

from __future__ import annotations

import datetime
import ipaddress
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = datetime.timedelta(days=2)
_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def write_secret(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all, that only its owner may read."""
    handle, partial = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
    os.replace(partial, path)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(
    subject: x509.Name, issuer: x509.Name, life: datetime.timedelta = _LIFE
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + life) - _SKEW)
        .not_valid_after(now + life)
    )


def make_key_pair(folder: Path, name: str) -> Pair:
    """A bare key pair, for signing ServiceAccount tokens: ``certificate`` is the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = Pair(folder / f"{name}.pub", folder / f"{name}.key")
    write_secret(pair.key, _key_pem(key))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_secret(pair.certificate, public)
    return pair


@dataclass(frozen=True)
class Authority:
    """A certificate authority whose files are in one folder; any process may open it again."""

    folder: Path
    name: str = "ca"

    @property
    def certificate(self) -> Path:
        """Its own certificate: what a client trusts."""
        return self.folder / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        """Its key."""
        return self.folder / f"{self.name}.key"

    @classmethod
    def create(cls, folder: Path, name: str = "ca") -> Authority:
        """Make one."""
        made = cls(folder, name)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ptahk test {name}")])
        certificate = (
            _builder(subject, subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        write_secret(made.key, _key_pem(key))
        write_secret(made.certificate, certificate.public_bytes(Encoding.PEM))
        return made

    def client(self, user: str, groups: Sequence[str] = (), name: str | None = None) -> Pair:
        """A client certificate: the API server reads user and groups from its subject."""
        organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in groups]
        common = x509.NameAttribute(NameOID.COMMON_NAME, user)
        subject = x509.Name([*organisations, common])
        return self._issue(subject, [], ExtendedKeyUsageOID.CLIENT_AUTH, name or f"client-{user}")

    def server(self, name: str, hosts: Sequence[str], life: datetime.timedelta = _LIFE) -> Pair:
        """A server certificate for host names and addresses.

        :param life: from now; negative: it has ended.
        """
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        use = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(subject, hosts, use, f"server-{name}", life)

    def _issue(
        self, subject: x509.Name, hosts: Sequence[str], use: x509.ObjectIdentifier, name: str,
        life: datetime.timedelta = _LIFE,
    ) -> Pair:  # fmt: skip
        issuer = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        issuer_key = load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
        builder = (
            _builder(subject, issuer.subject, life)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(identifier, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(issuer_key, hashes.SHA256())
        safe = "".join(c if c.isalnum() or c in "-." else "_" for c in name)
        pair = Pair(self.folder / f"{safe}.crt", self.folder / f"{safe}.key")
        write_secret(pair.key, _key_pem(key))
        write_secret(pair.certificate, certificate.public_bytes(Encoding.PEM))
        return pair


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs, crl_sign=signs,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
