"""The policies name what the builder builds: neither can move without the other."""

from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.backends.kube import pod, policies, policy, stamps
from tests.kit import policybed

USER = policies.manager("ptahk-system")


def _every() -> list[dict[str, Any]]:
    made = (*policies.documents(USER), *stamps.documents(USER), *stamps.stamping())
    return [*made, *stamps.other_person()]


def _policy(name: str) -> dict[str, Any]:
    return next(
        item
        for item in _every()
        if item["metadata"]["name"] == name and not item["kind"].endswith("Binding")
    )


def _texts() -> str:
    rules = _policy("ptahk-job-create")["spec"]["validations"]
    return "\n".join(rule["expression"] for rule in rules)


@pytest.mark.parametrize("name", pod.JOB_FIELDS)
def test_every_field_of_a_job_has_a_rule(name: str) -> None:
    """A field that is only allowed, and bounded by nothing, is a hole."""
    assert name in policies.JOB_CHECKED, f"{name} has no rule in the policy of Jobs"


def test_no_rule_is_about_a_field_that_no_job_has() -> None:
    assert set(pod.JOB_FIELDS) == policies.JOB_CHECKED


def test_what_is_built_is_within_the_names_of_the_policy() -> None:
    made = policybed.job("shop")
    assert set(made["spec"]) <= set(pod.JOB_FIELDS)
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert {item["name"] for item in container["env"]} <= set(policies.ENVIRONMENT)
    text = _texts()
    for names in (pod.JOB_FIELDS, pod.POD_FIELDS, pod.CONTAINER_FIELDS, pod.VOLUME_KINDS):
        assert policy.literal(list(names))[1:-1] in text
    for constants in (pod.JOB_CONSTANTS, pod.POD_CONSTANTS):
        for name, value in constants.items():
            assert f"['{name}'] == {policy.literal(value)}" in text


def test_a_field_that_the_builder_gains_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod, "JOB_FIELDS", (*pod.JOB_FIELDS, "successPolicy"))
    assert not policies.JOB_CHECKED.issuperset(pod.JOB_FIELDS)


def test_every_policy_fails_closed() -> None:
    named = {item["metadata"]["name"] for item in _every()}
    assert all(name.startswith("ptahk-") for name in named)
    for item in _every():
        if item["kind"].endswith("Binding"):
            assert item["spec"]["policyName"] == item["metadata"]["name"]
            assert item["spec"].get("validationActions", ["Deny"]) == ["Deny"]
            assert item["spec"].get("matchResources") is None, "nothing narrows a guard"
        else:
            assert item["spec"]["failurePolicy"] == "Fail"
            matched = item["spec"]["matchConstraints"]
            assert not {"namespaceSelector", "objectSelector"} & set(matched)
            assert len(item["spec"].get("matchConditions", ())) <= 1
    bound = [item["spec"]["policyName"] for item in _every() if item["kind"].endswith("Binding")]
    assert sorted(bound) == sorted(named), "one binding each"


def test_no_text_is_read_by_helm() -> None:
    assert "{{" not in "".join(_strings(_every()))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("value", [None, 1.5, "it's", "back\\slash", {1, 2}])
def test_what_cel_cannot_spell_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        policy.literal(value)
