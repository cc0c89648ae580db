"""What an executor keeps between runs, in files that may be lost at any time.

A file that is damaged, foreign or of another version is not there. What it is kept under covers
everything that decides what is in it (``code_digest`` and the dialect's own key).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ptahk.wire.jobspec import JobSpec

FORMAT: Final = "ptahk desired facts 5"
FILES_MAX: Final = 64
BYTES_MAX: Final = 256 * 1024 * 1024


def code_digest(folders: Sequence[Path]) -> str:
    """Changes with the code that loads and reads, so that a new reader never meets old facts.

    :param folders: of a dialect's modules.
    """
    stamps = [
        (f"{folder.name}/{path.name}", path.stat().st_size, path.stat().st_mtime_ns)
        for folder in folders
        for path in sorted(folder.glob("*.py"))
    ]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


def in_sync_name(facts: str, identity: object, spec: JobSpec) -> str:
    """What a database in sync is kept under: over what its facts depend on, and the policy.

    :param facts: what the declared facts are kept under; "": nothing is kept.
    :param identity: of the server and the database.
    """
    if not facts:
        return ""
    parts = (facts, str(identity), repr(spec.policy), spec.active_deadline_seconds)
    return "insync-" + hashlib.sha256(repr(parts).encode()).hexdigest()


def read(folder: str | None, name: str) -> bytes | None:
    """The body of a kept file; None where there is none that is sound."""
    if not folder:
        return None
    path = Path(folder) / f"{name}.json"
    try:
        if path.stat().st_size > BYTES_MAX:
            return None
        head, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return body if head == _head(body, name) else None


def write(folder: str | None, name: str, value: Callable[[], Mapping[str, Any]]) -> None:
    """Keep a JSON value; best effort. A reader sees a whole file or none."""
    if not folder:
        return
    body = json.dumps(value(), separators=(",", ":")).encode("ascii")
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle, staging = tempfile.mkstemp(prefix=f".{name[:8]}-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(_head(body, name) + b"\n" + body)
            os.replace(staging, Path(folder) / f"{name}.json")
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(staging)
        _prune(Path(folder))


def _head(body: bytes, name: str) -> bytes:
    return f"{FORMAT} {name} {hashlib.sha256(body).hexdigest()}".encode("ascii")


def _prune(folder: Path) -> None:
    """Keep the newest files only."""
    for pattern in ("desired-*.json", "insync-*.json"):
        files = sorted(folder.glob(pattern), key=lambda path: -path.stat().st_mtime)
        for path in files[FILES_MAX:]:
            path.unlink(missing_ok=True)
