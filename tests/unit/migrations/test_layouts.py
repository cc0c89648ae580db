"""The seven layouts: detection, order, the part to run, and what each refuses."""

from __future__ import annotations

from typing import Any

import pytest

T = "CREATE TABLE t (a int);"
GOOSE = f"-- +goose Up\n{T}\n-- +goose Down\nDROP TABLE t;\n"
DBMATE = f"-- migrate:up\n{T}\n-- migrate:down\nDROP TABLE t;\n"


def seen(found: Any) -> list[tuple[str, str]]:
    return [(each.version, each.file) for each in found.required().migrations]


def numbers(found: Any) -> list[str]:
    return [finding.number for finding in found.findings if finding.refuses]


@pytest.mark.parametrize(
    ("texts", "layout"),
    [
        ({"1_a.sql": T}, "ptahk"),
        ({"1_a.sql": T, "README.md": "x", ".hidden.sql": "x"}, "ptahk"),
        ({"1_a.sql": T, "atlas.sum": "h1:x\n"}, "atlas"),
        ({"2019-09-12-100000_a/up.sql": T, "2019-09-12-100000_a/down.sql": T}, "diesel"),
        ({"1_a.up.sql": T, "1_a.down.sql": T}, "golang-migrate"),
        ({"1_a.sql": GOOSE}, "goose"),
        ({"1_a.sql": DBMATE}, "dbmate"),
        ({"V1__a.sql": T, "sub/V1.1__b.sql": T}, "flyway"),
        ({"1_a.sql": "SELECT '\n-- +goose Up\n';"}, "ptahk"),
    ],
)
def test_the_layout_is_detected(directory: Any, texts: dict[str, str], layout: str) -> None:
    assert directory(texts).directory.format == layout


@pytest.mark.parametrize(
    ("header", "layout"), [("-- ptahk:checkpoint\n", None), ("-- atlas:checkpoint\n\n", "atlas")]
)
def test_a_checkpoint_by_its_header_shares_its_version(
    directory: Any, header: str, layout: str | None
) -> None:
    texts = {"000001_a.sql": T, "000002_b.sql": T, "000002_c.sql": header + T}
    found = directory(texts, layout=layout).required().migrations
    assert sorted(each.kind for each in found) == ["checkpoint", "versioned", "versioned"]


@pytest.mark.parametrize(
    ("texts", "number", "word"),
    [
        ({}, "MG101", "no .sql"),
        ({"notes.sql": T}, "MG102", "notes.sql"),
        ({"1_a.sql": GOOSE, "2_b.sql": DBMATE}, "MG104", "goose"),
        ({"1_a.up.sql": T, "V1__a.sql": T}, "MG104", "flyway"),
        ({"ptahk.sum": "", "atlas.sum": ""}, "MG104", "atlas.sum"),
        ({"1_a.sql": T, "sub/2_b.sql": T}, "MG102", "sub/2_b.sql"),
        ({"1_a.sql": GOOSE, "2_b.sql": T}, "MG204", "2_b.sql"),
        ({"1_a.sql": b"SELECT '\xff';"}, "MG105", "0xff"),
        ({"1_a.sql": b"SELECT 1;\0"}, "MG106", "1_a.sql:1:10"),
        ({"1_a.sql": b"x" * (16 * 1024 * 1024 + 1)}, "MG107", "16777217"),
        ({"1" + "0" * 39 + "_a.sql": T}, "MG108", "40 digits"),
        ({"1_a.sql": T, "001_b.sql": T}, "MG103", "001_b.sql"),
        ({"1_a.up.sql": T, "1_b.up.sql": T}, "MG103", "1_a.up.sql"),
        ({"1_a.sql": "SELECT 1;\nSELECT 'x"}, "MG301", "1_a.sql:2:8"),
        (
            {"1_a.sql": "SELECT 1;\n SELECT '" + "x" * (4 * 1024 * 1024) + "'"},
            "MG306",
            "1_a.sql:2:2",
        ),
    ],
)
def test_what_is_no_directory(
    directory: Any, texts: dict[str, Any], number: str, word: str
) -> None:
    found = directory(texts)
    (finding,) = [each for each in found.findings if each.number == number][:1]
    assert word in finding.sentence()
    assert number in numbers(found)


