"""An API server with every plugin that changes Pods, and other default tolerations than usual."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube.surroundings import NODE_SELECTOR, PLUGINS, TOLERATIONS, Declared
from tests.kit import clusters, servers
from tests.kit.chartbed import PLAIN
from tests.kit.presence import present
from tests.kit.servingbed import pod_of
from tests.kit.waiting import until
from tests.kit.ward import Ward, ward

FLAGS = (
    f"--enable-admission-plugins={','.join(PLUGINS)}",
    "--default-not-ready-toleration-seconds=20", "--default-unreachable-toleration-seconds=40",
)  # fmt: skip
DECLARED = Declared(20, 40, frozenset(PLUGINS))
OF_THE_NAMESPACE = {
    NODE_SELECTOR: "pool=databases",
    TOLERATIONS: '[{"key": "pool", "operator": "Exists", "effect": "NoSchedule"}]',
}


@pytest.fixture
def place(server_run: servers.Run, tmp_path: Path) -> Iterator[Ward]:
    plane = present(lambda: clusters.own(server_run, *FLAGS))
    with ward(plane, tmp_path) as made:
        yield made
    clusters.end(plane)


def added(place: Ward, **execution: Any) -> dict[str, Any]:
    """The spec of an operation's Pod as the API server makes it."""
    bed = place.bed()
    note = {"metadata": {"annotations": OF_THE_NAMESPACE}}
    path = f"/api/v1/namespaces/{bed.namespace}"
    done = place.api.call("PATCH", path, note, kind="application/merge-patch+json")
    assert done.status == 200, done.message

    def known() -> dict[str, Any] | None:
        """The plugins know a namespace by a cache of their own, a moment later."""
        probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": PLAIN}
        made = place.api.call("POST", f"{path}/pods", probe, dryRun="All")
        return (made.document.get("spec") or {}).get("nodeSelector")

    until(known, "the plugins to know the namespace")
    made = place.send(pod_of(place.dispatched(bed, **execution)))
    assert made.status == 201, made.message
    spec: dict[str, Any] = made.document["spec"]
    return spec


def test_what_was_declared_is_foretold_and_admitted(place: Ward) -> None:
    told = place.proof().missing() or ""
    assert "otherwise than was declared" in told, told
    place.declared = DECLARED
    until(lambda: place.proof().missing() is None, "the guard in force")

    spec = added(place)
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["nodeSelector"] == {"pool": "databases"}
    seconds = {item["key"]: item.get("tolerationSeconds") for item in spec["tolerations"]}
    assert seconds == {
        "pool": None, "node.kubernetes.io/not-ready": 20, "node.kubernetes.io/unreachable": 40,
    }  # fmt: skip

    gpu = {"resources": {"limits": {"example.com/gpu": "1"}}, "nodeSelector": {"disk": "fast"}}
    spec = added(place, **gpu)
    assert spec["nodeSelector"] == {"pool": "databases", "disk": "fast"}
    assert "example.com/gpu" in {item["key"] for item in spec["tolerations"]}
