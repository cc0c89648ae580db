"""The runner's own output: redaction, one frame, one termination summary."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Final

from ptahk.wire import frame, jobspec
from ptahk.wire.redact import Redactor

STRUCTURED: Final = frozenset(
    {
        "planBytes", "declaration", "command", "result", "state", "outcome", "object", "category",
        "severity", "highest", "digest", "binding", "epoch", "executorVersion", "operationId",
        "startNonce", "storeKind", "storeUid",
    }
)  # fmt: skip
"""Fields that hold a schema's own content or an identity: masking a word in them that happens to
be a password too would falsify them, and they never hold a URL."""
POD_TERMINATION_LOG: Final = "/dev/termination-log"
_STRUCTURED_ENDS: Final = ("Digest", "Fingerprint", "Identity", "At", "After")


def redacted(value: Any, redactor: Redactor, key: str = "") -> Any:
    """A result document without secrets in its texts (C-9.5)."""
    if isinstance(value, str):
        structured = key in STRUCTURED or key.endswith(_STRUCTURED_ENDS)
        return value if structured else redactor.text(value)
    if isinstance(value, dict):
        return {name: redacted(item, redactor, name) for name, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, redactor, key) for item in value]
    return value


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, then make it durable where the descriptor is a file.

    :raises OSError: the output is gone or full.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    with contextlib.suppress(OSError):  # a pipe cannot be synced
        os.fsync(fd)


def write_summary(path: str, summary: frame.Summary) -> None:
    """The termination message. Best effort: it only stands in for a frame that is gone."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, frame.encode_summary(summary))
        finally:
            os.close(fd)


def termination_path(directory: str, environment: Mapping[str, str]) -> str:
    """Where the summary goes: as the environment says, else where a kubelet looks for it, else
    beside the Job's inputs."""
    named = environment.get(jobspec.TERMINATION_LOG)
    if named:
        return named
    in_pod = jobspec.JOB in environment
    return POD_TERMINATION_LOG if in_pod else os.path.join(directory, "termination")
