"""The declaration as a bundle of files. Pure."""

from __future__ import annotations

from typing import Any, Final

from ptahk.errors import UsageError

FILES_MAX: Final = 10_000


def files_of(source: dict[str, Any] | None) -> list[tuple[str, str]] | None:
    """(name, text) of every file in loading order; None where the Job has no source.

    :raises UsageError: ``InvalidSource``: two files of one name, or too many.
    """
    if source is None:
        return None
    files = [(str(item["name"]), str(item["text"])) for item in source["files"]]
    if len(files) > FILES_MAX:
        raise UsageError(f"too many files in the declaration (files={len(files)})")
    if len({name for name, _ in files}) != len(files):
        raise UsageError("two files of the declaration have one name", reason="InvalidSource")
    return files
