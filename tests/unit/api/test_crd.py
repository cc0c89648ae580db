"""The CRDs: structural, bounded everywhere, described, and of the same bounds as the codec."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from ptahk.api import crd
from ptahk.api.documents import read_documents
from ptahk.engine.families.schema import results
from ptahk.engine.model.fields import TEXT_MAX
from tests.kit.manifests import BAD, GOOD, Bad
from tests.kit.scenario import scenario

CRDS = {item["spec"]["names"]["kind"]: item for item in crd.documents()}
OPEN = {
    "spec.placeholders",
    *(
        f"status.{claim}.{field}"
        for claim in ("activeOperation", "pendingObservation")
        for field in ("inputs", "snapshot")
    ),
    "status.lastObservation",
    "status.lastPlan",
    "spec.binding",
    "spec.summary",
}
"""What holds JSON of others' making. Everything else is described to the last field."""


def root(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind in CRDS:
        for path, node in crd.walk(root(kind)):
            yield kind, path.lstrip("."), node


def test_every_text_list_and_map_is_bounded() -> None:
    for kind, path, node in nodes():
        if path in ("apiVersion", "kind", "metadata"):
            continue  # the API server's own
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, (kind, path)
        if node.get("type") == "array":
            assert "maxItems" in node, (kind, path)
        if node.get("type") == "object":
            assert "properties" in node or "maxProperties" in node, (kind, path)


def test_what_is_open_is_known_and_bounded() -> None:
    found = {path for _, path, node in nodes() if "x-kubernetes-preserve-unknown-fields" in node}
    assert found == OPEN
    for _, path, node in nodes():
        assert path not in OPEN or "maxProperties" in node


def test_every_field_of_a_spec_is_described() -> None:
    for kind, path, node in nodes():
        if not path.endswith("[]") and path.partition(".")[0] in ("spec", ""):
            assert node.get("description"), (kind, path)
            assert "``" not in node["description"] and "C-" not in node["description"], path


def test_nothing_is_filled_in_by_the_cluster() -> None:
    assert not [path for _, path, node in nodes() if "default" in node]


def test_names_columns_and_status() -> None:
    for kind, document in CRDS.items():
        version = document["spec"]["versions"][0]
        assert document["metadata"]["name"] == f"{document['spec']['names']['plural']}.ptahk.dev"
        assert document["spec"]["names"]["categories"] == ["ptahk"]
        columns = [item["name"] for item in version["additionalPrinterColumns"]]
        if kind in ("PtahSchema", "PtahMigration"):
            assert columns[:4] == ["Phase", "Ready", "Plan", "Age"]
            assert version["subresources"] == {"status": {}}
        else:
            rules = root(kind)["properties"]["spec"]["x-kubernetes-validations"]
            assert rules[-1]["rule"] == "self == oldSelf"
            assert "subresources" not in version
    short = [name for item in CRDS.values() for name in item["spec"]["names"]["shortNames"]]
    assert len(short) == len(set(short)) == 4


def objects(text: str) -> Iterator[dict[str, Any]]:
    for item in read_documents(text.encode(), "f.yaml"):
        if isinstance(item.value, dict) and item.value.get("kind") in CRDS:
            yield item.value


def complaints(document: dict[str, Any]) -> list[str]:
    """What plain JSON Schema finds, where unknown fields count: no CEL."""
    schema = json.loads(json.dumps(root(document["kind"])))
    for path, node in crd.walk(schema):
        if node.get("x-kubernetes-int-or-string"):
            node["type"] = ["integer", "string"]
        if "properties" in node and path != ".metadata":
            node["additionalProperties"] = False
    validator = jsonschema.Draft202012Validator(schema)
    return [error.json_path for error in validator.iter_errors(document)]


@pytest.mark.parametrize("text", GOOD)
def test_good_manifests_fit(text: str) -> None:
    for document in objects(text):
        assert complaints(document) == []


_CEL = ("exactly one", "effect NoExecute", "must have a key", "no value", "must fit", "local:",
        "204800 bytes")  # fmt: skip


def by_rule(bad: Bad) -> bool:
    """Refused by a CEL rule, which only an API server evaluates."""
    return any(words in bad.rule for words in _CEL)


@pytest.mark.parametrize("bad", [item for item in BAD if item.server], ids=lambda bad: bad.name)
def test_bad_manifests_do_not(bad: Bad) -> None:
    """All but what CEL rules and the API server's own metadata are for."""
    if by_rule(bad) or bad.field.startswith(".metadata"):
        return
    for document in objects(bad.text):
        assert complaints(document)


def test_a_rule_says_what_the_codec_says() -> None:
    """CEL messages are the codec's own words."""
    said = {
        rule["message"]
        for _, _, node in nodes()
        for rule in node.get("x-kubernetes-validations", ())
    }
    for bad in filter(by_rule, BAD):
        assert any(bad.rule in message for message in said), bad.name


def test_what_an_executor_says_fits_however_long_it_is() -> None:
    """A status that its CRD refuses would stand for ever."""
    world = scenario("a")
    process = world.process()
    world.ask("plan")
    process.until("WriteClaim")
    claim = world.status().active_operation
    assert claim is not None
    long = "x" * 100_000
    error = {"reason": long, "message": long, "exitCode": 5, "hint": long, "field": long}
    for kind in ("Plan", "Apply"):
        reading = results.read(
            dataclasses.replace(claim, type=kind), {"error": error, "result": None}, None
        )
        for text in (reading.outcome.reason, reading.outcome.message, reading.hint, reading.field):
            assert len(text or "") <= TEXT_MAX
