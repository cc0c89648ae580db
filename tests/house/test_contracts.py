"""The import contracts hold, and they see a breach."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _lint(root: Path) -> "subprocess.CompletedProcess[str]":
    command = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [command, "--no-cache", "pyproject.toml"],
        cwd=root, env={"PYTHONPATH": str(root), "PATH": "", "COLUMNS": "200"}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


def test_the_rooms_face_one_way() -> None:
    done = _lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("engine/model/planted.py", "import os"),
        ("wire/planted.py", "def f():\n    import random"),
        ("engine/model/planted.py", "import ptahk.engine.families"),
        ("executor/planted.py", "import ptahk.engine.model"),
        ("executor/planted.py", "import pydantic"),
        ("migrations/planted.py", "import pathlib"),
        ("runner/planted.py", "import psycopg"),
        ("backends/planted.py", "import ptahk.executor"),
        ("commands/planted.py", "import ptahk.backends.local"),
        ("serve/planted.py", "import ptahk.backends.kube.client"),
        ("serve/planted.py", "def f():\n    import psycopg"),
        ("planted/__init__.py", ""),
    ],
)
def test_a_planted_breach_is_seen(tmp_path: Path, module: str, line: str) -> None:
    shutil.copytree(
        ROOT / "ptahk", tmp_path / "ptahk", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    planted = tmp_path / "ptahk" / module
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(line + "\n")
    done = _lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout or "planted" in done.stdout + done.stderr
