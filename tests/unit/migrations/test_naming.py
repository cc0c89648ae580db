"""Names of new and of moved files, and what a branch may do to files that were merged."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.errors import UsageError
from ptahk.migrations import compared, naming
from ptahk.migrations.files import SourceFile

NOW = "20261130051500"
T = "SELECT 1;"


@pytest.mark.parametrize(
    ("texts", "layout", "version"),
    [
        ({"20250101000000_a.sql": T}, None, NOW),
        ({"20270101000000_a.sql": T}, None, "20270101000001"),
        ({"001_a.sql": T, "009_b.sql": T}, None, "010"),
        ({"20241029153900000001_a.up.sql": T}, None, "20261130051500000000"),
        ({"V3__a.sql": T, "V3.1__b.sql": T}, None, "4"),
        ({"2019-09-12-100000_a/up.sql": T}, None, NOW),
    ],
)
def test_a_new_version_is_above_every_other(
    directory: Any, texts: dict[str, str], layout: Any, version: str
) -> None:
    found = directory(texts, layout=layout).required()
    assert naming.next_version(found.format, found.migrations, NOW) == version


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("ptahk", [f"{NOW}_add_x.sql"]),
        ("golang-migrate", [f"{NOW}_add_x.up.sql", f"{NOW}_add_x.down.sql"]),
        ("goose", [f"{NOW}_add_x.sql"]),
        ("dbmate", [f"{NOW}_add_x.sql"]),
        ("flyway", [f"V{NOW}__add_x.sql"]),
        ("diesel", ["2026-11-30-051500_add_x/up.sql", "2026-11-30-051500_add_x/down.sql"]),
    ],
)
def test_new_files_are_read_as_what_they_are(directory: Any, layout: Any, names: list[str]) -> None:
    texts = naming.new_files(layout, NOW, "add_x")
    assert list(texts) == names
    found = directory(texts).required()
    assert (found.format, [each.version for each in found.migrations]) == (layout, [NOW])


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x/y", "a" * 101])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        naming.new_files("ptahk", NOW, name)


def test_moving_takes_everything_of_a_version_and_nothing_else(directory: Any) -> None:
    names = ["1_a.up.sql", "1_a.down.sql", "11_b.up.sql"]
    files = [SourceFile(name, T) for name in names]
    found = directory(dict.fromkeys(names, T)).required()
    assert naming.moved("golang-migrate", files, found.migrations[0], "12") == [
        ("1_a.up.sql", "12_a.up.sql"), ("1_a.down.sql", "12_a.down.sql"),
    ]  # fmt: skip
    names = ["V1__a.sql", "V1.1__b.sql", "V1__a.sql.conf"]
    found = directory({"V1__a.sql": T, "V1.1__b.sql": T}).required()
    files = [SourceFile(name, T) for name in names]
    assert naming.moved("flyway", files, found.migrations[0], "2") == [
        ("V1__a.sql", "V2__a.sql"), ("V1__a.sql.conf", "V2__a.sql.conf"),
    ]  # fmt: skip


def told(
    directory: Any, here: dict[str, str], merged: dict[str, str], fork: dict[str, str]
) -> list[tuple[str, str, int]]:
    now, there = directory(here).directory, directory(merged).directory
    found = compared.compare(now, here, merged, fork, there, "main")
    return [(each.number, each.file, each.line) for each in found]


def test_a_branch_is_compared_with_what_was_merged(directory: Any) -> None:
    base = {"1_a.sql": "SELECT 1;\n", "2_b.sql": "SELECT 2;\n"}
    ahead = base | {"4_d.sql": T}
    assert told(directory, base | {"3_c.sql": T}, base, base) == []
    assert told(directory, base | {"3_c.sql": T}, ahead, base) == [("MG503", "3_c.sql", 0)]
    allowed = {"3_c.sql": "-- ptahk:out-of-order\nSELECT 1;"}
    assert told(directory, base | allowed, ahead, base) == []
    edited = base | {"2_b.sql": "SELECT 2;\nSELECT 3;\n"}
    assert told(directory, edited, base, base) == [("MG501", "2_b.sql", 2)]
    assert told(directory, {"2_b.sql": base["2_b.sql"]}, base, base) == [("MG502", "1_a.sql", 0)]
    windows = {name: text.replace("\n", "\r\n") for name, text in base.items()}
    assert told(directory, windows, base, base) == []
    # Somebody else changed the file on main: that is not this branch's doing.
    assert told(directory, base, edited, base) == []
