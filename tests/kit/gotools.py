"""Go programs of other projects, built once per machine from the published modules that a folder's
``go.mod`` pins, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.gobuild import BuildFailed, go_program
from tests.kit.installs import ServerMissing, cache_root


@dataclass(frozen=True)
class Tool:
    """One program."""

    package: str
    said: str
    """What a person calls it."""
    tags: Sequence[str] = ()
    """Build tags, which say what it is to hold."""


@dataclass(frozen=True)
class Tools:
    """Some programs of one ``go.mod``."""

    name: str
    """Of their folder in the cache."""
    sources: Path
    tools: Mapping[str, Tool]
    """By the program's file name."""

    def folder(self) -> Path:
        """Where the built programs are, or will be."""
        digest = hashlib.sha256(os.uname().machine.encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.sources / name).read_bytes())
        return cache_root() / self.name / digest.hexdigest()[:16]

    def program(self, name: str) -> Path:
        """One program. :raises ServerMissing: it is not built."""
        found = self.folder() / name
        if not found.exists():
            raise ServerMissing(f"{self.tools[name].said} is not built: run scripts/set-up dev")
        return found

    def build(self) -> Path:
        """Build all unless they are there. :raises BuildFailed: with the compiler's words."""
        built = self.folder()
        with (_made(cache_root()) / f"{self.name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if built.exists():
                return built
            partial = Path(tempfile.mkdtemp(dir=_made(built.parent), prefix="partial-"))
            try:
                for name, tool in self.tools.items():
                    self._build(partial / name, tool)
                partial.chmod(0o755)
                partial.rename(built)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        return built

    def _build(self, output: Path, tool: Tool) -> None:
        print(f"{self.name}: building {tool.said}", file=sys.stderr, flush=True)
        env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        done = subprocess.run(
            [str(go_program()), "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
             "-tags", ",".join(tool.tags), "-o", str(output), tool.package],
            cwd=self.sources, env=env, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            raise BuildFailed(done.stderr.strip()[-2000:])

    def main(self) -> None:
        """Build all and print the folder; ends the process where that fails."""
        try:
            print(self.build())
        except (BuildFailed, subprocess.CalledProcessError) as failure:
            sys.exit(f"error: {self.name} could not be built: {failure}")


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
