"""Lock files of the images: every package by version and hash, for every Python and platform.

A lock says at its head what it was made from. It is made anew (by uv, from the package index) only
when that changes; ``make relock`` makes all of them anew, for newer versions.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXECUTOR = "ptahk/executor/requirements.txt"
RELOCK = "PTAHK_RELOCK"
_OLDEST = "3.11"


def requirements() -> dict[str, list[str]]:
    """Lock file → what it must hold."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    executor = (ROOT / EXECUTOR).read_text().splitlines()
    return {
        "locks/manager.txt": sorted(project["project"]["dependencies"]),
        "locks/executor.txt": sorted(line for line in executor if line and line[0] != "#"),
        "locks/build.txt": sorted(project["build-system"]["requires"]),
    }


def head(name: str, wanted: list[str]) -> str:
    """First lines of a lock: what it was made from."""
    digest = hashlib.sha256("\n".join([name, _OLDEST, *wanted]).encode()).hexdigest()
    return f"# Written by `scripts/generate.py locks`; do not edit. Made from {digest[:32]}.\n"


def files() -> dict[str, str]:
    """The locks. :raises RuntimeError: one must be made anew, and uv cannot."""
    found = {}
    for name, wanted in requirements().items():
        path = ROOT / name
        text = path.read_text() if path.exists() else ""
        fresh = text.startswith(head(name, wanted)) and not os.environ.get(RELOCK)
        found[name] = text if fresh else head(name, wanted) + _compile(wanted)
    return found


def _compile(wanted: list[str]) -> str:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if uv is None:
        raise RuntimeError("a lock is not fresh and uv is not here: scripts/set-up dev")
    with tempfile.TemporaryDirectory() as work:
        given = Path(work) / "requirements.in"
        given.write_text("\n".join(wanted) + "\n")
        done = subprocess.run(
            [uv, "pip", "compile", "--quiet", "--universal", "--no-header", "--no-annotate",
             "--generate-hashes", f"--python-version={_OLDEST}", "--no-emit-index-url",
             "--no-emit-find-links", str(given)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"uv pip compile: {done.stderr.strip()}")
    return done.stdout
