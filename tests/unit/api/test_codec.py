"""Manifests: what is read, what is refused, and how the place is named."""

import json
from typing import Any

import pytest

from ptahk.api.codec import read_manifests
from ptahk.engine.model.migration import MigrationSpec
from ptahk.engine.model.plan import ApprovalSpec
from ptahk.engine.model.resource import SchemaSpec
from ptahk.errors import UsageError

SCHEMA = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahSchema
metadata:
  name: orders
  namespace: shop
  labels: {team: billing}
spec:
  target:
    engine: postgresql
    coordinationKey: production/orders
    sharedRealm: true
    urlFrom: {name: orders-db, key: url}
  desired:
    inline: |
      CREATE TABLE t (a int);
  policy:
    apply: Always
    lockTimeout: 5s
    exclude: ["audit.*"]
    renames: [{from: public.a, to: public.b}]
  execution: {activeDeadlineSeconds: 60}
"""

MIGRATION = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahMigration
metadata: {name: orders}
spec:
  target: {engine: mysql, coordinationKey: k}
  artifact: {configMapRef: {name: files}}
  policy: {ahead: Accept}
  placeholders: {a: b}
  suspend: true
"""

APPROVAL = f"""
apiVersion: ptahk.dev/v1alpha1
kind: PtahApproval
metadata: {{name: yes-1}}
spec:
  resource: {{kind: PtahSchema, name: orders, uid: u}}
  plan: {{name: p, uid: v}}
  fingerprint: sha256:{"0" * 64}
  approver: {{username: ann}}
"""


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


def change(old: str, new: str, text: str = SCHEMA) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "line", "field", "rule"),
    [
        (change("lockTimeout: 5s", "lockTimeuot: 5s"), 19, ".spec.policy.lockTimeuot", "unknown"),
        (change("lockTimeout: 5s", "lockTimeout: s3cret"), 19, ".spec.policy.lockTimeout", "durat"),
        (change("apply: Always", "apply: s3cret"), 18, ".spec.policy.apply", "must be one of"),
        (change("sharedRealm: true", "sharedRealm: yes"), 12, ".target.sharedRealm", "true or"),
        (change("activeDeadlineSeconds: 60", "activeDeadlineSeconds: 29"), 22, "", "between 30"),
        (change('["audit.*"]', "audit"), 20, ".spec.policy.exclude", "must be a list"),
        (change('["audit.*"]', "[1]"), 20, ".spec.policy.exclude[0]", "must be text"),
        (change("engine: postgresql", "engine: oracle"), 9, ".spec.target", "engine"),
        (change("Key: production/orders", "Key: 'local:x'"), 11, ".coordinationKey", "local:"),
        (change("    coordinationKey: production/orders\n", ""), 9, "coordinationKey", "required"),
        (change("inline: |", "ociRef: {reference: r}\n    inline: |"), 14, ".desired", "exactly"),
        (change("kind: PtahSchema", "kind: PtahThing"), 3, ".kind", "must be one of"),
        (change("v1alpha1", "v9"), 2, ".apiVersion", "must be ptahk.dev/v1alpha1"),
        (change("name: orders\n", "name: Orders\n"), 5, ".metadata.name", "DNS"),
        (change("namespace: shop", "namespace: a.b"), 6, ".metadata.namespace", "DNS"),
        (change("namespace: shop", "nmspace: shop"), 6, ".metadata.nmspace", "unknown"),
        (change("team: billing", "team: [1]"), 7, ".metadata.labels", "texts"),
        (change("team: billing", "'a b': c"), 7, ".metadata.labels", "qualified"),
        (change("spec:\n", "sepc:\n"), 8, ".sepc", "unknown"),
        (change("name: orders-db", f"name: {'x' * 5000}"), 13, ".spec.target.urlFrom.name", "most"),
        ("- a\n", 1, "document", "an object"),
        ("a: 1\n", 1, ".apiVersion", "required"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, line: int, field: str, rule: str) -> None:
    error = refusal(text)
    assert f"f.yaml:{line}," in error.message
    assert field in str(error.field)
    assert rule in error.message
    assert "s3cret" not in error.message


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
