"""What an API server makes of a template, computed: against a recorded Pod, and rule by rule."""

import copy
from typing import Any

import pytest

from ptahk.engine.admission import final
from tests.kit.reviews import recorded

EXISTS: dict[str, Any] = {"operator": "Exists"}
BATCH: dict[str, Any] = {"key": "batch", "operator": "Exists", "effect": "NoSchedule"}


def snapshot(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": 2,
        "serviceAccount": {"imagePullSecrets": []},
        "limitRanges": [],
        "defaults": {"limits": {}, "requests": {}},
        "runtimeClass": None,
        "priorityClass": None,
        "admission": final.behaviour(None, None),
    }
    return found | changes


def template(resources: Any = None, **changes: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "runner", "resources": resources or {}}
    return {"metadata": {}, "spec": {"containers": [container], **changes}}


def tolerations(*given: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    found = final.spec(template(tolerations=list(given)), snapshot(**changes))
    return list(found.get("tolerations", []))


def scheduling(*tolerated: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "overhead": {}, "scheduling": True, "nodeSelector": {}, "tolerations": list(tolerated),
    } | more  # fmt: skip


def test_the_recorded_pod_is_what_is_foretold() -> None:
    found = recorded()
    claim = found.resource["status"]["activeOperation"]
    stored = found.job["spec"]["template"]
    before = copy.deepcopy(stored)
    assert final.spec(stored, claim["snapshot"]) == found.pod["spec"]
    annotations = final.annotations(stored, claim["snapshot"])
    assert annotations == found.pod["metadata"]["annotations"]
    assert final.quality(found.pod["spec"]) == found.pod["status"]["qosClass"]
    assert stored == before, "nothing is changed"


def test_a_request_comes_from_the_limit_before_any_default() -> None:
    defaults = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    stored = template({"limits": {"cpu": "2"}})
    found = final.spec(stored, snapshot(defaults=defaults))["containers"][0]["resources"]
    assert found == {
        "limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"},
    }  # fmt: skip
    text = final.annotations(stored, snapshot(defaults=defaults))[final.LIMIT_RANGER]
    assert text == (
        "LimitRanger plugin set: memory request for container runner; "
        "memory limit for container runner"
    )
    assert final.annotations(stored, snapshot()) == {}


def test_default_tolerations_are_added_unless_the_taint_is_tolerated() -> None:
    admission = final.behaviour(300, 200)
    added = tolerations(BATCH, admission=admission)
    assert [item["key"] for item in added] == ["batch", final.NOT_READY, final.UNREACHABLE]
    assert [item.get("tolerationSeconds") for item in added] == [None, 300, 200]
    own = {"key": final.NOT_READY, "operator": "Exists", "effect": "NoExecute"}
    assert [item["key"] for item in tolerations(own, admission=admission)] == [
        final.NOT_READY, final.UNREACHABLE,
    ]  # fmt: skip
    assert tolerations(EXISTS, admission=admission) == [EXISTS]
    assert tolerations(admission=final.behaviour(300, None))[0]["key"] == final.NOT_READY
    assert tolerations() == []


def test_a_runtime_class_tidies_up_all_tolerations() -> None:
    assert tolerations(BATCH, BATCH) == [BATCH, BATCH]
    assert tolerations(BATCH, BATCH, runtimeClass=scheduling()) == [BATCH]
    assert tolerations(BATCH, runtimeClass=scheduling(EXISTS)) == [EXISTS]
    whole = {"key": "a", "operator": "Equal", "value": "1"}
    part = whole | {"effect": "NoSchedule"}
    assert tolerations(part, runtimeClass=scheduling(whole)) == [whole]
    longer = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}
    shorter = longer | {"tolerationSeconds": 5}
    assert tolerations(longer, runtimeClass=scheduling(shorter)) == [longer]
    assert tolerations(shorter, runtimeClass=scheduling(longer)) == [longer]
    idle = scheduling(BATCH, scheduling=False)
    assert tolerations(runtimeClass=idle) == []


def test_selectors_are_merged_and_overhead_is_set() -> None:
    stored = template(nodeSelector={"a": "1"})
    kind = scheduling(nodeSelector={"b": "2"}, overhead={"cpu": "250m"})
    admission = final.behaviour() | {"nodeSelector": {"c": "3"}}
    found = final.spec(stored, snapshot(runtimeClass=kind, admission=admission))
    assert found["nodeSelector"] == {"a": "1", "b": "2", "c": "3"}
    assert found["overhead"] == {"cpu": "250m"}
    assert "nodeSelector" not in final.spec(template(), snapshot())


def test_plugins_that_are_switched_on() -> None:
    stored = template({"requests": {"example.com/gpu": "1", "hugepages-2Mi": "2Mi", "cpu": "1"}})
    admission = final.behaviour(
        None, None, always_pull_images=True, extended_resource_toleration=True
    )
    found = final.spec(stored, snapshot(admission=admission))
    assert found["containers"][0]["imagePullPolicy"] == "Always"
    assert [item["key"] for item in found["tolerations"]] == ["example.com/gpu"]
    of_namespace = final.behaviour(None, None) | {"namespaceTolerations": [BATCH]}
    assert tolerations(admission=of_namespace) == [BATCH]
    found = final.spec(stored, snapshot(admission=of_namespace))
    assert [item["key"] for item in found["tolerations"]] == ["batch", final.MEMORY_PRESSURE]


def test_priority_and_account() -> None:
    plain = final.spec(template(), snapshot())
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert plain["serviceAccountName"] == plain["serviceAccount"] == "default"
    assert "priorityClassName" not in plain
    kind = {"name": "usual", "value": 5, "preemptionPolicy": "Never"}
    found = final.spec(template(), snapshot(priorityClass=kind))
    assert (found["priorityClassName"], found["priority"]) == ("usual", 5)
    account = {"imagePullSecrets": ["a"]}
    assert final.spec(template(), snapshot(serviceAccount=account))["imagePullSecrets"] == [
        {"name": "a"}
    ]
    own = template(imagePullSecrets=[{"name": "own"}])
    assert final.spec(own, snapshot(serviceAccount=account))["imagePullSecrets"] == [
        {"name": "own"}
    ]


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}},
         "Guaranteed"),
    ],
)  # fmt: skip
def test_quality_of_service(resources: dict[str, Any], wanted: str) -> None:
    assert final.quality({"containers": [{"resources": resources}]}) == wanted


@pytest.mark.parametrize("key", ["defaults", "serviceAccount", "admission", "runtimeClass"])
def test_a_damaged_snapshot_is_said(key: str) -> None:
    damaged = snapshot()
    del damaged[key]
    with pytest.raises(final.Unforeseen):
        final.spec(template(), damaged)


def test_differences_are_strict_and_name_paths_alone() -> None:
    wanted = {"a": 1, "b": [1, 2], "c": {"d": "secret"}, "e": None}
    found = {"a": True, "b": [1], "c": {"d": "other", "x": 1}}
    assert list(final.differences(wanted, found)) == [
        "a was changed", "b[1] was taken out", "c.d was changed", "c.x was added",
        "e was taken out",
    ]  # fmt: skip
    assert list(final.differences({"a": 1}, {"a": 1.0})) == ["a was changed"]
    assert final.told(["x"] * 8) == "x; x; x; x; x; and 3 more"
