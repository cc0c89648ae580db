"""Helm 3 and 4, built once per machine from the published modules that ``go.mod`` pins.

``python -m tests.kit.helm`` builds and prints the folder. The modules are those of the test
control plane where both need one, so most of what Helm is made of is compiled already.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kit.gobuild import BuildFailed, go_program
from tests.kit.installs import ServerMissing, cache_root

SOURCES = Path(__file__).resolve().parents[1] / "cluster" / "helm"
CHART = Path(__file__).resolve().parents[2] / "charts" / "ptahk"
VERSIONS = ("3", "4")
KUBERNETES = "1.36.3"
"""What a template is rendered for."""
STAMPS = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


class HelmFailed(Exception):
    """A helm command failed; carries its words."""


def folder() -> Path:
    """Where the built programs are, or will be."""
    digest = hashlib.sha256(os.uname().machine.encode())
    for name in ("go.mod", "go.sum"):
        digest.update((SOURCES / name).read_bytes())
    return cache_root() / "helm" / digest.hexdigest()[:16]


def program(version: str = "4") -> Path:
    """One Helm. :raises ServerMissing: it is not built."""
    found = folder() / f"helm{version}"
    if not found.exists():
        raise ServerMissing("helm is not built: run scripts/set-up dev")
    return found


def build() -> Path:
    """Build both unless they are there. :raises BuildFailed: with the compiler's words."""
    built = folder()
    with (_made(cache_root()) / "helm.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if built.exists():
            return built
        go = go_program()
        env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        partial = Path(tempfile.mkdtemp(dir=_made(built.parent), prefix="partial-"))
        try:
            for version in VERSIONS:
                print(f"helm: building Helm {version}", file=sys.stderr, flush=True)
                done = subprocess.run(
                    [str(go), "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o",
                     str(partial / f"helm{version}"), f"helm.sh/helm/v{version}/cmd/helm"],
                    cwd=SOURCES, env=env, capture_output=True, text=True, check=False,
                    stdin=subprocess.DEVNULL,
                )  # fmt: skip
                if done.returncode:
                    raise BuildFailed(done.stderr.strip()[-2000:])
            partial.chmod(0o755)
            partial.rename(built)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return built


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


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
    try:
        print(build())
    except (BuildFailed, subprocess.CalledProcessError) as failure:
        sys.exit(f"error: helm could not be built: {failure}")
