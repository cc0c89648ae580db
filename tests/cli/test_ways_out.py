"""Every way out of the program has its exit code and one line, never a traceback (cli.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ptahk.cli import COMMANDS, error_document, error_line, read_wishes
from ptahk.errors import Refused
from tests.cli.kit import PTAHK, ROOT, Ptahk

# A process whose command fails as told, behind the real ``main``.
FAILING = """
import os, signal, sys, types
from ptahk import cli
module = types.ModuleType("failing")
def failing(verbose: bool = False, output: str = "table") -> None:
    {body}
module.failing = failing
sys.modules["failing"] = module
cli.COMMANDS["failing"] = ("failing", "failing", "x")
sys.exit(cli.main(["failing", *sys.argv[1:]]))
"""


def fail(ptahk: Ptahk, body: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FAILING.format(body=body), *arguments],
        env=ptahk.env(env),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_help_lists_every_command_and_hides_the_processes(ptahk: Ptahk) -> None:
    answer = ptahk.run("--help")
    assert answer.code == 0
    for name in COMMANDS:
        assert f"  {name} " in answer.out
    assert "executor" not in answer.out


def test_no_arguments(ptahk: Ptahk) -> None:
    answer = ptahk.run()
    assert (answer.code, answer.out) == (2, "")
    assert "Usage: ptahk" in answer.err


def test_version(ptahk: Ptahk) -> None:
    answer = ptahk.run("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("ptahk ")


@pytest.mark.parametrize("arguments", [("plam",), ("--bogus",), ("digest", "realm", "--bogus")])
def test_usage_errors(ptahk: Ptahk, arguments: tuple[str, ...]) -> None:
    answer = ptahk.run(*arguments)
    answer.refusal(2)
    assert answer.out == ""
    ptahk.run(*arguments, "-o", "json").document("Error")


def test_a_near_name_is_suggested(ptahk: Ptahk) -> None:
    assert "Did you mean 'plan'?" in ptahk.run("plam").err


def test_a_fault_of_our_own(ptahk: Ptahk) -> None:
    ended = fail(ptahk, "raise ValueError('x')")
    assert (ended.returncode, ended.stdout) == (70, "")
    assert ended.stderr.startswith("error: a fault of our own (ValueError): x.")
    assert ended.stderr.count("\n") == 1


def test_verbose_shows_the_traceback(ptahk: Ptahk) -> None:
    ended = fail(ptahk, "raise ValueError('x')", "--verbose")
    assert ended.returncode == 70
    assert "Traceback" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("error: ")


def test_a_fault_quotes_no_secret(ptahk: Ptahk) -> None:
    url = "postgresql://app:hunter2-taint@h/d"
    body = "raise ValueError('bad: ' + os.environ['DATABASE_URL'] + ' hunter2-taint')"
    for arguments in ((), ("--verbose",), ("--output", "json")):
        ended = fail(ptahk, body, *arguments, DATABASE_URL=url)
        assert ended.returncode == 70
        assert "hunter2-taint" not in ended.stdout + ended.stderr


def test_a_failing_import(ptahk: Ptahk) -> None:
    ended = fail(ptahk, "import nothing_of_this_name")
    assert ended.returncode == 70
    assert "nothing_of_this_name" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_broken_installation(ptahk: Ptahk, tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ImportError('gone', name='typer')")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    ended = subprocess.run(
        [*PTAHK, "--help"], env=ptahk.env({"PYTHONPATH": path}), capture_output=True, text=True
    )
    assert ended.returncode == 70
    assert ended.stderr.startswith("error: broken installation (module=typer)")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals(ptahk: Ptahk, number: signal.Signals) -> None:
    ended = fail(ptahk, f"os.kill(os.getpid(), {int(number)}); signal.pause()")
    assert ended.returncode == 128 + number
    assert "Traceback" not in ended.stderr


def test_nohup(ptahk: Ptahk) -> None:
    ended = subprocess.run(
        [
            "nohup",
            sys.executable,
            "-c",
            FAILING.format(body="os.kill(os.getpid(), 1); print('on')"),
        ],
        env=ptahk.env(),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (0, "on\n")


def test_a_broken_pipe(ptahk: Ptahk) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*PTAHK, "--help"], env=ptahk.env(), cwd=ROOT, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_full_disk(ptahk: Ptahk) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*PTAHK, "digest", "realm", "--engine", "postgres", "--key", "k"],
            env=ptahk.env(),
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 70
    assert ended.stderr.startswith("error: cannot write the result")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("switch", [{"PYTHONOPTIMIZE": "1"}, {"PYTHONOPTIMIZE": "2"}])
def test_optimised_interpreters_are_refused(ptahk: Ptahk, switch: dict[str, str]) -> None:
    answer = ptahk.run("--version", **switch)
    assert answer.out == ""
    answer.refusal(2)


def test_exit_codes_are_the_commands(ptahk: Ptahk) -> None:
    assert fail(ptahk, "return 1").returncode == 1
    assert fail(ptahk, "raise cli.typer.Exit(6)").returncode == 6


def test_a_refusal_in_both_forms() -> None:
    error = Refused("not now\n(key=x): busy.", reason="Busy", field="key", hint="Wait.")
    assert error_line(error) == "error: not now (key=x): busy. Wait."
    document = error_document(error)
    assert (document["code"], document["reason"], document["field"]) == (3, "Busy", "key")
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize(
    ("line", "document", "verbose"),
    [
        ("plan -o json", True, False),
        ("plan -ojson", True, False),
        ("plan -o=json", True, False),
        ("plan --output=json", True, False),
        ("plan --output JSON -v", True, True),
        ("plan -qvo json", True, True),
        ("plan -o yaml", True, False),
        ("plan -o table", False, False),
        ("plan -- -o json", False, False),
        ("plan -o", False, False),
        ("--verbose", False, True),
        ("", False, False),
    ],
)
def test_wishes_are_found_in_any_arguments(line: str, document: bool, verbose: bool) -> None:
    wishes = read_wishes(line.split())
    assert (wishes.document, wishes.verbose) == (document, verbose)
