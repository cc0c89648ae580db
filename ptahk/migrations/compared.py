"""A branch's directory against what was merged already: the check of a pull request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptahk.migrations.files import normal
from ptahk.migrations.findings import Finding
from ptahk.migrations.model import Sequence

_NEW_FILE = "make the change in a new file: ptahk migrate new NAME"


def compare(
    directory: Sequence,
    here: Mapping[str, str],
    merged: Mapping[str, str],
    fork: Mapping[str, str],
    merged_sequence: Sequence | None,
    ref: str,
) -> Iterator[Finding]:
    """Files that were merged are unchanged, and new ones sort after them.

    :param here: name → text of the files that run, on this branch.
    :param merged: the same at ``ref``, and ``fork`` where this branch left it.
    :param merged_sequence: the directory at ``ref``; None: it had none, or cannot be read.
    """
    for name, text in sorted(merged.items()):
        if name not in here:
            if name in fork:
                yield Finding("MG502", name, 0, 0, f"{ref} has this file", "put it back")
        elif normal(here[name]) != normal(text) and normal(fork.get(name, text)) != normal(
            here[name]
        ):
            line = _first_difference(normal(here[name]), normal(text))
            yield Finding("MG501", name, line, 1, f"{ref} has other text here", _NEW_FILE)
    if merged_sequence is None:
        return
    applied = merged_sequence.versioned
    if not applied:
        return
    newest = max(applied, key=lambda each: each.order)
    for migration in directory.versioned:
        late = migration.order < newest.order
        if migration.file not in merged and late and not migration.header.out_of_order:
            yield Finding(
                "MG503", migration.file, 0, 0,
                f"version {migration.version} sorts before {newest.version} of {ref} "
                f"({newest.file})",
                f"ptahk migrate rebase {migration.version}",
            )  # fmt: skip


def _first_difference(text: str, other: str) -> int:
    """The first line in which they differ, from 1."""
    ours, theirs = text.split("\n"), other.split("\n")
    for number, (one, two) in enumerate(zip(ours, theirs, strict=False), start=1):
        if one != two:
            return number
    return min(len(ours), len(theirs))