def test_rows_of_a_copy_are_no_sql(directory: Any) -> None:
    text = "COPY t FROM stdin;\nit's\n-- ptahk:txmode none\n-- +goose Up\n\\.\nSELECT 1;\n"
    (one,) = directory({"1_a.sql": text}).required().migrations
    assert [each.line for each in one.statements] == [1, 6]
    assert one.tx_mode == "file"


def test_versions_sort_as_numbers_of_any_length(directory: Any) -> None:
    found = directory({"10_a.sql": T, "9_b.sql": T, "20241029153900000001_c.sql": T, "007.sql": T})
    assert [version for version, _ in seen(found)] == ["7", "9", "10", "20241029153900000001"]


def test_a_file_of_an_engine_replaces_the_generic_one(directory: Any) -> None:
    texts = {
        "1_a.sql": T, "1_a.postgresql.sql": "SELECT 1;", "2_b.mysql.sql": T, "3_c.mariadb.sql": T,
    }  # fmt: skip
    assert seen(directory(texts)) == [("1", "1_a.postgresql.sql")]
    assert seen(directory(texts, "mysql")) == [("1", "1_a.sql"), ("2", "2_b.mysql.sql")]
    on_mariadb = seen(directory(texts, "mariadb"))
    assert [name for _, name in on_mariadb] == ["1_a.sql", "2_b.mysql.sql", "3_c.mariadb.sql"]


def test_suffixes_of_pop(directory: Any) -> None:
    texts = {
        "1_a.up.sql": T, "1_a.postgres.up.sql": "SELECT 1;", "1_a.postgres.down.sql": T,
        "2_b.postgres.autocommit.up.sql": T, "3_c.d.up.sql": T, "4_e.sqlite3.up.sql": T,
    }  # fmt: skip
    found = directory(texts).required()
    assert [(each.file, each.tx_mode) for each in found.migrations] == [
        ("1_a.postgres.up.sql", "file"),
        ("2_b.postgres.autocommit.up.sql", "none"),
        ("3_c.d.up.sql", "file"),
    ]
    assert found.migrations[2].description == "c.d"


HEADER = """-- Adds it.

-- ptahk:txmode none
-- ptahk:lock-timeout 500ms
-- ptahk:statement-timeout 2m
-- ptahk:out-of-order
-- ptahk:allow database
-- ptahk:allow global
-- ptahk:requires SELECT count(*) > 0 FROM t
SELECT 1;
"""


def test_the_header_of_a_file(directory: Any) -> None:
    (one,) = directory({"1_a.sql": HEADER}).required().migrations
    header = one.header
    assert (one.tx_mode, header.lock_timeout_s, header.statement_timeout_s) == ("none", 0.5, 120)
    assert header.out_of_order and header.allow == {"database", "global"}
    assert header.requires == ("SELECT count(*) > 0 FROM t",)


@pytest.mark.parametrize(
    ("text", "number", "place"),
    [
        ("-- ptahk:txmod none\nSELECT 1;", "MG201", "1_a.sql:1:1"),
        ("-- ptahk:txmode off\nSELECT 1;", "MG203", "1_a.sql:1:1"),
        ("\n-- ptahk:txmode none\n-- ptahk:txmode none\nSELECT 1;", "MG203", "1_a.sql:3:1"),
        ("SELECT 1;\n  -- ptahk:txmode none\n", "MG202", "1_a.sql:2:3"),
        ("-- ptahk:lock-timeout soon\nSELECT 1;", "MG203", "1_a.sql:1:1"),
        ("-- ptahk:allow everything\nSELECT 1;", "MG203", "1_a.sql:1:1"),
        ("-- ptahk:ignore MG102 because\nSELECT 1;", "MG203", "1_a.sql:1:1"),
        ("-- ptahk:ignore MG113\nSELECT 1;", "MG203", "1_a.sql:1:1"),
    ],
)
def test_a_header_that_is_not_understood_is_refused(
    directory: Any, text: str, number: str, place: str
) -> None:
    found = directory({"1_a.sql": text})
    assert [(each.number, each.where) for each in found.findings] == [(number, place)]


