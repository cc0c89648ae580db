"""``ptahk migrate`` as real processes: documents, exit codes, a pull request."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from tests.cli.kit import Ptahk, validator


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*.sql"))
    }


def fill(folder: Path, texts: dict[str, str]) -> str:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def test_from_an_empty_directory_to_a_checked_one(ptahk: Ptahk, tmp_path: Path) -> None:
    directory = fill(tmp_path / "migrations", {".keep": ""})
    empty = ptahk.run("migrate", "validate", directory, "--engine", "postgresql")
    assert (empty.code, "MG101" in empty.out, "migrate new" in empty.out) == (1, True, True)
    made = ptahk.run("migrate", "new", "create_t", "--migrations", directory, "-o", "json")
    document = made.document("DirectoryChange")
    (name,) = document["written"]
    assert (made.code, document["format"], document["sum"]) == (0, "ptahk", "ptahk.sum")
    (Path(directory) / name).write_text("CREATE TABLE t (a int);\nCREATE TABLE u ();\n")
    stale = ptahk.run("migrate", "validate", directory, "--engine", "postgresql", "-o", "json")
    (finding,) = stale.document("Validation")["findings"]
    assert (stale.code, finding["number"], finding["file"]) == (1, "MG111", name)
    assert ptahk.run("migrate", "hash", directory, "--check").code == 1
    assert ptahk.run("migrate", "hash", directory).code == 0
    good = ptahk.run("migrate", "validate", directory, "--engine", "postgresql", "-o", "json")
    summary = good.document("Validation")
    assert (good.code, summary["summary"]["statements"]) == (0, 2)
    digest = ptahk.run("digest", "sequence", directory, "--engine", "postgresql", "-o", "json")
    assert digest.document("Digest")["digest"] == summary["sequence"]
    shown = ptahk.run(
        "migrate", "show", name.split("_")[0], "--migrations", directory, "--engine", "postgresql",
        "-o", "json",
    )  # fmt: skip
    statements = shown.document("Migration")["statements"]
    assert [(each["line"], each["unit"]) for each in statements] == [(1, 1), (2, 1)]


def test_findings_as_sarif(ptahk: Ptahk, tmp_path: Path) -> None:
    directory = fill(tmp_path, {"1_a.sql": "SELECT 1;\n  DISCARD ALL;\n"})
    answer = ptahk.run("migrate", "validate", directory, "--engine", "postgres", "-o", "sarif")
    (run,) = json.loads(answer.out)["runs"]
    assert answer.code == 1
    places = [
        (each["ruleId"], each["level"], each["locations"][0]["physicalLocation"]["region"])
        for each in run["results"]
    ]
    region = {"startLine": 2, "startColumn": 3}
    assert places == [("MG401", "error", region), ("MG403", "error", region)]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {"MG401", "MG403"}


def git(folder: Path, *arguments: str) -> None:
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
    }  # fmt: skip
    subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, env=environment, capture_output=True
    )


def test_a_late_merge_is_found_without_a_database_and_mended(ptahk: Ptahk, tmp_path: Path) -> None:
    root = tmp_path / "repository"
    directory = fill(root / "db", {"1_a.sql": "SELECT 1;\n", "2_b.sql": "SELECT 2;\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "branch")
    fill(root / "db", {"3_c.sql": "SELECT 3;\n"})
    git(root, "add", ".")
    git(root, "commit", "-qm", "branch")
    check = ("migrate", "validate", directory, "--engine", "postgresql", "--base", "main")
    assert ptahk.run(*check).code == 0
    git(root, "checkout", "-q", "main")
    fill(root / "db", {"4_d.sql": "SELECT 4;\n"})
    git(root, "add", ".")
    git(root, "commit", "-qm", "main")
    git(root, "checkout", "-q", "branch")
    late = ptahk.run(*check)
    assert late.code == 1
    assert "MG503" in late.out and "4_d.sql" in late.out and "migrate rebase 3" in late.out
    git(root, "merge", "-q", "main")
    moved = ptahk.run("migrate", "rebase", "3", "--migrations", directory, "-o", "json")
    assert moved.document("DirectoryChange")["renamed"] == [{"from": "3_c.sql", "to": "5_c.sql"}]
    assert ptahk.run(*check).code == 0
    fill(root / "db", {"2_b.sql": "SELECT 22;\n"})
    edited = ptahk.run(*check)
    assert (edited.code, "2_b.sql:1:1: error MG501" in edited.out) == (1, True)
    nowhere = ptahk.run(*check[:-1], "nowhere")
    assert (nowhere.code, "nowhere" in nowhere.err) == (2, True)


def test_what_is_no_directory_is_named_and_nothing_is_written(ptahk: Ptahk, tmp_path: Path) -> None:
    missing = ptahk.run("migrate", "validate", str(tmp_path / "no"), "--engine", "mysql")
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    two = fill(tmp_path / "two", {"1_a.up.sql": "SELECT 1;", "V1__a.sql": "SELECT 1;"})
    before = tree(tmp_path / "two")
    for command in (("new", "x", "--migrations", two), ("hash", two), ("rebase", "1",
                    "--migrations", two)):  # fmt: skip
        answer = ptahk.run("migrate", *command)
        assert (answer.code, "two layouts" in answer.err) == (2, True), answer.err
    assert tree(tmp_path / "two") == before
    big = tmp_path / "big"
    big.mkdir()
    with (big / "1_a.sql").open("wb") as handle:
        handle.truncate(100 * 1024 * 1024)
    answer = ptahk.run("migrate", "validate", str(big), "--engine", "mysql")
    assert (answer.code, "MG107" in answer.out) == (1, True)


BAD = {
    "empty": ({".keep": ""}, "MG101"),
    "nothing": ({"README.md": "x"}, "MG101"),
    "two layouts": ({"1_a.up.sql": "SELECT 1;", "V1__a.sql": "SELECT 1;"}, "MG104"),
    "two markers": ({"1_a.sql": "-- +goose Up\n", "2_b.sql": "-- migrate:up\n"}, "MG104"),
    "unexplained": ({"1_a.sql": "SELECT 1;", "notes.sql": "SELECT 1;"}, "MG102"),
    "twice": ({"1_a.sql": "SELECT 1;", "01_b.sql": "SELECT 1;"}, "MG103"),
    "digits": ({"1" * 40 + "_a.sql": "SELECT 1;"}, "MG108"),
    "code": ({"V1__a.sql": "SELECT 1;", "beforeMigrate.sql": "SELECT 1;"}, "MG109"),
    "bytes": ({"1_a.sql": b"SELECT 1;\nSELECT '\xff';"}, "1_a.sql:2:9: byte 0xff"),
    "NUL": ({"1_a.sql": b"SELECT 1;\0"}, "1_a.sql:1:10: the file holds a NUL"),
}
COMMANDS = (
    ("plan", "--migrations"), ("apply", "--auto-approve", "--migrations"),
    ("observe", "--migrations"), ("baseline", "--to", "1", "--migrations"),
    ("migrate", "status"), ("migrate", "repair", "1", "--accept-edit", "--migrations"),
    ("acknowledge", "migration/default", "--operation", "0" * 32, "--abandon", "--reason", "x",
     "--migrations"),
)  # fmt: skip


def refused_unwritten(user: Ptahk, tmp_path: Path, what: str, command: tuple[str, ...]) -> None:
    """No claim, no state, no connection: nobody listens at that URL."""
    files, words = BAD[what]
    place = tmp_path / "bad"
    place.mkdir(exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (place / name).write_bytes(data)
    scheme = "mysql" if what in ("digits", "unexplained") else "postgresql"
    url = f"{scheme}://u@127.0.0.1:1/d"
    answer = user.run(*command, str(place), "-o", "json", DATABASE_URL=url)
    assert words in answer.refusal(2, "InvalidSource")
    assert not user.state.exists()


@pytest.mark.parametrize("what", BAD)
def test_a_bad_directory_is_refused_before_anything_is_written(
    ptahk: Ptahk, tmp_path: Path, what: str
) -> None:
    refused_unwritten(ptahk, tmp_path, what, ("apply", "--auto-approve", "--migrations"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_begins_anything_over_a_bad_directory(
    ptahk: Ptahk, tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused_unwritten(ptahk, tmp_path, "two layouts", command)


def test_the_schemas_say_what_no_document_may_hold() -> None:
    for kind in ("Validation", "DirectoryChange", "Migration"):
        found = list(validator(kind).iter_errors({"kind": kind}))
        assert any(isinstance(each, jsonschema.ValidationError) for each in found)
