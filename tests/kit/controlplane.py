"""A real Kubernetes control plane for the tests: etcd and kube-apiserver, and more on request.

Every component has an identity of its own and no more rights than on any other cluster (Node and
RBAC authorization). Everything listens on free ports of 127.0.0.1 and lives below one folder of
the run; ``guard.py`` ends it by pid. The programs are those of ``gobuild.py``, or those in the
folder that ``KUBEBUILDER_ASSETS`` names (``etcd``, ``kube-apiserver``, ``kubectl``).
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tests.kit import gobuild
from tests.kit.components import Component
from tests.kit.pki import Authority, Pair, make_key_pair, write_secret
from tests.kit.waiting import until

ASSETS_ENV = "KUBEBUILDER_ASSETS"
ADMIN = "ptahk-test-admin"
MASTERS = "system:masters"
NODE = "localhost"
"""The node's name; logs are read from the host of that name."""
_ASSET_NAMES = {"apiserver": "kube-apiserver"}
_READY_S = 120.0
_PROBE_S = 2.0


def program(name: str) -> list[str]:
    """The start of the command line of one of the control plane's programs.

    :param name: ``etcd``, ``apiserver``, ``controller-manager``, ``scheduler``, ``kubelet``,
        ``kubectl``.
    :raises ServerMissing: it is neither among the assets nor built.
    """
    assets = os.environ.get(ASSETS_ENV)
    if assets:
        for candidate in (_ASSET_NAMES.get(name, name), f"kube-{name}"):
            path = Path(assets) / candidate
            if path.exists():
                return [str(path)]
    if name == "kubectl" and not gobuild.is_built() and (found := shutil.which(name)):
        return [found]
    return [str(gobuild.find() / gobuild.PROGRAM), name]


