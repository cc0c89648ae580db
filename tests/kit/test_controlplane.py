"""The test cluster itself: real, one identity for each, and gone afterwards."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import clusters, controlplane, gobuild, guard, servers
from tests.kit.controlplane import Cluster, ControlPlane, KubectlFailed, run_kubectl
from tests.kit.waiting import until


def test_an_identity_is_a_user_in_groups_with_no_rights(
    control_plane: Cluster, namespace: str
) -> None:
    kubeconfig = control_plane.kubeconfig("dora", ["testers"])
    told = json.loads(run_kubectl(kubeconfig, "auth", "whoami", "--output=json"))
    who = told["status"]["userInfo"]
    assert who["username"] == "dora"
    assert set(who["groups"]) == {"testers", "system:authenticated"}
    with pytest.raises(KubectlFailed, match=r"dora.*cannot list resource"):
        run_kubectl(kubeconfig, "get", "secrets", "--namespace", namespace)
    where = ("--namespace", namespace)
    grant = ("viewer", "--verb=list", "--resource=configmaps")
    control_plane.kubectl("create", "role", *grant, *where)
    bind = ("viewers", "--role=viewer", "--group=testers")
    control_plane.kubectl("create", "rolebinding", *bind, *where)
    until(lambda: _may(kubeconfig, "list", "configmaps", namespace), "the role binding to act")
    assert not _may(kubeconfig, "list", "secrets", namespace)


def _may(kubeconfig: Path, verb: str, resource: str, namespace: str) -> bool:
    try:
        return "yes" in run_kubectl(
            kubeconfig, "auth", "can-i", verb, resource, "--namespace", namespace
        )
    except KubectlFailed:
        return False


def test_a_namespace_enforces_the_restricted_standard(
    control_plane: Cluster, namespace: str
) -> None:
    told = control_plane.kubectl("get", "namespace", namespace, "--output=json")
    assert json.loads(told)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == (
        "restricted"
    )


def test_etcd_put_back_forgets_what_came_after(own_control_plane: ControlPlane) -> None:
    plane = own_control_plane
    plane.kubectl("create", "configmap", "kept")
    kept = plane.snapshot("before")
    plane.kubectl("create", "configmap", "lost")
    version = _version(plane, "kept")
    plane.kubectl("annotate", "configmap", "kept", "later=yes")
    plane.restore(kept)
    assert plane.kubectl("get", "configmaps", "--output=name").split() == ["configmap/kept"]
    assert _version(plane, "kept") == version


def _version(plane: ControlPlane, name: str) -> int:
    told = plane.kubectl("get", "configmap", name, "--output=json")
    return int(json.loads(told)["metadata"]["resourceVersion"])


def test_a_component_may_be_frozen_killed_and_started(own_control_plane: ControlPlane) -> None:
    pinned = None if os.environ.get(controlplane.ASSETS_ENV) else gobuild.kubernetes_version()
    assert pinned in (None, own_control_plane.version)
    apiserver = own_control_plane.component("apiserver")
    before = apiserver.pid
    apiserver.freeze()
    with pytest.raises(OSError, match="timed out"):
        own_control_plane.get("/readyz", timeout_s=0.5)
    apiserver.thaw()
    own_control_plane.wait_ready()
    apiserver.kill()
    assert not apiserver.running
    with pytest.raises(OSError, match="refused"):
        own_control_plane.get("/readyz")
    apiserver.start()
    own_control_plane.wait_ready()
    assert apiserver.pid != before


_CRASHING_RUN = """
import sys
from tests.kit import clusters, servers
run, keeper = servers.begin()
plane = clusters.shared(run)
print(keeper.pid, run.folder, *[plane.component(n).pid for n in ("etcd", "apiserver")], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("guard_too", [False, True], ids=["the run", "the run and its guard"])
def test_nothing_is_left_of_a_run_that_was_killed(guard_too: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CRASHING_RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=Path(__file__).parents[2],
    ) as run:  # fmt: skip
        assert run.stdout is not None
        keeper, folder, *pids = run.stdout.readline().split()
        if guard_too:
            os.kill(int(keeper), signal.SIGKILL)
        run.kill()
    assert guard.wait_gone(int(keeper), 60)
    if guard_too:  # the next run sweeps
        assert (Path(folder) / "guard.lock").exists()
        guard.sweep(Path(folder).parent, Path("/nowhere"))
    assert all(guard.wait_gone(int(pid), 10) for pid in pids)
    assert not Path(folder).exists()


def test_programs_may_be_the_users_own(
    server_run: servers.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(controlplane.ASSETS_ENV, raising=False)
    names = {"etcd": "etcd", "kube-apiserver": "apiserver", "kubectl": "kubectl"}
    for asset, name in names.items():
        script = tmp_path / asset
        command = " ".join(controlplane.program(name))
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv(controlplane.ASSETS_ENV, str(tmp_path))
    plane = clusters.own(server_run)
    try:
        for asset, name in names.items():
            assert controlplane.program(name) == [str(tmp_path / asset)]
        records = {name: plane.component(name).record.read_text() for name in ("etcd", "apiserver")}
        assert all(str(tmp_path) in record for record in records.values())
        assert "default" in plane.kubectl("get", "namespaces")
    finally:
        clusters.end(plane)