def test_a_delimiter_of_the_header(directory: Any) -> None:
    text = "-- ptahk:delimiter //\nSELECT 1; SELECT 2 //\nSELECT 3"
    (one,) = directory({"1_a.sql": text}).required().migrations
    assert [each.text for each in one.statements] == ["SELECT 1; SELECT 2", "SELECT 3"]


def test_a_version_in_the_future_is_told_and_can_be_switched_off(directory: Any) -> None:
    texts = {"20300101000000_a.sql": T, "20250101000000_b.sql": T}
    found = directory(texts, latest="20261201000000")
    assert [(each.number, each.file) for each in found.findings] == [
        ("MG113", "20300101000000_a.sql")
    ]
    assert not numbers(found)
    texts["20300101000000_a.sql"] = "-- ptahk:ignore MG113 it is a plan\n" + T
    assert directory(texts, latest="20261201000000").findings == ()


def test_goose_runs_the_up_section_and_cuts_at_its_markers(directory: Any) -> None:
    text = (
        "-- +goose Up\n-- +goose StatementBegin\nSELECT 1\n-- +goose StatementEnd\nSELECT 2;\n"
        "-- +goose down\nSELECT 3;\n"
    )
    (one,) = directory({"00001_a.sql": text}).required().migrations
    assert [(each.text, each.line) for each in one.statements] == [("SELECT 1", 3), ("SELECT 2", 5)]
    assert (one.version, one.tx_mode) == ("1", "file")
    changed = directory({"00001_a.sql": text.replace("SELECT 3", "SELECT 4")}).required()
    assert changed.migrations[0].checksum == one.checksum
    assert changed.migrations[0].raw_digest != one.raw_digest


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (f"{T}\n-- +goose Up\n{T}", "MG205"),
        (f"-- +goose Up\n{T}\n-- +goose Up\n{T}", "MG206"),
        (f"-- +goose Down\n{T}\n-- +goose Up\n{T}", "MG206"),
        (f"-- +goose Up\n-- +goose StatementBegin\n{T}", "MG206"),
        (f"-- +goose Up\n-- +goose StatementEnd\n{T}", "MG206"),
        (f"-- +goose Up\n-- +goose ENVSUB ON\n{T}", "MG207"),
        (f"-- +goose Up\n-- +goose Sideways\n{T}", "MG201"),
        (T, "MG204"),
    ],
)
def test_what_goose_files_may_not_hold(directory: Any, text: str, number: str) -> None:
    assert number in numbers(directory({"1_a.sql": text}, layout="goose"))


def test_goose_in_go_is_refused(directory: Any) -> None:
    assert numbers(directory({"1_a.sql": GOOSE, "2_b.go": "package x"})) == ["MG109"]
    (one,) = directory({"1_a.sql": "-- +goose NO TRANSACTION\n" + GOOSE}).required().migrations
    assert one.tx_mode == "none"


def test_dbmate_keeps_leading_zeros_and_its_option(directory: Any) -> None:
    texts = {"01_a.sql": DBMATE, "1_b.sql": DBMATE.replace("up\n", "up transaction:false\n")}
    found = directory(texts).required()
    assert [(each.version, each.tx_mode) for each in found.migrations] == [
        ("01", "file"), ("1", "none"),
    ]  # fmt: skip
    assert [each.text for each in found.migrations[0].statements] == [T[:-1]]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (f"{T}\n-- migrate:up\n{T}", "MG205"),
        (f"-- migrate:up\n{T}\n-- migrate:up\n{T}", "MG206"),
        (f"-- migrate:down\n{T}\n-- migrate:up\n{T}", "MG206"),
        (f"-- migrate:up env:X\n{T}", "MG203"),
        (T, "MG204"),
    ],
)
def test_what_dbmate_files_may_not_hold(directory: Any, text: str, number: str) -> None:
    assert number in numbers(directory({"1_a.sql": text}, layout="dbmate"))


