"""Which files made a database what it should be, in the order in which they ran. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ptahk.migrations.history import Row
from ptahk.migrations.model import Migration
from ptahk.migrations.model import Sequence as Directory


class NotThere(Exception):
    """What was applied is not in the directory as it was applied; says what."""


def applied(directory: Directory, rows: Sequence[Row]) -> tuple[Migration, ...]:
    """The files whose rows say applied, by the order of their application.

    What a checkpoint stands for is in the checkpoint. A version that another tool ran, that a
    baseline recorded or that a person resolved is its file.

    :param rows: settled ones, of one stream.
    :raises NotThere: an applied file is gone, or is another text now.
    """
    last: dict[tuple[bool, str], Row] = {}
    for row in sorted(rows, key=lambda row: row.ordinal):
        if row.state == "applied" and row.kind != "covered":
            last[row.kind == "repeatable", row.version] = row
    return tuple(_file(directory, row) for row in sorted(last.values(), key=lambda r: r.ordinal))


def _file(directory: Directory, row: Row) -> Migration:
    repeatable = row.kind == "repeatable"
    found = [
        each
        for each in directory.migrations
        if each.version == row.version and (each.kind == "repeatable") == repeatable
    ]
    if not found:
        raise NotThere(f"{row.file}: version {row.version} was applied, and its file is not here")
    # A checkpoint and a file may have one version: the row says which of them it was.
    named = next((each for each in found if each.file == row.file), found[0])
    same = row.checksum in (None, named.checksum) or row.token_digest == named.token_digest
    if not same:
        raise NotThere(f"{named.file} was applied with another text than it has now")
    return named


def from_empty(directory: Directory) -> tuple[Migration, ...]:
    """Every file but the checkpoints."""
    return (*directory.versioned, *directory.repeatable)


def from_checkpoint(directory: Directory) -> tuple[Migration, ...]:
    """The newest checkpoint and what follows it; empty: there is none."""
    checkpoints = [each for each in directory.migrations if each.kind == "checkpoint"]
    if not checkpoints:
        return ()
    newest = max(checkpoints, key=lambda each: each.order)
    later = [each for each in directory.versioned if each.order > newest.order]
    return (newest, *later, *directory.repeatable)
