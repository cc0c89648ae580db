"""Which cluster a test gets: the run's shared one, one of its own, or one that the user names."""

from __future__ import annotations

import base64
import json
import os
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.kit import controlplane, guard, images, node, servers
from tests.kit.controlplane import Cluster, ControlPlane, run_kubectl, write_kubeconfig
from tests.kit.installs import ServerMissing
from tests.kit.pki import Pair, write_secret
from tests.kit.waiting import until

KUBECONFIG_ENV = "PTAHK_TEST_KUBECONFIG"
RECORD = "cluster.json"
"""In the run's folder, once the shared cluster runs: its address and version."""
NODE_RECORD = "node.json"
"""Beside it, once Pods can run."""
HOST_ENV = "PTAHK_TEST_POD_HOST"
"""Of a named cluster: this machine's address as its Pods see it, and their network, ``A,B/N``."""
IMAGE_ENVS = {"executor": "PTAHK_TEST_EXECUTOR_IMAGE", "manager": "PTAHK_TEST_MANAGER_IMAGE"}
"""Of a named cluster: the images of this project, as its Pods name them."""


def shared(run: servers.Run) -> Cluster:
    """The run's cluster: the user's own where ``PTAHK_TEST_KUBECONFIG`` names one.

    :raises ServerMissing: the control plane is not built.
    """
    known = run.folder / RECORD
    with run.locked("cluster"):
        if known.exists():
            told = json.loads(known.read_text())
            return _named(run) or ControlPlane(**told["plane"])
        plane: Cluster | None = _named(run)
        told = {}
        if plane is None:
            started = controlplane.start(run.fresh("cluster"))
            plane, told = started, asdict(started)
        write_secret(known, json.dumps({"plane": told, "version": plane.version}).encode())
        return plane


@dataclass(frozen=True)
class PodCluster:
    """A cluster that runs Pods of this project's images."""

    plane: Cluster
    guests: servers.Guests
    """The Pods' network: a database for them listens on its address."""
    images: dict[str, str]
    """References of the images: ``executor`` and ``manager``."""

    @property
    def own_plane(self) -> ControlPlane:
        """The control plane, where it is ours to kill, freeze and restore."""
        assert isinstance(self.plane, ControlPlane)
        return self.plane


def shared_with_node(run: servers.Run) -> PodCluster:
    """The run's cluster with a node: added to the shared control plane at its first use.

    :raises ServerMissing: no node can run here, or the named cluster lacks what Pods need.
    """
    plane = shared(run)
    known = run.folder / NODE_RECORD
    with run.locked("node"):
        if not known.exists():
            made = _add_node(plane) if isinstance(plane, ControlPlane) else _named_node()
            told = {"guests": asdict(made[0]), "images": made[1]}
            write_secret(known, json.dumps(told).encode())
        told = json.loads(known.read_text())
    return PodCluster(plane, servers.Guests(**told["guests"]), told["images"])


def own_with_node(run: servers.Run) -> PodCluster:
    """A cluster with a node for one test alone. End it with ``end(cluster.own_plane)``."""
    node.require_root()
    plane = own(run)
    return PodCluster(plane, *_add_node(plane))


def _add_node(plane: ControlPlane) -> tuple[servers.Guests, dict[str, str]]:
    built = images.build()
    guests = node.start(plane)
    for image in built.values():
        node.import_image(plane, Path(image.archive), image.repository)
    return guests, {target: image.reference for target, image in built.items()}


def _named_node() -> tuple[servers.Guests, dict[str, str]]:
    needed = [HOST_ENV, *IMAGE_ENVS.values()]
    missing = [name for name in needed if not os.environ.get(name)]
    if missing:
        raise ServerMissing(f"Pods of the cluster of {KUBECONFIG_ENV} need {', '.join(missing)}")
    address, _, subnet = os.environ[HOST_ENV].partition(",")
    named = {target: os.environ[name] for target, name in IMAGE_ENVS.items()}
    return servers.Guests(address, subnet), named


def own(run: servers.Run, *flags: str) -> ControlPlane:
    """A control plane for one test alone, which may kill it or take its memory. See ``end``.

    :param flags: more of the API server's.
    """
    return controlplane.start(run.fresh("own-cluster"), *flags)


def end(plane: ControlPlane) -> None:
    """End a control plane that is not shared, and remove its folder."""
    guard.end_components(plane.path)
    guard.remove(plane.path)


def version_used(run: servers.Run) -> str | None:
    """The version of the shared cluster, where any test of the run used it."""
    try:
        version: str = json.loads((run.folder / RECORD).read_text())["version"]
    except OSError:
        return None
    return version


def _named(run: servers.Run) -> Cluster | None:
    named = os.environ.get(KUBECONFIG_ENV)
    return NamedCluster(Path(named), run.folder) if named else None


@dataclass(frozen=True)
class NamedCluster:
    """A cluster that the user names. Certificates come from its own signer, by request."""

    admin: Path
    """The administrator's kubeconfig; the administrator may approve certificates."""
    folder: Path

    @cached_property
    def _config(self) -> dict[str, str]:
        document = json.loads(
            self.kubectl("config", "view", "--minify", "--flatten", "--raw", "--output=json")
        )
        cluster: dict[str, str] = document["clusters"][0]["cluster"]
        return cluster

    @property
    def url(self) -> str:
        """The API server's URL."""
        return self._config["server"]

    @cached_property
    def ca(self) -> Path:
        """The certificate that its clients trust."""
        path = Path(tempfile.mkdtemp(prefix="named-", dir=self.folder)) / "ca.crt"
        write_secret(path, base64.b64decode(self._config["certificate-authority-data"]))
        return path

    @cached_property
    def version(self) -> str:
        """The API server's version."""
        told = json.loads(self.kubectl("version", "--output=json"))
        version: str = told["serverVersion"]["gitVersion"]
        return version

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What a kubectl command of the administrator prints.

        :raises KubectlFailed: with its exit code and words.
        """
        return run_kubectl(self.admin, *arguments, stdin=stdin, cache=self.folder)

    def identity(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate of a user in groups, signed by the cluster."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject)
        signed = request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
        name = f"ptahk-test-{secrets.token_hex(8)}"
        document = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(signed).decode("ascii"),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "expirationSeconds": 86400,
                "usages": ["client auth"],
            },
        }
        self.kubectl("create", "--filename=-", stdin=json.dumps(document))
        self.kubectl("certificate", "approve", name)
        path = "--output=jsonpath={.status.certificate}"
        issued = until(lambda: self.kubectl("get", "csr", name, path), "the certificate")
        folder = Path(tempfile.mkdtemp(prefix="identity-", dir=self.folder))
        pair = Pair(folder / "crt", folder / "key")
        write_secret(pair.certificate, base64.b64decode(issued))
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_secret(pair.key, pem)
        return pair

    def kubeconfig(
        self, user: str, groups: Sequence[str] = (), *, url: str = "", ca: Path | None = None
    ) -> Path:
        """A kubeconfig with a client certificate of a user in groups."""
        folder = Path(tempfile.mkdtemp(prefix="kubeconfig-", dir=self.folder))
        pair = self.identity(user, groups)
        return write_kubeconfig(folder / "config", url or self.url, ca or self.ca, pair)
