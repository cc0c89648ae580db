"""Helm 3 and 4, built once per machine from the published modules that ``go.mod`` pins.

``python -m tests.kit.helm`` builds and prints the folder. The modules are those of the test
control plane where both need one, so most of what Helm is made of is compiled already.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kit.gotools import Tool, Tools

CHART = Path(__file__).resolve().parents[2] / "charts" / "ptahk"
VERSIONS = ("3", "4")
TOOLS = Tools(
    "helm",
    Path(__file__).resolve().parents[1] / "cluster" / "helm",
    {f"helm{v}": Tool(f"helm.sh/helm/v{v}/cmd/helm", f"Helm {v}") for v in VERSIONS},
)
KUBERNETES = "1.36.3"
"""What a template is rendered for."""
STAMPS = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


class HelmFailed(Exception):
    """A helm command failed; carries its words."""


def program(version: str = "4") -> Path:
    """One Helm. :raises ServerMissing: it is not built."""
    return TOOLS.program(f"helm{version}")


def run(*arguments: str, version: str = "4", home: Path | None = None) -> str:
    """What a helm command prints. It reads no configuration of the user's own.

    :param home: where it keeps its caches; a folder of its own if not given.
    :raises HelmFailed: with its words.
    """
    with tempfile.TemporaryDirectory() as own:
        base = str(home or own)
        env = {"HOME": base, "PATH": os.environ.get("PATH", ""), "HELM_CACHE_HOME": base,
               "HELM_CONFIG_HOME": base, "HELM_DATA_HOME": base}  # fmt: skip
        done = subprocess.run(
            [str(program(version)), *arguments], env=env, capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if done.returncode:
        raise HelmFailed(f"helm {' '.join(arguments)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def template(
    values: Mapping[str, Any] | None = None, *, namespace: str = "ptahk-system",
    version: str = "4", stamps: bool = True, apis: tuple[str, ...] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """The chart's documents. Values are checked against their schema.

    :raises HelmFailed: a value is refused.
    """
    given = [f"--api-versions={name}" for name in ((STAMPS, *apis) if stamps else apis)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(dict(values or {}), file)
        file.flush()
        text = run(
            "template", "ptahk", str(CHART), f"--namespace={namespace}", f"--values={file.name}",
            f"--kube-version={KUBERNETES}", *given, version=version,
        )  # fmt: skip
    return [document for document in yaml.safe_load_all(text) if document is not None]


if __name__ == "__main__":
    TOOLS.main()
