"""The node itself: parts of it may die and come back, and nothing of it outlives its run."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.kit import guard, node, podjobs
from tests.kit.clusters import PodCluster
from tests.kit.controlplane import ControlPlane
from tests.kit.waiting import until

ROOT = Path(__file__).parents[2]
_UNTIL_TOLD = (
    "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.02)\nprint('went')"
)


def _running(plane: ControlPlane, namespace: str, job: str) -> str | None:
    """The id of the container of a Job, once it runs."""
    selector = f"--selector=job-name={job}"
    told = plane.kubectl("get", "pods", "--namespace", namespace, selector, "--output=json")
    for pod in json.loads(told)["items"]:
        for status in pod["status"].get("containerStatuses", []):
            if "running" in status["state"]:
                found: str = status["containerID"]
                return found.rpartition("/")[2]
    return None


def _waiting_job(cluster: PodCluster, namespace: str) -> tuple[str, str]:
    """Start a Job that waits to be told; answer its name and its container's."""
    command = ["python", "-c", _UNTIL_TOLD]
    document = podjobs.restricted_job("wait", cluster.images["executor"], command)
    job = podjobs.create(cluster.plane, namespace, document)
    plane = cluster.own_plane
    return job, until(lambda: _running(plane, namespace, job), "the container to run")


def test_a_container_outlives_its_kubelet_and_its_containerd(own_cluster: PodCluster) -> None:
    plane = own_cluster.own_plane
    job, container = _waiting_job(own_cluster, "default")
    for name in ("kubelet", "containerd"):
        plane.component(name).kill()
        assert not plane.component(name).running
    plane.component("containerd").start()
    until(lambda: node.containerd_ready(plane), "containerd to be ready again")
    node.run_inside(plane, container, "python", "-c", "open('/tmp/go', 'w')")
    plane.component("kubelet").start()
    podjobs.wait_for(plane, "default", job, "Complete")
    assert podjobs.log_of(plane, "default", job) == "went\n"
    [status] = podjobs.pod_of(plane, "default", job)["status"]["containerStatuses"]
    assert (status["restartCount"], status["containerID"].rpartition("/")[2]) == (0, container)


def test_a_frozen_kubelet_starts_nothing_until_it_is_thawed(own_cluster: PodCluster) -> None:
    plane = own_cluster.own_plane
    plane.component("kubelet").freeze()
    document = podjobs.restricted_job("late", own_cluster.images["executor"], ["python", "-c", ""])
    job = podjobs.create(plane, "default", document)
    pod = until(lambda: _scheduled(plane, job), "the Pod to be scheduled")
    assert pod["status"]["phase"] == "Pending"
    plane.component("kubelet").thaw()
    podjobs.wait_for(plane, "default", job, "Complete")


def _scheduled(plane: ControlPlane, job: str) -> dict[str, dict[str, str]] | None:
    selector = f"--selector=job-name={job}"
    told = json.loads(plane.kubectl("get", "pods", selector, "--output=json"))
    for pod in told["items"]:
        if "nodeName" in pod["spec"]:
            found: dict[str, dict[str, str]] = pod
            return found
    return None


def test_clusters_stand_side_by_side(
    cluster: PodCluster, namespace: str, own_cluster: PodCluster
) -> None:
    assert cluster.guests.address != own_cluster.guests.address
    command = ["python", "-c", "import socket; print(socket.gethostname())"]
    for each, where in ((cluster, namespace), (own_cluster, "default")):
        document = podjobs.restricted_job("beside", each.images["executor"], command)
        job = podjobs.create(each.plane, where, document)
        podjobs.wait_for(each.plane, where, job, "Complete")
        pod = podjobs.pod_of(each.plane, where, job)
        assert podjobs.log_of(each.plane, where, job).strip() == pod["metadata"]["name"]


_RUN = """
import json, sys
from tests.cluster import test_node
from tests.kit import clusters, guard, servers
run, keeper = servers.begin()
cluster = clusters.own_with_node(run)
job, container = test_node._waiting_job(cluster, "default")
plane = cluster.own_plane
names = ("etcd", "apiserver", *test_node.node.NODE_COMPONENTS)
pids = {name: plane.component(name).pid for name in names}
bridge = (plane.path / guard.BRIDGE_FILE).read_text()
print(json.dumps([str(run.folder), keeper.pid, pids, bridge, container]), flush=True)
sys.stdin.read()
"""


def test_nothing_of_a_node_is_left_when_its_run_is_killed() -> None:
    root = str(ROOT)
    with subprocess.Popen(
        [sys.executable, "-c", _RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=root, env={**os.environ, "PYTHONPATH": root},
    ) as run:  # fmt: skip
        assert run.stdout is not None
        folder, keeper, pids, bridge, container = json.loads(run.stdout.readline())
        assert _processes_of(container)
        run.kill()
    assert guard.wait_gone(keeper, 60)
    assert not Path(folder).exists()
    assert [name for name, pid in pids.items() if not guard.wait_gone(pid, 0)] == []
    assert _processes_of(container) == []
    assert folder not in Path("/proc/self/mountinfo").read_text()
    assert not Path(f"/sys/class/net/{bridge}").exists()
    assert list(Path("/sys/fs/cgroup").glob(f"**/{container}")) == []


def _processes_of(container: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container in path.read_text():
                found.append(path.parent.name)
        except OSError:  # it has ended meanwhile
            continue
    return found