def test_flyway_orders_part_by_part_and_repeatables_last(directory: Any) -> None:
    texts = {
        "R__views.sql": T, "V2__b.sql": T, "sub/V1_10__c.sql": T, "V1.9__d.sql": T, "U2__b.sql": T,
        "B1__e.sql": T,
    }  # fmt: skip
    found = directory(texts).required()
    assert [(each.kind, each.version) for each in found.migrations] == [
        ("checkpoint", "1"), ("versioned", "1.9"), ("versioned", "1.10"), ("versioned", "2"),
        ("repeatable", "views"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "number"),
    [
        ({"V1__a.sql": T, "V1.0__b.sql": T}, "MG103"),
        ({"V1__a.sql": T, "beforeMigrate.sql": T}, "MG109"),
        ({"V1__a.sql": T, "V2__B.java": ""}, "MG109"),
        ({"V1__a.sql": "SELECT '${x}';"}, "MG110"),
        ({"V1__a.sql": T, "V1__a.sql.conf": "encoding=latin1\n"}, "MG207"),
        ({"V1__a.sql": T, "v2__b.sql": T}, "MG102"),
        ({"V1__a.sql": "VACUUM; SELECT 1;"}, "MG410"),
    ],
)
def test_what_flyway_directories_may_not_hold(
    directory: Any, texts: dict[str, str], number: str
) -> None:
    assert number in numbers(directory(texts))


def test_placeholders_and_settings_of_flyway(directory: Any) -> None:
    texts = {"V1__a.sql": "SELECT '${x}';", "V2__b.sql": T, "V2__b.sql.conf":
             "# x\nexecuteInTransaction=false\n"}  # fmt: skip
    found = directory(texts, placeholders={"x": "y"}).required()
    assert [each.text for each in found.migrations[0].statements] == ["SELECT 'y'"]
    assert found.migrations[1].tx_mode == "none"
    off = directory(texts, placeholders="off").required()
    assert [each.text for each in off.migrations[0].statements] == ["SELECT '${x}'"]
    assert off.migrations[0].checksum == found.migrations[0].checksum


def test_diesel_folders(directory: Any) -> None:
    texts = {
        "2019-09-12-100000_a/up.sql": T,
        "2019-09-12-100000_a/metadata.toml": "run_in_transaction = false\n",
        "00000000000000_setup/up.sql": T,
    }
    found = directory(texts).required()
    assert [(each.version, each.tx_mode) for each in found.migrations] == [
        ("0", "file"), ("20190912100000", "none"),
    ]  # fmt: skip
    assert numbers(directory(texts | {"x/up.sql": T})) == ["MG102"]
    bad = texts | {"2019-09-12-100000_a/metadata.toml": "run_in_transaction = 'no'\n"}
    assert numbers(directory(bad)) == ["MG203"]


def test_atlas_directives(directory: Any) -> None:
    texts = {
        "1_a.sql": "-- atlas:txmode none\n\nVACUUM; SELECT 1;",
        "2_b.sql": "-- atlas:delimiter \\n\\n\nSELECT 1;\nSELECT 2\n\nSELECT 3",
        "3_c.sql": "-- atlas:checkpoint tag\n\nSELECT 1;",
        "4_d.sql": "SELECT 1; -- atlas:nolint\n",
    }
    found = directory(texts, layout="atlas").required()
    assert [(each.kind, each.tx_mode) for each in found.migrations] == [
        ("versioned", "none"), ("versioned", "file"), ("checkpoint", "file"), ("versioned", "file"),
    ]  # fmt: skip
    assert [each.text for each in found.migrations[1].statements] == [
        "SELECT 1;\nSELECT 2", "SELECT 3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-- atlas:txmode none\nSELECT 1;", "MG202"),
        ("SELECT 1;\n-- atlas:txmode none\n", "MG202"),
        ("-- atlas:txmode all\n\nSELECT 1;", "MG203"),
        ("-- atlas:txtar\n\nSELECT 1;", "MG207"),
        ("-- atlas:import x\n\nSELECT 1;", "MG207"),
        ("-- atlas:nothing\n\nSELECT 1;", "MG201"),
    ],
)
def test_what_atlas_files_may_not_hold(directory: Any, text: str, number: str) -> None:
    assert numbers(directory({"1_a.sql": text}, layout="atlas")) == [number]


def test_atlas_sorts_as_text_only_where_somebody_says_so(directory: Any) -> None:
    texts = {"10_a.sql": T, "9_b.sql": T}
    signed = texts | {"atlas.sum": ""}
    assert "MG112" in numbers(directory(signed))
    assert seen(directory(texts, layout="atlas")) == [("10", "10_a.sql"), ("9", "9_b.sql")]
