"""The admission snapshot: what is in it, what moves it, and what is refused by name."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.surroundings import NODE_SELECTOR, TOLERATIONS, Declared, KubeSurroundings
from ptahk.engine.ports import PortError, Refusal
from ptahk.wire import digest
from tests.kit.loopback import Reply, Request, loopback


class Cluster:
    """Objects by the last part of their collection's path."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {
            "serviceaccounts": {}, "limitranges": {}, "runtimeclasses": {}, "priorityclasses": {},
            "namespaces": {},
        }  # fmt: skip
        self.add("serviceaccounts", "default")
        self.broken = ""

    def add(self, plural: str, name: str, **more: Any) -> dict[str, Any]:
        metadata = {
            "name": name, "namespace": "team", "uid": f"{name}-uid", "resourceVersion": "1",
        }  # fmt: skip
        self.objects[plural][name] = {"metadata": metadata, **more}
        return self.objects[plural][name]

    def limit(self, name: str, **more: Any) -> None:
        self.add("limitranges", name, spec={"limits": [{"type": "Container", **more}]})

    def __call__(self, request: Request, reply: Reply) -> None:
        assert request.method == "GET", "only reads"
        words = request.path.split("/")
        plural = words[-1] if words[-1] in self.objects else words[-2]
        if plural == self.broken:
            reply.cut()
        elif words[-1] == plural:
            items = list(self.objects[plural].values())
            reply.json(200, {"items": items, "metadata": {"resourceVersion": "9"}})
        elif words[-1] in self.objects[plural]:
            reply.json(200, self.objects[plural][words[-1]])
        else:
            reply.status(404, "NotFound", name=words[-1])


class Bed:
    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.cluster = Cluster()
        server = stack.enter_context(loopback(self.cluster))
        self.client = Client.load(server.kubeconfig(folder, {}), None)
        stack.callback(self.client.close)
        self.surroundings = KubeSurroundings(self.client)

    def declare(self, **declared: Any) -> None:
        """Another API server."""
        self.surroundings = KubeSurroundings(self.client, declared=Declared(**declared))

    def snapshot(self, **execution: Any) -> dict[str, Any]:
        found = self.surroundings.snapshot("team", execution)
        assert isinstance(found, dict), found
        return found

    def refusal(self, **execution: Any) -> Refusal:
        found = self.surroundings.snapshot("team", execution)
        assert isinstance(found, Refusal), found
        return found


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with ExitStack() as stack:
        yield Bed(stack, tmp_path)


def named(name: str) -> dict[str, str]:
    return {"name": name, "uid": f"{name}-uid", "resourceVersion": "1"}


def test_without_anything_special_it_is_small(bed: Bed) -> None:
    assert bed.snapshot() == {
        "version": 2,
        "serviceAccount": named("default") | {"imagePullSecrets": []},
        "limitRanges": [],
        "defaults": {"limits": {}, "requests": {}},
        "runtimeClass": None,
        "priorityClass": None,
        "admission": {"notReadySeconds": 300, "unreachableSeconds": 300},
        "execution": digest.input_fingerprint("execution", {}),
    }


