"""What counts as the policy that was rendered, whatever an API server adds to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.backends.kube import policies, stamps
from ptahk.backends.kube.inforce import same

USER = policies.manager("ptahk-system")
EVERY = [*policies.documents(USER), *stamps.documents(USER)]


def _id(item: dict[str, Any]) -> str:
    return f"{item['kind']}-{item['metadata']['name']}"


def _stored(spec: dict[str, Any]) -> dict[str, Any]:
    """As an API server gives it back: defaults are written into it."""
    found: dict[str, Any] = json.loads(json.dumps(spec))
    if "matchConstraints" in found:
        found["matchConstraints"] |= {"namespaceSelector": {}, "objectSelector": {}}
    return found


@pytest.mark.parametrize(
    "item", EVERY, ids=lambda item: f"{item['kind']}-{item['metadata']['name']}"
)
def test_what_was_rendered_is_known_again(item: dict[str, Any]) -> None:
    assert same(item["spec"], _stored(item["spec"]))


def _changed(value: Any) -> Iterator[Any]:
    """The value with one thing in it changed, taken out or added, at every place."""
    if isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
            for inner in _changed(value[key]):
                yield value | {key: inner}
        yield value | {"added": {"by": "somebody"}}
    elif isinstance(value, list):
        yield [*value, "added"]
        for index, item in enumerate(value):
            yield value[:index] + value[index + 1 :]
            for inner in _changed(item):
                yield [*value[:index], inner, *value[index + 1 :]]
    elif isinstance(value, bool):
        yield not value
    else:
        yield f"{value} "


@pytest.mark.parametrize(
    "item", EVERY, ids=lambda item: f"{item['kind']}-{item['metadata']['name']}"
)
def test_every_change_of_it_is_seen(item: dict[str, Any]) -> None:
    every = [
        changed
        for changed in _changed(json.loads(json.dumps(item["spec"])))
        if same(item["spec"], changed)
    ]
    assert every == []


def test_one_is_not_true() -> None:
    wanted = {"paramRef": {"selector": {}}}
    assert not same(wanted, copy.deepcopy(wanted) | {"validationActions": [True]})
    assert not same({"a": 1}, {"a": True})
