"""Names of new and of moved files, as each layout writes them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ptahk.errors import UsageError
from ptahk.migrations.files import SourceFile
from ptahk.migrations.model import Format, Migration

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_TIMESTAMP_DIGITS: Final = 14


def next_version(layout: Format, applied: Sequence[Migration], now: str) -> str:
    """The version of a new file: the time, raised above every other; or the next number where the
    directory counts.

    :param now: 14 digits, UTC.
    """
    if layout == "flyway":
        return _next_of_flyway(applied, now)
    numbers = [int(each.version) for each in applied if each.version.isdigit()]
    highest = max(numbers, default=None)
    if highest is None:
        return now
    digits = max(len(_written(each)) for each in applied)
    if digits < _TIMESTAMP_DIGITS:
        return str(highest + 1).zfill(digits)
    return str(max(highest + 1, int(now.ljust(digits, "0"))))


def _next_of_flyway(applied: Sequence[Migration], now: str) -> str:
    orders = [each.order for each in applied if each.kind != "repeatable"]
    highest = max(orders, default=None)
    if highest is None:
        return now
    if len(str(highest[0])) < _TIMESTAMP_DIGITS:
        return str(highest[0] + 1)
    return str(max(highest[0] + 1, int(now)))


def _written(migration: Migration) -> str:
    """The version's digits as the file's name has them."""
    base = migration.file.split("/")[0]
    match = re.match(r"[\d-]+", base)
    return match[0].replace("-", "") if match else migration.version


def new_files(layout: Format, version: str, name: str) -> dict[str, str]:
    """Name → text of the files that begin a migration.

    :raises UsageError: the name is not one.
    """
    if NAME.fullmatch(name) is None:
        raise UsageError(
            f"not a name for a migration (NAME={name!r}): letters, digits, dots, dashes and "
            "underscores", field="NAME",
        )  # fmt: skip
    match layout:
        case "golang-migrate":
            return {f"{version}_{name}.up.sql": "", f"{version}_{name}.down.sql": ""}
        case "goose":
            return {f"{version}_{name}.sql": "-- +goose Up\n\n-- +goose Down\n"}
        case "dbmate":
            return {f"{version}_{name}.sql": "-- migrate:up\n\n-- migrate:down\n"}
        case "flyway":
            return {f"V{version}__{name}.sql": ""}
        case "diesel":
            folder = f"{_diesel(version)}_{name}"
            return {f"{folder}/up.sql": "", f"{folder}/down.sql": ""}
        case _:
            return {f"{version}_{name}.sql": ""}


def _diesel(version: str) -> str:
    if len(version) != _TIMESTAMP_DIGITS:
        return version
    return f"{version[:4]}-{version[4:6]}-{version[6:8]}-{version[8:]}"


def moved(
    layout: Format, files: Sequence[SourceFile], migration: Migration, version: str
) -> list[tuple[str, str]]:
    """(old, new) names of everything that belongs to a migration, under another version."""
    if layout == "diesel":
        folder = migration.file.partition("/")[0]
        tail = folder.partition("_")
        return [(folder, f"{_diesel(version)}{tail[1]}{tail[2]}")]
    base = migration.file.rpartition("/")
    prefix = base[0] + base[1]
    head = re.match(r"V[\d._]*?(?=__)" if layout == "flyway" else r"\d+", base[2])
    assert head is not None, "the layout read the name"
    new_head = f"V{version}" if layout == "flyway" else version
    out = []
    for file in files:
        if file.name.startswith(prefix + head[0]) and _same(
            file.name[len(prefix) :], head[0], layout
        ):
            out.append((file.name, prefix + new_head + file.name[len(prefix) + len(head[0]) :]))
    return out


def _same(base: str, head: str, layout: Format) -> bool:
    """The name has exactly this version, not one that begins with it."""
    rest = base[len(head) :]
    return rest.startswith("__") if layout == "flyway" else not rest[:1].isdigit()