def test_everything_that_is_named_is_in_it(bed: Bed) -> None:
    cluster = bed.cluster
    cluster.add("serviceaccounts", "orders", imagePullSecrets=[{"name": "pull"}])
    cluster.limit("small", default={"memory": "1Gi"}, defaultRequest={"cpu": "100m"})
    cluster.add(
        "runtimeclasses", "gvisor", handler="runsc", overhead={"podFixed": {"memory": "120Mi"}},
        scheduling={"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox"}]},
    )  # fmt: skip
    cluster.add("priorityclasses", "high", value=1000, preemptionPolicy="Never")
    found = bed.snapshot(
        serviceAccountName="orders", runtimeClassName="gvisor", priorityClassName="high"
    )
    assert found["serviceAccount"] == named("orders") | {"imagePullSecrets": ["pull"]}
    assert found["limitRanges"] == [named("small")]
    assert found["defaults"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m"}}
    assert found["runtimeClass"] == named("gvisor") | {
        "handler": "runsc", "scheduling": True, "overhead": {"memory": "120Mi"},
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [{"key": "sandbox"}],
    }  # fmt: skip
    assert found["priorityClass"] == named("high") | {
        "value": 1000, "preemptionPolicy": "Never", "globalDefault": False,
    }  # fmt: skip


def test_a_pods_own_pull_secrets_replace_the_accounts(bed: Bed) -> None:
    bed.cluster.add("serviceaccounts", "default", imagePullSecrets=[{"name": "pull"}])
    found = bed.snapshot(imagePullSecrets=[{"name": "own"}])
    assert found["serviceAccount"]["imagePullSecrets"] == []


def test_the_default_priority_class_counts_where_none_is_named(bed: Bed) -> None:
    bed.cluster.add("priorityclasses", "usual", value=5, globalDefault=True)
    bed.cluster.add("priorityclasses", "high", value=1000)
    found = bed.snapshot()["priorityClass"]
    assert (found["name"], found["value"], found["globalDefault"]) == ("usual", 5, True)
    assert found["preemptionPolicy"] == "PreemptLowerPriority"


@pytest.mark.parametrize("plural", ["serviceaccounts", "limitranges", "priorityclasses"])
def test_a_new_version_of_an_object_moves_the_digest(bed: Bed, plural: str) -> None:
    made = bed.cluster.add(plural, "default", value=1, globalDefault=True, spec={"limits": []})
    before = digest.admission_snapshot_digest(bed.snapshot())
    assert digest.admission_snapshot_digest(bed.snapshot()) == before
    made["metadata"]["resourceVersion"] = "2"
    assert digest.admission_snapshot_digest(bed.snapshot()) != before


def test_another_execution_moves_the_digest(bed: Bed) -> None:
    one, two = bed.snapshot(), bed.snapshot(nodeSelector={"disk": "fast"})
    assert digest.admission_snapshot_digest(one) != digest.admission_snapshot_digest(two)


def test_limit_ranges_that_agree_are_one(bed: Bed) -> None:
    bed.cluster.limit("b", default={"cpu": "1"})
    bed.cluster.limit("a", default={"cpu": "1", "memory": "1Gi"})
    bed.cluster.add("limitranges", "c", spec={"limits": [{"type": "Pod", "max": {"cpu": "9"}}]})
    found = bed.snapshot()
    assert found["defaults"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert [item["name"] for item in found["limitRanges"]] == ["a", "b", "c"]


def test_limit_ranges_that_disagree_are_refused_unless_the_container_says_itself(bed: Bed) -> None:
    bed.cluster.limit("a", default={"cpu": "1"}, defaultRequest={"cpu": "1"})
    bed.cluster.limit("b", default={"cpu": "2"}, defaultRequest={"cpu": "2"})
    found = bed.refusal()
    assert (found.reason, found.field) == ("ExecutionRefused", "spec.execution.resources")
    assert "a, b" in found.message and "cpu" in found.message
    assert bed.refusal(resources={"requests": {"cpu": "1"}}).message == found.message
    stated = bed.snapshot(resources={"limits": {"cpu": "1"}})
    assert stated["defaults"] == {"limits": {}, "requests": {}}


@pytest.mark.parametrize(
    ("execution", "kind", "name"),
    [
        ({"serviceAccountName": "absent"}, "ServiceAccount", "absent"),
        ({"runtimeClassName": "absent"}, "RuntimeClass", "absent"),
        ({"priorityClassName": "absent"}, "PriorityClass", "absent"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(
    bed: Bed, execution: dict[str, Any], kind: str, name: str
) -> None:
    found = bed.refusal(**execution)
    assert found.reason == "ExecutionRefused"
    assert kind in found.message and name in found.message
    assert found.field == f"spec.execution.{next(iter(execution))}"


def test_several_default_priority_classes_are_refused(bed: Bed) -> None:
    for name in ("one", "two"):
        bed.cluster.add("priorityclasses", name, value=1, globalDefault=True)
    assert "one, two" in bed.refusal().message


def test_a_runtime_class_for_other_nodes_is_refused(bed: Bed) -> None:
    scheduling = {"nodeSelector": {"sandbox": "yes"}}
    bed.cluster.add("runtimeclasses", "gvisor", handler="runsc", scheduling=scheduling)
    found = bed.refusal(runtimeClassName="gvisor", nodeSelector={"sandbox": "no"})
    assert "gvisor" in found.message and "sandbox" in found.message
    assert bed.snapshot(runtimeClassName="gvisor", nodeSelector={"sandbox": "yes"})


def test_a_request_above_the_limit_that_a_limit_range_sets_is_refused(bed: Bed) -> None:
    bed.cluster.limit("small", default={"memory": "1Gi"})
    found = bed.refusal(resources={"requests": {"memory": "1025Mi"}})
    assert found.field == "spec.execution.resources" and "small" in found.message
    assert bed.snapshot(resources={"requests": {"memory": "1024Mi"}})


def test_what_the_installation_declares_is_in_it_and_moves_the_digest(bed: Bed) -> None:
    before = digest.admission_snapshot_digest(bed.snapshot())
    bed.declare(not_ready_s=5, unreachable_s=None, plugins=frozenset({"AlwaysPullImages"}))
    found = bed.snapshot()
    assert found["admission"] == {
        "notReadySeconds": 5, "unreachableSeconds": None, "alwaysPullImages": True,
    }  # fmt: skip
    assert digest.admission_snapshot_digest(found) != before


def test_what_plugins_add_in_a_namespace_is_in_it(bed: Bed) -> None:
    bed.declare(plugins=frozenset({"PodNodeSelector", "PodTolerationRestriction"}))
    place = bed.cluster.add("namespaces", "team")
    assert bed.snapshot()["admission"]["nodeSelector"] == {}
    assert bed.snapshot()["admission"]["namespaceTolerations"] == []
    place["metadata"]["annotations"] = {
        NODE_SELECTOR: "disk=fast, zone=a", TOLERATIONS: '[{"operator": "Exists"}]',
    }  # fmt: skip
    found = bed.snapshot()["admission"]
    assert found["nodeSelector"] == {"disk": "fast", "zone": "a"}
    assert found["namespaceTolerations"] == [{"operator": "Exists"}]
    assert "zone" in bed.refusal(nodeSelector={"zone": "b"}).message


@pytest.mark.parametrize(
    ("annotation", "text"), [(NODE_SELECTOR, "nonsense"), (TOLERATIONS, "{}"), (TOLERATIONS, "x")]
)
def test_what_a_plugin_could_not_read_is_refused(bed: Bed, annotation: str, text: str) -> None:
    bed.declare(plugins=frozenset({"PodNodeSelector", "PodTolerationRestriction"}))
    bed.cluster.add("namespaces", "team")["metadata"]["annotations"] = {annotation: text}
    assert annotation in bed.refusal().message


@pytest.mark.parametrize("plural", ["serviceaccounts", "limitranges", "priorityclasses"])
def test_what_cannot_be_read_is_a_fault_and_no_refusal(bed: Bed, plural: str) -> None:
    bed.cluster.broken = plural
    with pytest.raises(PortError):
        bed.surroundings.snapshot("team", {})
