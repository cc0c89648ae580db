"""Reads what a Job was given and checks every byte of it against its digest."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ptahk.errors import InternalError, Refused
from ptahk.wire import jobspec
from ptahk.wire.jobspec import JobSpec

INPUT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Stored size of one input."""
UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the Job carries beside its specification."""

    source: dict[str, Any] | None
    plan_bytes: bytes | None


def read_spec(directory: str, environment: Mapping[str, str]) -> JobSpec:
    """The Job's specification: in a Pod from the environment, else from the directory.

    :raises InternalError: it is missing or is not one of this protocol.
    """
    given = environment.get(jobspec.JOB)
    try:
        if given is not None:
            return jobspec.decode(given.encode("utf-8", "replace"))
        return jobspec.decode(_read(directory, jobspec.JOB_FILE, jobspec.JOB_BYTES_MAX))
    except OSError as error:
        raise InternalError(f"the Job's specification cannot be read: {error.strerror}") from None
    except jobspec.JobSpecError as error:
        raise InternalError(f"the Job's specification is malformed: {error}") from None


def read_inputs(directory: str, spec: JobSpec) -> Inputs:
    """Every input that the specification names, verified and unpacked.

    :raises Refused: ``InputMismatch``: missing, too large, damaged, or not what was named.
    """
    unpacked: dict[str, bytes] = {}
    for name, expected in spec.inputs.items():
        try:
            data = _read(directory, name, INPUT_BYTES_MAX)
        except OSError as error:
            raise _mismatch(name, error.strerror or "unreadable") from None
        if jobspec.input_digest(data) != expected:
            raise _mismatch(name, "its bytes are not those that the claim names")
        unpacked[name] = _unpack(name, data)
    source = unpacked.get(jobspec.SOURCE_FILE)
    return Inputs(
        source=None if source is None else _bundle(source),
        plan_bytes=unpacked.get(jobspec.PLAN_FILE),
    )


def _read(directory: str, name: str, size_max: int) -> bytes:
    with open(os.path.join(directory, name), "rb") as stream:
        data = stream.read(size_max + 1)
    if len(data) > size_max:
        raise OSError(27, "larger than its bound")
    return data


def _unpack(name: str, data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        raw = unpacker.decompress(data, UNPACKED_BYTES_MAX + 1)
    except zlib.error:
        raise _mismatch(name, "it is not gzip") from None
    if not unpacker.eof or unpacker.unused_data or len(raw) > UNPACKED_BYTES_MAX:
        raise _mismatch(name, "it is not one gzip member within its bound")
    return raw


def _bundle(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
        files = [(item["name"], item["text"]) for item in value["files"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _mismatch(jobspec.SOURCE_FILE, "it is not a bundle of files") from None
    if not all(isinstance(text, str) for pair in files for text in pair):
        raise _mismatch(jobspec.SOURCE_FILE, "it is not a bundle of files")
    return {"files": [{"name": name, "text": text} for name, text in files]}


def _mismatch(name: str, why: str) -> Refused:
    return Refused(f"input refused (input={name}): {why}", reason="InputMismatch", field=name)