def free_ports(number: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 that were free a moment ago."""
    probes = [socket.socket() for _ in range(number)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Cluster(Protocol):
    """What a test may ask of a cluster, whoever started it."""

    @property
    def url(self) -> str:
        """The API server's URL."""

    @property
    def ca(self) -> Path:
        """The certificate that its clients trust."""

    @property
    def version(self) -> str:
        """The API server's version, for example ``v1.36.3``."""

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""

    def identity(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate of a user in groups."""

    def kubeconfig(
        self, user: str, groups: Sequence[str] = (), *, url: str = "", ca: Path | None = None
    ) -> Path:
        """A kubeconfig with a client certificate of a user in groups.

        :param url, ca: another way to the API server, such as a fault proxy.
        """

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What a kubectl command of the administrator prints.

        :raises KubectlFailed: with its exit code and words.
        """


class KubectlFailed(Exception):
    """A kubectl command failed."""


def run_kubectl(
    kubeconfig: Path, *arguments: str, stdin: str | None = None, cache: Path | None = None
) -> str:
    """What a kubectl command prints.

    :param cache: where it keeps what it learned of the API; beside the kubeconfig if not given.
    :raises KubectlFailed: with its exit code and words.
    """
    cache = (cache or kubeconfig.parent) / "kubectl-cache"
    done = subprocess.run(
        [*program("kubectl"), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache),
         *arguments],
        input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        words = f"kubectl {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()}"
        raise KubectlFailed(words)
    return done.stdout


def write_kubeconfig(path: Path, url: str, ca: Path, pair: Pair) -> Path:
    """Write a kubeconfig of one context, with everything inside it."""

    def inline(source: Path) -> str:
        return base64.b64encode(source.read_bytes()).decode("ascii")

    user = {
        "client-certificate-data": inline(pair.certificate),
        "client-key-data": inline(pair.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": url, "certificate-authority-data": inline(ca)}}
        ],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    write_secret(path, json.dumps(document).encode())
    return path


@dataclass(frozen=True)
class ControlPlane:
    """A control plane of this run. Plain values: another process opens it by its record."""

    folder: str
    port: int
    etcd_port: int

    @property
    def path(self) -> Path:
        """The folder that everything of it is below."""
        return Path(self.folder)

    @property
    def url(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Authority:
        """Who signs every certificate."""
        return Authority(self.path / "pki")

    @property
    def ca(self) -> Path:
        """The certificate that its clients trust."""
        return self.authority.certificate

    @cached_property
    def version(self) -> str:
        """The API server's version, for example ``v1.36.3``."""
        told: str = json.loads(self.get("/version"))["gitVersion"]
        return told

    def component(self, name: str) -> Component:
        """One of its programs, for example ``apiserver``: it may be killed, frozen, started."""
        return Component(self.path, name)

    def identity(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate of a user in groups."""
        return self.authority.client(user, groups, f"{user}-{secrets.token_hex(6)}")

    def kubeconfig(
        self, user: str, groups: Sequence[str] = (), *, url: str = "", ca: Path | None = None
    ) -> Path:
        """A kubeconfig with a client certificate of a user in groups.

        :param url, ca: another way to the API server, such as a fault proxy.
        """
        folder = Path(tempfile.mkdtemp(prefix="kubeconfig-", dir=self.path))
        pair = self.identity(user, groups)
        return write_kubeconfig(folder / "config", url or self.url, ca or self.ca, pair)

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""
        return self.path / "admin" / "config"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What a kubectl command of the administrator prints.

        :raises KubectlFailed: with its exit code and words.
        """
        return run_kubectl(self.admin, *arguments, stdin=stdin)

    def get(self, path: str, timeout_s: float = 10.0) -> bytes:
        """The body of a GET by the administrator.

        :raises OSError: no answer, or one that says no.
        """
        context = ssl.create_default_context(cafile=str(self.ca))
        pair = Pair(self.authority.folder / "admin.crt", self.authority.folder / "admin.key")
        context.load_cert_chain(pair.certificate, pair.key)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(self.url + path, timeout=timeout_s) as answer:
            body: bytes = answer.read()
            return body

    def ready(self) -> bool:
        """Whether the API server says so. A component that ended is an error at once."""
        self.component("etcd").check()
        self.component("apiserver").check()
        try:
            self.get("/readyz", _PROBE_S)
            # Made by the API server itself, shortly after it is ready.
            self.get("/api/v1/namespaces/default", _PROBE_S)
        except OSError:
            return False
        return True

    def wait_ready(self) -> None:
        """Wait until the API server serves."""
        until(self.ready, "the API server to be ready", _READY_S)

    def stop_api(self) -> None:
        """Stop the API server, then etcd."""
        # Asked politely it waits for every watch of a node to end. It keeps nothing of its own.
        self.component("apiserver").kill()
        self.component("etcd").stop()

    def start_api(self) -> None:
        """Start etcd and the API server again, and wait until they serve."""
        self.component("etcd").start()
        self.component("apiserver").start()
        self.wait_ready()

    def snapshot(self, name: str) -> Path:
        """Copy etcd's data, as a backup does. The API server is stopped meanwhile.

        :param name: of the copy, for ``restore``.
        """
        self.stop_api()
        kept = self.path / f"snapshot-{name}"
        shutil.copytree(self.path / "etcd", kept)
        self.start_api()
        return kept

    def restore(self, kept: Path) -> None:
        """Put a copy of etcd's data back: the cluster forgets whatever came after it."""
        self.stop_api()
        shutil.rmtree(self.path / "etcd")
        shutil.copytree(kept, self.path / "etcd")
        self.start_api()


def start(folder: Path, *flags: str) -> ControlPlane:
    """Start etcd and an API server in an empty folder of a run.

    :param flags: more of the API server's.
    :raises ServerMissing: the programs are not here.
    :raises ComponentDied: one of them ended at once; with its words.
    """
    program("apiserver")
    port, etcd_port, peer_port = free_ports(3)
    plane = ControlPlane(str(folder), port, etcd_port)
    (folder / "pki").mkdir(mode=0o700)
    authority = Authority.create(folder / "pki")
    make_key_pair(folder / "pki", "service-account")
    authority.server("apiserver", ["127.0.0.1", "localhost", "10.96.0.1", "kubernetes.default"])
    admin = authority.client(ADMIN, [MASTERS], "admin")
    authority.client("ptahk-test-apiserver", [MASTERS], "apiserver-kubelet")
    (folder / "admin").mkdir(mode=0o700)
    write_kubeconfig(plane.admin, plane.url, plane.ca, admin)
    plane.component("etcd").create(_etcd(plane, peer_port))
    plane.component("apiserver").create([*_apiserver(plane), *flags])
    plane.wait_ready()
    return plane


def _etcd(plane: ControlPlane, peer_port: int) -> list[str]:
    client = f"http://127.0.0.1:{plane.etcd_port}"
    peer = f"http://127.0.0.1:{peer_port}"
    return [
        *program("etcd"), "--name=test", f"--data-dir={plane.path / 'etcd'}", "--unsafe-no-fsync",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}", "--log-level=warn",
    ]  # fmt: skip


def _apiserver(plane: ControlPlane) -> list[str]:
    pki = plane.authority.folder
    return [
        *program("apiserver"), f"--etcd-servers=http://127.0.0.1:{plane.etcd_port}",
        "--bind-address=127.0.0.1", f"--secure-port={plane.port}",
        f"--tls-cert-file={pki / 'server-apiserver.crt'}",
        f"--tls-private-key-file={pki / 'server-apiserver.key'}",
        f"--client-ca-file={plane.ca}",
        "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
        # A webhook's Service is reached by its endpoints: no node here runs a service proxy.
        "--enable-aggregator-routing",
        "--allow-privileged", "--anonymous-auth=false",
        # So that the log is read from the node called localhost.
        "--kubelet-preferred-address-types=Hostname",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet.key'}",
        f"--kubelet-certificate-authority={plane.ca}",
    ]  # fmt: skip
