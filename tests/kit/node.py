"""A real node for the test control plane: controllers, scheduler, containerd and the kubelet.

The node is one process, the first of a pid and a mount namespace of its own. containerd, the
kubelet and every container live and mount inside it, so when it ends nothing of them is left. It
shares the machine's network: Pods are on a bridge of their own without a way out, and reach a
database on the machine at the bridge's address.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import shutil
import subprocess
import textwrap
from pathlib import Path

from tests.kit import gobuild, guard, ociarchive
from tests.kit.components import only_child
from tests.kit.controlplane import NODE, ControlPlane, free_ports, program, write_kubeconfig
from tests.kit.installs import NeedsRoot, ServerMissing
from tests.kit.servers import Guests
from tests.kit.waiting import until

NODE_COMPONENTS = ("node", "containerd", "kubelet", "controller-manager", "scheduler")
_NEEDED = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "unshare", "nsenter")
_CNI = Path("/usr/lib/cni")
_NETWORKS = ipaddress.IPv4Network("10.213.0.0/16")
_READY_S = 120.0
_PAUSE_IMAGE = "ptahk.test/pause:1"
_PRIVATE = ("/run", "/var/lib", "/var/log")
"""Folders that containerd, CNI or the kubelet write below whatever they are told."""


def require_root() -> None:
    """:raises NeedsRoot: an ordinary user has no node, whatever is installed."""
    if os.geteuid() != 0:
        raise NeedsRoot("a node of a cluster needs root")


def why_not() -> str | None:
    """What a node lacks here; None where it has everything."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in _NEEDED if shutil.which(name, path=path) is None]
    missing += [str(_CNI / name) for name in ("bridge", "host-local") if not (_CNI / name).exists()]
    return f"a node needs {', '.join(missing)}: run scripts/set-up" if missing else None


def start(plane: ControlPlane) -> Guests:
    """Add controllers, a scheduler and a node to a control plane, and wait until it is ready.

    :returns: the Pods' network.
    :raises ServerMissing: no node can run here.
    :raises ComponentDied: one of them ended at once; with its words.
    """
    require_root()
    reason = why_not()
    if reason:
        raise ServerMissing(reason)
    network = _make_network(plane.path)
    _start_controllers(plane)
    _start_namespaces(plane)
    _start_containerd(plane, network)
    _import_pause(plane)
    _start_kubelet(plane, network)
    wait_ready(plane)
    return network


def wait_ready(plane: ControlPlane) -> None:
    """Wait until the node takes Pods."""
    until(lambda: _node_ready(plane), "the node to be ready", _READY_S)


