"""Manifests: what is read, what is refused, and how the place is named."""

import json
from typing import Any

import pytest

from ptahk.api.codec import read_manifests
from ptahk.engine.model.migration import MigrationSpec
from ptahk.engine.model.plan import ApprovalSpec
from ptahk.engine.model.resource import SchemaSpec
from ptahk.errors import UsageError
from tests.kit.manifests import APPROVAL, BAD, GOOD, MIGRATION, SCHEMA, Bad, change


def read(text: str, **options: Any) -> Any:
    return read_manifests(text.encode(), "f.yaml", **options)


def refusal(text: str, **options: Any) -> UsageError:
    with pytest.raises(UsageError) as raised:
        read(text, **options)
    assert raised.value.exit_code == 2
    return raised.value


def test_all_kinds_in_one_file() -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {url: s3cret}\n"
    manifests = read("---".join([SCHEMA, MIGRATION, APPROVAL, "\n" + secret]))
    assert manifests.others == 1
    schema, migration, approval = manifests.found
    assert isinstance(schema.spec, SchemaSpec)
    assert (schema.namespace, schema.name, schema.labels) == ("shop", "orders", {"team": "billing"})
    assert schema.spec.target.shared_realm
    assert schema.spec.policy.lock_timeout == 5.0
    assert schema.spec.policy.renames[0].new == "public.b"
    assert schema.spec.desired is not None
    assert schema.spec.desired.inline == "CREATE TABLE t (a int);\n"
    assert schema.document["spec"]["policy"]["lockTimeout"] == "5s"
    assert schema.where == "f.yaml:2"
    assert isinstance(migration.spec, MigrationSpec)
    assert (migration.namespace, migration.spec.suspend) == (None, True)
    assert migration.spec.policy.ahead == "Accept"
    assert isinstance(approval.spec, ApprovalSpec)


def test_json_and_lists() -> None:
    item = read(SCHEMA).found[0].document
    assert read(json.dumps(item)).found[0].spec == read(SCHEMA).found[0].spec
    several = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [item, {"apiVersion": "v1", "kind": "X"}],
    }
    manifests = read(json.dumps(several))
    assert (len(manifests.found), manifests.others) == (1, 1)


def test_what_kubectl_adds_is_read_past() -> None:
    exported = SCHEMA.replace(
        "  name: orders\n",
        "  name: orders\n  uid: a\n  resourceVersion: '4'\n  generation: 3\n"
        "  creationTimestamp: 2026-01-01T00:00:00Z\n  managedFields: [{manager: x}]\n",
    )
    found = read(exported + "status: {phase: InSync}\n").found[0]
    assert sorted(found.document["metadata"]) == ["labels", "name", "namespace"]
    assert "status" not in found.document


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_what_is_refused(bad: Bad) -> None:
    error = refusal(bad.text)
    assert f"f.yaml:{bad.line}," in error.message
    assert bad.field in str(error.field)
    assert bad.rule in error.message
    assert "s3cret" not in error.message


@pytest.mark.parametrize("text", GOOD)
def test_what_is_read(text: str) -> None:
    assert len(read(text).found) == 1


def test_an_inline_declaration_is_bounded() -> None:
    large = change("CREATE TABLE t (a int);", "-- " + "x" * 200 * 1024)
    assert ".spec.desired" in str(refusal(large).field)
    assert read(change("CREATE TABLE t (a int);", "-- " + "x" * 190 * 1024)).found


def test_a_resource_stands_once() -> None:
    error = refusal(SCHEMA + "---" + SCHEMA)
    assert "stands twice (f.yaml:2, f.yaml:" in error.message
    assert len(read(SCHEMA + "---" + change("namespace: shop", "namespace: other")).found) == 2


def test_a_local_command_may_bring_the_key_itself() -> None:
    text = change("    coordinationKey: production/orders\n", "")
    found = read(text, key_needed=False).found[0]
    assert not found.spec.target.explicit_key
    assert "coordinationKey" not in found.document["spec"]["target"]


def test_a_refused_item_of_a_list_is_named() -> None:
    item = json.loads(json.dumps(read(SCHEMA).found[0].document))
    item["spec"]["suspend"] = "s3cret"
    error = refusal(json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}))
    assert error.field == ".items[0].spec.suspend"
