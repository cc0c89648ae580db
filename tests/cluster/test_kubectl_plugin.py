"""``kubectl ptahk``: the same program behind kubectl, with its completion."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.kit import ROOT
from tests.cluster.bed import Bed
from tests.kit.controlplane import program


@pytest.fixture
def path_of(tmp_path: Path) -> str:
    """A PATH with the programs that an installation has."""
    place = tmp_path / "bin"
    place.mkdir()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, target in scripts.items():
        module, function = target.split(":")
        file = place / name
        file.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            f"from {module} import {function}\nsys.exit({function}())\n"
        )
        file.chmod(0o755)
    return f"{place}{os.pathsep}{os.environ['PATH']}"


def kubectl(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One kubectl command with plugins."""
    return subprocess.run(
        [*program("kubectl"), *arguments],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_plugin_is_the_same_program(bed: Bed, path_of: str) -> None:
    bed.make()
    shown = kubectl(path_of, "ptahk", "status", "schema/orders", *bed.place("status"))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"schema/orders  Pending  in namespace {bed.namespace}" in shown.stdout
    refused = kubectl(path_of, "ptahk", "plan", "schema/orders", *bed.place("plan"))
    assert refused.returncode == 6 and "no live manager" in refused.stderr


def test_kubectl_completes_it(path_of: str) -> None:
    for words, wanted in (
        (("ptahk", "st"), "status"),
        (("ptahk", "plan", "-o", ""), "json"),
        (("ptahk", "census", "--conf"), "--conflicts"),
    ):
        answer = kubectl(path_of, "__complete", *words)
        lines = [line.partition("\t")[0] for line in answer.stdout.splitlines()]
        assert wanted in lines, answer
