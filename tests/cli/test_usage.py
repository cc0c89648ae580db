"""What the caller gets wrong: one clear line, exit code 2, nothing started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Ptahk

COMMANDS = ("plan", "apply", "observe", "status", "history", "approve")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_manifest_alone_means_the_cluster(ptahk: Ptahk, tmp_path: Path, command: str) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text("")
    answer = ptahk.run(
        command, "-f", str(manifest), "-o", "json",
        DATABASE_URL="postgresql://h/d", HOME=str(tmp_path),
    )  # fmt: skip
    line = answer.refusal(2, "InvalidInput")
    assert "there is no kubeconfig" in line and "--local" in line
    assert not ptahk.state.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "--local"), "no database URL"),
        (("plan", "--schema", "x.sql", "--url-env", "postgresql://u:hunter2@h/d"), "not a URL"),
        (("plan", "--schema", "x.sql", "--url-env", "NOT_SET"), "NOT_SET"),
        (("plan", "--local", "table/x"), "unknown kind"),
        (("plan", "--local", "-o", "xml"), "xml"),
        (("plan", "--local", "--nonsense"), "--nonsense"),
        (("plan", "--local", "--deadline", "5"), "deadline"),
        (("apply", "--local", "--approve", "x"), "fingerprint"),
        (("apply", "--local", "--approve", "x", "--auto-approve"), "use one"),
        (("apply", "--local", "--plan", "x", "--schema", "y"), "--plan and a declaration"),
        (("observe", "--local", "--severity", "huge"), "huge"),
        (("planx",), "planx"),
    ],
)
def test_one_clear_line(ptahk: Ptahk, arguments: tuple[str, ...], words: str) -> None:
    answer = ptahk.run(*arguments)
    line = answer.refusal(2)
    assert words in line
    assert "hunter2" not in answer.out + answer.err
    assert answer.out == ""
    assert not ptahk.state.exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@a,b/d",
        "postgresql://u:hunter2@h:1,2/d",
        "postgresql://u:hunter2@h/d?user=x",
        "postgresql://u:hunter2@h/d?sslmode=require&sslmode=disable",
        "postgresql://u:hunter2@h/d?service=x",
        "postgresql://u:hun#ter2@h/d",
        "postgresql://u:hun@ter2@h/d",
        "postgresql://u:hun/ter2@h/d",
        "postgresql://u:hunter2@h/d\n",
        "postgresql://u:hunter2@h",
        "mysql://u:hunter2@h/d?multiStatements=true",
        "mysql://u:hunter2@h",
        "mariadb://u:hun#ter2@h/d",
        "oracle://u:hunter2@h/d",
        "hunter2",
    ],
)
def test_a_bad_url_is_refused_without_its_password(ptahk: Ptahk, tmp_path: Path, url: str) -> None:
    schema = tmp_path / "schema.sql"
    schema.write_text("")
    answer = ptahk.run("plan", "--schema", str(schema), DATABASE_URL=url)
    answer.refusal(2)
    for secret in ("hunter2", "ter2", "hun"):
        assert secret not in answer.out + answer.err
    assert not ptahk.state.exists()


def test_nothing_declared(ptahk: Ptahk) -> None:
    answer = ptahk.run("plan", "--local", "-o", "json", DATABASE_URL="postgresql://u@h/d")
    assert "nothing is declared" in answer.refusal(2, "SourceMissing")


def test_a_missing_schema_file(ptahk: Ptahk) -> None:
    answer = ptahk.run("plan", "--schema", "nowhere.sql", DATABASE_URL="postgresql://u@h/d")
    assert "nowhere.sql" in answer.refusal(2)


def test_status_of_an_empty_state_directory(ptahk: Ptahk) -> None:
    answer = ptahk.run("status", "--local", "-o", "json")
    assert answer.code == 0, answer
    assert answer.document("Status")["resources"] == []
    assert "no such resource" in ptahk.run("status", "schema/x", "--local").refusal(2)
    assert "no such resource" in ptahk.run("approve", "--local").refusal(2)
    assert "no such resource" in ptahk.run("history", "--local").refusal(2)
