"""``ptahk census -f``: conflicts before a deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Ptahk

SCHEMA = """\
apiVersion: ptahk.dev/v1alpha1
kind: PtahSchema
metadata:
  name: {name}
  namespace: {namespace}
spec:
  target:
    engine: {engine}
    coordinationKey: {key}
    sharedRealm: {shared}
    urlFrom: {{name: db}}
  suspend: {suspend}
  desired:
    inline: CREATE TABLE t ();
"""
MIGRATION = """\
apiVersion: ptahk.dev/v1alpha1
kind: PtahMigration
metadata: {name: orders, namespace: app}
spec:
  target:
    engine: postgresql
    coordinationKey: production/orders
    urlFrom: {name: db}
  artifact:
    configMapRef: {name: migrations}
"""


def schema(name: str, key: str, **changes: str) -> str:
    values = {
        "namespace": "app",
        "engine": "postgresql",
        "shared": "false",
        "suspend": "false",
        **changes,
    }
    return SCHEMA.format(name=name, key=key, **values)


def stream(*documents: str) -> str:
    return "---\n".join(documents)


def test_two_claimants_of_one_realm_conflict(ptahk: Ptahk, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(schema("orders", "production/orders", engine="postgres"))
    (tmp_path / "b.yaml").write_text(stream(MIGRATION, schema("other", "production/other")))
    answer = ptahk.run("census", "-f", str(tmp_path), "-o", "json")
    assert answer.code == 1, answer
    document = answer.document("Census")
    assert document["summary"] == {"realms": 2, "claimants": 3, "conflicts": 1}
    first = document["realms"][0]
    assert (first["conflict"], first["reason"], first["lease"]) == (True, "RealmConflict", None)
    assert [(item["kind"], item["name"]) for item in first["claimants"]] == [
        ("PtahMigration", "orders"),
        ("PtahSchema", "orders"),
    ]
    only = ptahk.run("census", "-f", str(tmp_path), "--conflicts", "-o", "json")
    assert len(only.document("Census")["realms"]) == 1
    digest = ptahk.run("digest", "realm", "--engine", "postgresql", "--key", "production/orders")
    assert first["digest"] in digest.out


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({"shared": "true"}, {"shared": "true"}, 0),
        ({"shared": "true"}, {}, 1),
        ({"suspend": "true"}, {}, 0),
        ({"engine": "mysql"}, {}, 0),
        ({"engine": "PostgreSQL"}, {}, 1),
    ],
)
def test_what_is_a_conflict(
    ptahk: Ptahk, first: dict[str, str], second: dict[str, str], code: int
) -> None:
    text = stream(schema("a", "k", **first), schema("b", "k", **second))
    answer = ptahk.run("census", "-f", "-", "-o", "json", stdin=text)
    assert answer.code == code, answer
    answer.document("Census")


def test_the_table(ptahk: Ptahk) -> None:
    answer = ptahk.run("census", "-f", "-", stdin=stream(schema("a", "k"), schema("b", "k")))
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0].endswith("postgresql  CONFLICT (RealmConflict)")
    assert lines[1:] == [
        "  PtahSchema app/a",
        "  PtahSchema app/b",
        "1 realm, 2 claimants, 1 conflict.",
    ]


def test_yaml_output_is_the_same_document(ptahk: Ptahk) -> None:
    import yaml

    text = schema("a", "k")
    as_json = ptahk.run("census", "-f", "-", "-o", "json", stdin=text).document("Census")
    assert yaml.safe_load(ptahk.run("census", "-f", "-", "-o", "yaml", stdin=text).out) == as_json


def test_a_state_directory_is_not_needed(ptahk: Ptahk) -> None:
    answer = ptahk.run("census", "-f", "-", stdin=schema("a", "k"), PTAHK_STATE="/proc/nowhere")
    assert answer.code == 0
    assert not ptahk.state.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("apiVersion: ptahk.dev/v1alpha1\nkind: PtahSchema\nspec: {}\n", "metadata"),
        (schema("a", "k").replace("suspend", "suspended"), "-:12, .spec.suspended"),
        (stream(schema("a", "k"), schema("a", "k")), "stands twice"),
        ("a: [", "-:"),
        ("{a: 1, a: 2}", "-:1"),
    ],
)
def test_bad_manifests_name_file_and_line(ptahk: Ptahk, text: str, words: str) -> None:
    answer = ptahk.run("census", "-f", "-", stdin=text)
    assert words in answer.refusal(2)
    assert answer.out == ""


def test_missing_manifests(ptahk: Ptahk, tmp_path: Path) -> None:
    assert "No such file" in ptahk.run("census", "-f", str(tmp_path / "x")).refusal(2)
    assert "holds no" in ptahk.run("census", "-f", str(tmp_path)).refusal(2)
    answer = ptahk.run("census", "-o", "json", HOME=str(tmp_path))
    assert "there is no kubeconfig" in answer.refusal(2, "InvalidInput")
