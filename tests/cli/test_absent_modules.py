"""What a command does not need, it does not import: in a real process, in ``sys.modules``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.kit import ROOT, Ptahk

HEAVY = ("pydantic", "rich", "sqlite3", "yaml", "psycopg", "kubernetes", "asyncio")

PROGRAM = """
import json, sys
from ptahk.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
sys.stderr.write("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def loaded(ptahk: Ptahk, *arguments: str) -> tuple[int, set[str]]:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=ptahk.env({"DATABASE_URL": "postgresql://u@h/d"}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(ended.stderr.splitlines()[-1])
    return code, set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("plan", "--help"),
        ("apply", "--help"),
        ("status", "--help"),
        ("digest", "realm", "--engine", "postgresql", "--key", "production/orders"),
        ("digest", "target", "--engine", "postgresql"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_light_commands_load_nothing_heavy(ptahk: Ptahk, arguments: tuple[str, ...]) -> None:
    code, modules = loaded(ptahk, *arguments)
    assert code == 0
    assert modules.isdisjoint(HEAVY), modules & set(HEAVY)
    assert "ptahk.backends" not in modules or arguments[0] != "digest"


def test_the_probe_sees_what_is_loaded(ptahk: Ptahk) -> None:
    """The proof that the proof works."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("import json", "import sqlite3, json"), "--help"],
        env=ptahk.env(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sqlite3" in json.loads(ended.stderr.splitlines()[-1])[1]
