"""The histories of other tools: whose a table is, what its rows say, what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.migrations import reading, sums
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import InvalidSource
from ptahk.migrations.foreign import baseline, evidence, recorded, tables
from ptahk.migrations.foreign.baseline import Baseline
from ptahk.migrations.foreign.tables import Content, Table, Tool
from ptahk.migrations.history import Row, judge
from ptahk.migrations.model import Format

COLUMNS: dict[Tool, tuple[str, ...]] = {
    "golang-migrate": ("version", "dirty"),
    "dbmate": ("version",),
    "diesel": ("version", "run_on"),
    "goose": ("id", "version_id", "is_applied", "tstamp"),
    "ptah": ("version", "description", "applied_at", "state", "applied", "total", "error",
             "error_stmt", "execution_time_ms", "checksum"),
    "atlas": ("version", "description", "type", "applied", "total", "executed_at",
              "execution_time", "error", "error_stmt", "hash", "partial_hashes",
              "operator_version"),
    "flyway": ("installed_rank", "version", "description", "type", "script", "checksum",
               "installed_by", "installed_on", "execution_time", "success"),
}  # fmt: skip


def table(tool: Tool, schema: str = "public") -> Table:
    return Table(schema, tables.SHAPES[tool].names[0], COLUMNS[tool])


def directory(layout: Format, **texts: str) -> Any:
    return of_files(layout, [SourceFile(name, text) for name, text in texts.items()])


def of_files(layout: Format, given: list[SourceFile]) -> Any:
    return reading.read(given, engine="postgresql", layout=layout).required()


def made(tool: Tool, rows: list[tuple[Any, ...]], wanted: Any) -> Baseline:
    return baseline.of(wanted, Content(tool, table(tool), tuple(rows)))


def numbers(found: Baseline) -> list[str]:
    return [finding.number for finding in found.findings]


def brief(found: Baseline) -> list[tuple[str, str, bool]]:
    return [(row.version, row.kind, row.verified) for row in found.rows]


@pytest.mark.parametrize("tool", tables.TOOLS)
def test_a_table_is_known_by_its_columns(tool: Tool) -> None:
    shouted = Table("s", "t", tuple(name.upper() for name in COLUMNS[tool]))
    assert tables.recognise(shouted) == tool
    assert set(tables.SHAPES[tool].reads) <= set(COLUMNS[tool])


def test_a_table_of_nobodys() -> None:
    assert tables.recognise(Table("s", "schema_migrations", ("version", "name"))) is None
    assert tables.recognise(Table("s", "schema_migrations", ("version", "dirty", "x"))) is None


def test_the_one_table_that_is_meant() -> None:
    golang, rails = table("golang-migrate"), table("dbmate", "other")
    assert tables.choose([golang], None, None) == ("golang-migrate", golang)
    assert tables.choose([golang, rails], "dbmate", None) == ("dbmate", rails)
    for found, tool, named, words in (
        ([golang, rails], None, None, "more than one"),
        ([golang], "goose", None, "public.schema_migrations (golang-migrate)"),
        ([], None, "x.y", "x.y is not one"),
        ([Table("s", "schema_migrations", ("a",))], None, None, "columns a"),
    ):
        with pytest.raises(InvalidSource, match="MG704") as refused:
            tables.choose(found, tool, named)  # type: ignore[arg-type]
        assert words in refused.value.message


THREE = {"1_a.sql": "SELECT 1;", "2_b.sql": "SELECT 2;", "10_c.sql": "SELECT 3;"}


def test_golang_migrate_assumes_every_file_up_to_its_version() -> None:
    wanted = directory("golang-migrate", **{
        "0001_a.up.sql": "SELECT 1;", "2_b.up.sql": "SELECT 2;", "10_c.up.sql": "SELECT 3;",
    })  # fmt: skip
    found = made("golang-migrate", [(2, 0)], wanted)
    assert brief(found) == [("1", "imported", False), ("2", "imported", False)]
    with pytest.raises(InvalidSource, match="MG705"):
        found.required(accept_unverified=False)
    found.required(accept_unverified=True)
    assert [row.checksum for row in found.rows] == [None, None]
    assert made("golang-migrate", [], wanted).rows == []
    assert made("golang-migrate", [(-1, 0)], wanted).rows == []
    for rows, number in (([(2, 1)], "MG701"), ([(-1, 1)], "MG701"), ([(7, 0)], "MG702"),
                         ([(1, 0), (2, 0)], "MG701")):  # fmt: skip
        assert numbers(made("golang-migrate", rows, wanted)) == [number], rows


def test_what_is_presence_only() -> None:
    found = made("dbmate", [("1",), ("10",)], directory("ptahk", **THREE))
    assert brief(found) == [("1", "imported", False), ("10", "imported", False)]
    rows = [Row(row.version, row.kind, "applied", at, row.file, row.checksum)
            for at, row in enumerate(found.rows)]  # fmt: skip
    judged = judge(directory("ptahk", **THREE), rows)
    assert (judged.verdict, judged.findings[0].file) == ("outOfOrder", "2_b.sql")
    assert numbers(made("diesel", [("20200101000000",)], directory("ptahk", **THREE))) == ["MG702"]
    diesel = directory("diesel", **{"2020-01-01-000000_a/up.sql": "SELECT 1;"})
    assert brief(made("diesel", [("20200101000000",)], diesel)) == [
        ("20200101000000", "imported", False)
    ]


def test_goose_goes_by_the_newest_row_of_a_version() -> None:
    rows = [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 2, 0), (5, 10, 0), (6, 10, 1)]
    found = made("goose", rows, directory("ptahk", **THREE))
    assert brief(found) == [("1", "imported", False), ("10", "imported", False)]
    assert made("goose", [(1, 0, 1)], directory("ptahk", **THREE)).rows == []


def test_ptahs_own_rows() -> None:
    wanted = directory("ptahk", **THREE)
    raw = wanted.migrations[0].raw_digest.removeprefix("sha256:")
    rows = [(1, "a", "applied", 1, 1, None, raw), (2, "b", "applied", 1, 1, "", "other")]
    assert brief(made("ptah", rows, wanted)) == [("1", "imported", True), ("2", "imported", False)]
    for row in ((1, "a", "pending", 0, 1, None, raw), (1, "a", "applied", 1, 2, "no", raw)):
        assert numbers(made("ptah", [row], wanted)) == ["MG701"]


def test_flyways_checksum_is_over_the_lines() -> None:
    text = "CREATE TABLE a (i int);\nCREATE TABLE b (i int);"
    assert evidence.crc32(text) == 572063356
    assert evidence.crc32("\ufeff" + text.replace("\n", "\r\n") + "\r\n") == 572063356


def flyway_row(rank: int, version: str | None, script: str, **more: Any) -> tuple[Any, ...]:
    given = {"kind": "SQL", "checksum": None, "success": 1, "title": script.split("__")[1][:-4]}
    given |= more
    return (rank, version, given["title"], given["kind"], script, given["checksum"],
            given["success"])  # fmt: skip


FLYWAY = {
    "V1__a.sql": "SELECT 1;", "V1_1__b.sql": "SELECT 2;", "V2__c.sql": "SELECT 3;",
    "R__v.sql": "SELECT 4;",
}  # fmt: skip


def crc(name: str) -> int:
    return evidence.crc32(FLYWAY[name])


def test_flyways_rows_are_verified_and_ranked() -> None:
    wanted = directory("flyway", **FLYWAY)
    one = flyway_row(1, "1", "V1__a.sql", checksum=crc("V1__a.sql"))
    two = flyway_row(2, "1.1", "V1_1__b.sql", checksum=crc("V1_1__b.sql"))
    repeat = flyway_row(4, None, "R__v.sql", checksum=crc("R__v.sql"))
    found = made("flyway", [one, two, repeat], wanted)
    assert brief(found) == [
        ("1", "imported", True), ("1.1", "imported", True), ("v", "repeatable", True),
    ]  # fmt: skip
    assert (found.findings, found.unverified) == ([], ())
    assert found.rows[0].checksum == wanted.migrations[0].checksum
    undone = flyway_row(3, "1.1", "U1_1__b.sql", kind="UNDO_SQL")
    assert brief(made("flyway", [one, two, undone], wanted)) == [("1", "imported", True)]
    deleted = flyway_row(3, "1.1", "V1_1__b.sql", kind="DELETE")
    assert brief(made("flyway", [one, two, deleted], wanted)) == [("1", "imported", True)]
    stale = flyway_row(5, None, "R__v.sql", checksum=1)
    assert brief(made("flyway", [repeat, stale], wanted)) == [("v", "repeatable", False)]
    failed = flyway_row(3, "2", "V2__c.sql", success=0)
    assert numbers(made("flyway", [one, failed], wanted)) == ["MG701"]
    edited = flyway_row(3, "2", "V2__c.sql", checksum=5)
    assert numbers(made("flyway", [one, edited], wanted)) == ["MG703"]
    java = flyway_row(3, "3", "com.example.V3__d.sql", kind="JDBC")
    assert numbers(made("flyway", [one, java], wanted)) == ["MG702"]


def test_a_baseline_of_flyway_covers_lower_versions() -> None:
    base = flyway_row(2, "1.1", "<< Flyway__Baseline >>", kind="BASELINE", title="base")
    schema = flyway_row(1, None, "`s`__x", kind="SCHEMA", title="<< Flyway Schema Creation >>")
    two = flyway_row(3, "2", "V2__c.sql", checksum=crc("V2__c.sql"))
    wanted = directory("flyway", **FLYWAY)
    assert brief(made("flyway", [schema, base, two], wanted)) == [
        ("1", "covered", False), ("1.1", "covered", False), ("2", "imported", True),
    ]  # fmt: skip
    without = directory("flyway", **{"V2__c.sql": FLYWAY["V2__c.sql"]})
    old = flyway_row(1, "1", "V1__a.sql", checksum=9)
    assert brief(made("flyway", [old, base, two], without)) == [
        ("1", "covered", False), ("2", "imported", True),
    ]  # fmt: skip


ATLAS = [SourceFile(f"{n}_x.sql", f"SELECT {n};\n") for n in (1, 2, 3)]


def atlas_row(version: str, hashed: str, **more: Any) -> tuple[Any, ...]:
    given = {"kind": 2, "applied": 1, "total": 1, "error": None} | more
    return (version, "x", given["kind"], given["applied"], given["total"], given["error"], hashed)


def chain(*files: SourceFile) -> list[str]:
    return [hashed for _, hashed in sums.atlas_chain(files)]


def test_atlas_is_verified_by_its_chain() -> None:
    wanted = of_files("atlas", ATLAS)
    rows = [(".atlas_cloud_identifier", "", 2, 0, 0, None, "")]
    rows += [atlas_row(str(n), hashed) for n, hashed in enumerate(chain(*ATLAS), 1)]
    found = made("atlas", rows, wanted)
    assert brief(found) == [(str(n), "imported", True) for n in (1, 2, 3)]
    assert numbers(made("atlas", [*rows[:2], atlas_row("2", "other")], wanted)) == ["MG703"]
    late = [atlas_row("1", chain(*ATLAS)[0]), atlas_row("3", chain(ATLAS[0], ATLAS[2])[1])]
    assert brief(made("atlas", late, wanted)) == [("1", "imported", True), ("3", "imported", True)]


def test_what_atlas_did_not_finish_or_was_told_to_believe() -> None:
    wanted = of_files("atlas", ATLAS)
    hashes = chain(*ATLAS)
    for more in ({"applied": 1, "total": 2}, {"error": "no"}):
        assert numbers(made("atlas", [atlas_row("1", hashes[0], **more)], wanted)) == ["MG701"]
    resolved = atlas_row("1", hashes[0], kind=6, applied=1, total=2, error="no")
    assert brief(made("atlas", [resolved], wanted)) == [("1", "imported", True)]
    base = atlas_row("2", hashes[1], kind=1, applied=0, total=0)
    assert brief(made("atlas", [base, atlas_row("3", hashes[2])], wanted)) == [
        ("1", "covered", False), ("2", "imported", True), ("3", "imported", True),
    ]  # fmt: skip
    moved = of_files("ptahk", ATLAS)
    assert brief(made("atlas", [atlas_row("1", "h1:" + hashes[0])], moved)) == [
        ("1", "imported", False)
    ]


def test_a_checkpoint_covers_what_has_no_file() -> None:
    wanted = directory("ptahk", **{
        "5_all.checkpoint.sql": "SELECT 0;", "6_b.sql": "SELECT 1;",
    })  # fmt: skip
    found = made("dbmate", [("3",), ("6",)], wanted)
    assert brief(found) == [("3", "covered", False), ("6", "imported", False)]
    rows = [
        Row(row.version, row.kind, "applied", at, row.file) for at, row in enumerate(found.rows)
    ]
    assert judge(wanted, rows).verdict == "nothingPending"


def test_the_digest_moves_with_the_tool_and_not_with_times() -> None:
    one = Content("goose", table("goose"), ((1, 0, 1),))
    assert one.digest == Content("goose", table("goose", "other"), ((1, 0, 1),)).digest
    assert one.digest != Content("goose", table("goose"), ((1, 0, 1), (2, 1, 1))).digest
    read = tables.content("goose", table("goose"), [(2, 1, True), (1, b"0", None)])
    assert read.rows == ((1, "0", None), (2, 1, 1))
    text = tables.content("dbmate", table("dbmate"), [("b",), ("B",), ("a",)])
    assert text.rows == (("B",), ("a",), ("b",))
    with pytest.raises(InvalidSource, match="MG704"):
        tables.content("dbmate", table("dbmate"), [("a",)] * (tables.ROWS_MAX + 1))
    assert all("_at" not in name for shape in tables.SHAPES.values() for name in shape.reads)


def test_every_tool_is_read() -> None:
    for tool in tables.TOOLS:
        assert recorded.read(Content(tool, table(tool), ())).recorded == []
