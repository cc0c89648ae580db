"""The chart and the images as users get them: installed, used, upgraded and removed by Helm."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit import clusters, helm, podbed, relay, servers
from tests.kit.clusters import PodCluster
from tests.kit.presence import present
from tests.kit.rawapi import RawApi, install_crds
from tests.kit.serving import COORDINATION
from tests.kit.waiting import until

WAIT = ("--wait", "--timeout=6m")
LABEL = "app.kubernetes.io/name=ptahk"
KINDS = (
    "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,"
    "poddisruptionbudgets,networkpolicies,secrets,jobs,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,"
    "validatingwebhookconfigurations"
)


@dataclass
class Place:
    """A cluster that Helm works on."""

    town: PodCluster
    values: Path

    def helm(self, *arguments: str, version: str = "4", namespace: str = COORDINATION) -> str:
        where = (f"--kubeconfig={self.town.plane.admin}", f"--namespace={namespace}")
        return helm.run(*arguments, *where, version=version)

    def install(self, action: str, *more: str, **options: str) -> str:
        given = (f"--values={self.values}", *more)
        return self.helm(action, "ptahk", str(helm.CHART), *given, **options)

    def pods(self) -> list[dict[str, Any]]:
        """The manager's, that are not on their way out."""
        told = self.town.plane.kubectl(
            "get", "pods", f"--namespace={COORDINATION}", f"--selector={LABEL}", "--output=json"
        )
        return [
            item for item in json.loads(told)["items"]
            if "deletionTimestamp" not in item["metadata"]
        ]  # fmt: skip

    def left(self) -> list[str]:
        """What carries the chart's label in the whole cluster."""
        told = self.town.plane.kubectl(
            "get", KINDS, "--all-namespaces", f"--selector={LABEL}", "--output=name"
        )
        return told.split()


@pytest.fixture(scope="module")
def place(server_run: servers.Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    present(functools.partial(helm.program, "4"))
    town = present(lambda: clusters.own_with_node(server_run))
    install_crds(town.plane)
    with relay.api_server(town) as (address, port):
        values = tmp_path_factory.mktemp("values") / "values.json"
        told = {
            "image": {"manager": town.images["manager"], "executor": town.images["executor"]},
            "manager": {
                "leaderLease": "6s",
                "env": [
                    {"name": "KUBERNETES_SERVICE_HOST", "value": address},
                    {"name": "KUBERNETES_SERVICE_PORT", "value": str(port)},
                ],
            },
        }
        values.write_text(json.dumps(told))
        yield Place(town, values)
    clusters.end(town.own_plane)


@pytest.fixture
def bed(place: Place, server_run: servers.Run, postgres_version: int) -> Iterator[podbed.Bed]:
    with podbed.bed(place.town, server_run, postgres_version) as made:
        yield made


def test_from_install_to_removal(place: Place, bed: podbed.Bed) -> None:
    place.town.plane.kubectl("create", "namespace", COORDINATION)
    place.town.plane.kubectl(
        "label", "namespace", COORDINATION, "pod-security.kubernetes.io/enforce=restricted"
    )
    place.install("install", *WAIT)
    assert len(place.pods()) == 2
    used(place, bed)
    second(place)
    upgraded(place, bed)
    removed(place, bed)


def used(place: Place, bed: podbed.Bed) -> None:
    """It applies, under webhook and policies, and nobody reaches into what it runs."""
    bed.make()
    bed.ready(limit_s=400)
    assert bed.tables() == ["items", "orders"]
    stored = bed.stored()
    assert stored["metadata"]["annotations"]["ptahk.dev/changed-by"]
    path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs"
    api = RawApi(place.town.plane)
    [job, *_] = api.call("GET", path).document["items"]
    refused = api.call(
        "PATCH", f"{path}/{job['metadata']['name']}", {"spec": {"suspend": True}},
        kind="application/merge-patch+json",
    )  # fmt: skip
    assert "only ptahk's manager changes an operation's Job" in refused.message


def second(place: Place) -> None:
    """C-13.4: there is one in a cluster."""
    for version in helm.VERSIONS:
        with pytest.raises(helm.HelmFailed, match=r"installed in this cluster already \(release"):
            place.install(
                "install", "--create-namespace", version=version, namespace=f"other-{version}"
            )


def upgraded(place: Place, bed: podbed.Bed) -> None:
    before = {item["metadata"]["uid"] for item in place.pods()}
    place.install("upgrade", "--set=manager.workers=3", *WAIT)
    until(lambda: not before & {item["metadata"]["uid"] for item in place.pods()}, "new Pods", 240)
    assert bed.exists() and bed.status()["lastPlan"]


def removed(place: Place, bed: podbed.Bed) -> None:
    """Resources first, while somebody is there to let them go; then nothing is left."""
    bed.kubectl("delete", "ptahschemas", "--all", "--timeout=180s")
    place.helm("uninstall", "ptahk", *WAIT)
    assert place.left() == []
    assert place.pods() == []
    place.town.plane.kubectl("delete", "crd", "--timeout=60s", *_crds(place))


def _crds(place: Place) -> list[str]:
    told = place.town.plane.kubectl("get", "crd", "--output=name")
    return [name.partition("/")[2] for name in told.split() if name.endswith(".ptahk.dev")]