def _node_ready(plane: ControlPlane) -> bool:
    for name in NODE_COMPONENTS:
        plane.component(name).check()
    nodes = json.loads(plane.get("/api/v1/nodes"))["items"]
    accounts = json.loads(plane.get("/api/v1/namespaces/default/serviceaccounts"))["items"]
    conditions = [c for node in nodes for c in node["status"].get("conditions", [])]
    taints = [taint for node in nodes for taint in node["spec"].get("taints", [])]
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and not taints and bool(accounts)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerMissing(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _make_network(folder: Path) -> Guests:
    """Make a bridge with the first subnet that no route of this machine knows.

    The name says which subnet it is, so of two that choose one at the same time one fails and
    goes on to the next.
    """
    routes = [route["dst"] for route in json.loads(_ip("-json", "route", "show", "table", "all"))]
    known = [ipaddress.IPv4Network(dst) for dst in routes if dst != "default" and ":" not in dst]
    for number, subnet in enumerate(_NETWORKS.subnets(new_prefix=24)):
        if any(subnet.overlaps(other) for other in known):
            continue
        bridge = f"{guard.BRIDGE_PREFIX}{number}"
        # An address of its own: else it takes that of a Pod, and another one's when that Pod goes,
        # and whoever still sends to the old one is not heard for as long as keepalives wait.
        address = f"02:00:0a:d5:{number:02x}:01"
        added = subprocess.run(
            ["ip", "link", "add", bridge, "address", address, "type", "bridge"],
            capture_output=True, check=False,
        )  # fmt: skip
        if added.returncode == 0:
            (folder / guard.BRIDGE_FILE).write_text(bridge)
            address = str(subnet[1])
            _ip("address", "add", f"{address}/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
            return Guests(address, str(subnet))
    raise ServerMissing(f"no bridge can be made in {_NETWORKS}")


def _component_kubeconfig(plane: ControlPlane, user: str, groups: tuple[str, ...] = ()) -> Path:
    name = user.replace(":", "-")
    pair = plane.authority.client(user, groups, name)
    return write_kubeconfig(
        plane.authority.folder / f"{name}.kubeconfig", plane.url, plane.ca, pair
    )


def _start_controllers(plane: ControlPlane) -> None:
    pki = plane.authority.folder
    manager = _component_kubeconfig(plane, "system:kube-controller-manager")
    plane.component("controller-manager").create([
        *program("controller-manager"), f"--kubeconfig={manager}", "--leader-elect=false",
        "--secure-port=0", "--use-service-account-credentials",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--root-ca-file={plane.ca}",
        f"--cluster-signing-cert-file={plane.ca}",
        f"--cluster-signing-key-file={plane.authority.key}",
    ])  # fmt: skip
    scheduler = _component_kubeconfig(plane, "system:kube-scheduler")
    plane.component("scheduler").create([
        *program("scheduler"), f"--kubeconfig={scheduler}", "--leader-elect=false",
        "--secure-port=0",
    ])  # fmt: skip


def _start_namespaces(plane: ControlPlane) -> None:
    """The process that is the node: it only waits, and reaps what is left to it."""
    mounts = " && ".join(f"mount -t tmpfs tmpfs {path}" for path in _PRIVATE)
    pause = gobuild.find() / gobuild.PAUSE
    plane.component("node").create([
        "unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child",
        "--mount-proc", "--", "sh", "-c", f"{mounts} && exec {pause}",
    ])  # fmt: skip
    until(lambda: _is_pause(plane), "the node's namespaces")


def _init(plane: ControlPlane) -> int | None:
    """The first process of the node's namespaces."""
    return only_child(plane.component("node").pid)


def _is_pause(plane: ControlPlane) -> bool:
    plane.component("node").check()
    init = _init(plane)
    return init is not None and os.readlink(f"/proc/{init}/exe").endswith(f"/{gobuild.PAUSE}")


def _start_containerd(plane: ControlPlane, network: Guests) -> None:
    folder = plane.path
    config = f"""\
        version = 2
        root = "{folder}/containerd"
        state = "{folder}/state"
        disabled_plugins = ["io.containerd.internal.v1.opt"]
        [grpc]
        address = "{socket(plane)}"
        [plugins."io.containerd.grpc.v1.cri"]
        sandbox_image = "{_PAUSE_IMAGE}"
        # Not everybody who is root may set a process's OOM score below its own.
        restrict_oom_score_adj = true
        disable_apparmor = true
        disable_tcp_service = true
        [plugins."io.containerd.grpc.v1.cri".cni]
        bin_dir = "{_CNI}"
        conf_dir = "{folder}/cni"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
    """
    (folder / "containerd.toml").write_text(textwrap.dedent(config))
    (folder / "cni").mkdir()
    bridge = {
        "type": "bridge",
        "bridge": (folder / guard.BRIDGE_FILE).read_text(),
        "ipam": {
            "type": "host-local",
            "dataDir": f"{folder}/cni-addresses",
            "ranges": [[{"subnet": network.subnet, "gateway": network.address}]],
        },
    }
    conf = {"cniVersion": "1.0.0", "name": "test", "plugins": [bridge, {"type": "loopback"}]}
    (folder / "cni" / "10-test.conflist").write_text(json.dumps(conf))
    plane.component("containerd").create(
        ["containerd", "--config", str(folder / "containerd.toml")], inside=_init(plane)
    )
    until(lambda: containerd_ready(plane), "containerd to be ready")


def socket(plane: ControlPlane) -> Path:
    """containerd's socket."""
    return plane.path / "containerd.sock"


def ctr(plane: ControlPlane, *arguments: str) -> str:
    """What a ``ctr`` command prints; it works on the kubelet's containers and images."""
    done = subprocess.run(
        ["ctr", "--address", str(socket(plane)), "--namespace", "k8s.io", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def run_inside(plane: ControlPlane, container: str, *argv: str) -> str:
    """What a command prints that runs inside a container, as an intruder on the node would."""
    fifos = plane.path / "fifos"
    fifos.mkdir(exist_ok=True)
    name = f"exec-{secrets.token_hex(4)}"
    return ctr(
        plane, "tasks", "exec", "--fifo-dir", str(fifos), "--exec-id", name, container, *argv
    )


def containerd_ready(plane: ControlPlane) -> bool:
    """Whether containerd answers."""
    plane.component("containerd").check()
    try:
        ctr(plane, "version")
    except RuntimeError:
        return False
    return True


def import_image(plane: ControlPlane, archive: Path, repository: str) -> None:
    """Give the node an image; Pods may then name it by its digest."""
    ctr(plane, "images", "import", "--digests", "--base-name", repository, str(archive))


def _import_pause(plane: ControlPlane) -> None:
    archive = plane.path / "pause.tar"
    ociarchive.write(archive, _PAUSE_IMAGE, gobuild.find() / gobuild.PAUSE)
    ctr(plane, "images", "import", str(archive))


def _start_kubelet(plane: ControlPlane, network: Guests) -> None:
    folder, pki = plane.path, plane.authority.folder
    plane.authority.server("kubelet", [NODE, "127.0.0.1"])
    kubeconfig = _component_kubeconfig(plane, f"system:node:{NODE}", ("system:nodes",))
    (folder / "resolv.conf").touch()
    [port] = free_ports(1)
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "readOnlyPort": 0,
        "tlsCertFile": str(pki / "server-kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "server-kubelet.key"),
        "authentication": {
            "x509": {"clientCAFile": str(plane.ca)},
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{socket(plane)}",
        "podLogsDir": str(folder / "pod-logs"),
        "volumePluginDir": str(folder / "volume-plugins"),
        # Names are not what Pods look up here; a question gets its refusal at once.
        "clusterDNS": ["127.0.0.1"],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        # As on any machine, whatever its cgroups and disks are like.
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "localStorageCapacityIsolation": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
    }
    (folder / "kubelet.json").write_text(json.dumps(config))
    plane.component("kubelet").create(
        [
            *program("kubelet"), f"--config={folder / 'kubelet.json'}",
            f"--kubeconfig={kubeconfig}", f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'kubelet-pki'}", f"--hostname-override={NODE}",
            f"--node-ip={network.address}",
        ],
        inside=_init(plane),
    )  # fmt: skip
