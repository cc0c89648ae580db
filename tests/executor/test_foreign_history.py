"""Other tools' histories on a real server of each engine: found, imported, and watched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.errors import Refused
from ptahk.executor.dialects.mysql import foreign as my_foreign
from ptahk.executor.dialects.postgres import foreign as pg_foreign
from ptahk.migrations import history, importing, reading, sums
from ptahk.migrations.files import SourceFile
from ptahk.migrations.findings import InvalidSource
from ptahk.migrations.foreign import baseline, evidence
from ptahk.migrations.foreign.tables import SHAPES, TOOLS
from ptahk.migrations.plans import Chosen
from tests.kit.databases import unique
from tests.kit.foreign import DDL
from tests.kit.sequences import Sequences
from tests.kit.targets import Target

ONE, TWO, THREE = "CREATE TABLE t (a int);\n", "CREATE TABLE u (a int);\n", "SELECT 3;\n"


@pytest.fixture
def bed(target: Target) -> Sequences:
    return Sequences(target)


@pytest.fixture
def mine(bed: Sequences) -> Iterator[Any]:
    with bed.session() as made:
        yield made


def foreign(bed: Sequences) -> Any:
    return pg_foreign if bed.postgresql else my_foreign


def name_of(tool: str) -> str:
    return SHAPES[tool].names[0]  # type: ignore[index]


def make(bed: Sequences, tool: str) -> None:
    bed.target.run(DDL[tool][bed.target.engine])


def read(bed: Sequences, layout: Any, **texts: str) -> Any:
    given = [SourceFile(name, text) for name, text in texts.items()]
    return reading.read(given, engine=bed.engine, layout=layout).required()


def ptahk_layout(bed: Sequences) -> Any:
    return read(bed, "ptahk", **{"1_a.sql": ONE, "2_b.sql": TWO, "3_c.sql": THREE})


def filled(bed: Sequences, tool: str) -> tuple[Any, list[str], str]:
    """A directory, the rows of versions 1 and 2 as the tool writes them, and one row more."""
    table = name_of(tool)
    hashes = [each for _, each in sums.atlas_chain([SourceFile("1_a.sql", ONE),
                                                   SourceFile("2_b.sql", TWO)])]  # fmt: skip
    crcs = [evidence.crc32(ONE), evidence.crc32(TWO)]
    simple = ptahk_layout(bed)
    yes = "true"
    raw = simple.migrations[0].raw_digest.removeprefix("sha256:")
    match tool:
        case "golang-migrate":
            return (
                read(bed, tool, **{"1_a.up.sql": ONE, "2_b.up.sql": TWO, "3_c.up.sql": THREE}),
                [f"INSERT INTO {table} VALUES (2, false)"],
                f"UPDATE {table} SET version = 3",
            )
        case "dbmate":
            return (
                simple,
                [f"INSERT INTO {table} VALUES ('1'), ('2')"],
                (f"INSERT INTO {table} VALUES ('3')"),
            )
        case "diesel":
            return (
                read(bed, tool, **{"1_a/up.sql": ONE, "2_b/up.sql": TWO, "3_c/up.sql": THREE}),
                [f"INSERT INTO {table} (version) VALUES ('1'), ('2')"],
                f"INSERT INTO {table} (version) VALUES ('3')",
            )
        case "goose":
            insert = f"INSERT INTO {table} (version_id, is_applied) VALUES "
            return simple, [f"{insert} (0, {yes}), (1, {yes}), (2, {yes})"], f"{insert} (3, {yes})"
        case "atlas":

            def atlas(version: int, hashed: str) -> str:
                return (
                    f"INSERT INTO {table} VALUES ('{version}', 'x', 2, 1, 1, CURRENT_TIMESTAMP, 5,"
                    f" NULL, NULL, '{hashed}', NULL, 'Atlas CLI')"
                )

            return (
                read(bed, tool, **{"1_a.sql": ONE, "2_b.sql": TWO, "3_c.sql": THREE}),
                [atlas(1, hashes[0]), atlas(2, hashes[1])],
                atlas(3, "x"),
            )
        case "flyway":

            def flyway(rank: int, name: str, crc: int) -> str:
                return (
                    f"INSERT INTO {table} VALUES ({rank}, '{rank}', 'x', 'SQL', '{name}', {crc},"
                    f" 'me', CURRENT_TIMESTAMP, 7, {yes})"
                )

            return (
                read(bed, tool, **{"V1__a.sql": ONE, "V2__b.sql": TWO, "V3__c.sql": THREE}),
                [flyway(1, "V1__a.sql", crcs[0]), flyway(2, "V2__b.sql", crcs[1])],
                flyway(3, "V3__c.sql", 1),
            )
        case _:
            insert = f"INSERT INTO {table} (version, description, applied, total, checksum) VALUES"
            return (
                simple,
                [f"{insert} (1, 'a', 1, 1, '{raw}'), (2, 'b', 1, 1, NULL)"],
                (f"{insert} (3, 'c', 1, 1, NULL)"),
            )


def rows_to_write(directory: Any, found: Any) -> Any:
    """What an import that a person accepts as it is would record."""
    asked = importing.change("auto", accept_unverified=True)
    chosen = importing.choose(directory, [], found, asked, known=None)
    assert isinstance(chosen, Chosen), chosen
    return chosen.rows


VERIFIED = {"atlas": [True, True], "flyway": [True, True], "ptah": [True, False]}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_history_is_imported_and_watched(bed: Sequences, mine: Any, tool: Any) -> None:
    directory, rows, more = filled(bed, tool)
    make(bed, tool)
    bed.target.run(*rows)
    before = bed.target.rows(f"SELECT * FROM {name_of(tool)}")
    content = foreign(bed).find(mine, None, None)
    assert content.tool == tool
    assert foreign(bed).find(mine, tool, name_of(tool)) == content
    found = baseline.of(directory, content)
    assert found.findings == []
    assert [(row.version, row.kind) for row in found.rows] == [("1", "imported"), ("2", "imported")]
    assert [row.verified for row in found.rows] == VERIFIED.get(tool, [False, False])
    assert foreign(bed).watched(mine, "default") is None
    attempt = bed.attempt(directory)
    given = rows_to_write(directory, found)
    foreign(bed).adopt(mine, attempt, content, given)
    with pytest.raises(Refused, match="has a history already"):
        foreign(bed).adopt(mine, attempt, content, given)
    judged = history.judge(directory, bed.rows(mine))
    assert (judged.verdict, [each.version for each in judged.pending]) == ("pending", ["3"])
    assert foreign(bed).watched(mine, "default") == (content.digest, False)
    assert bed.target.rows(f"SELECT * FROM {name_of(tool)}") == before, "it is never written"
    assert bed.run(mine, directory, judged.pending) == 1
    assert foreign(bed).watched(mine, "default") == (content.digest, False)
    bed.target.run(more)
    digest, moved = foreign(bed).watched(mine, "default")
    assert (digest, moved) == (content.digest, True)
    judged = history.judge(directory, bed.rows(mine), foreign_moved=moved)
    assert (judged.verdict, judged.findings[0].number) == ("dirty", "MG604")
    bed.target.run(f"DROP TABLE {name_of(tool)}")
    assert foreign(bed).watched(mine, "default") == (content.digest, False)
    bed.target.run(f"CREATE TABLE {name_of(tool)} (a int)")
    assert foreign(bed).watched(mine, "default") == (content.digest, True)


def test_what_was_never_finished_is_not_imported(bed: Sequences, mine: Any) -> None:
    make(bed, "golang-migrate")
    bed.target.run("INSERT INTO schema_migrations VALUES (2, true)")
    found = baseline.of(ptahk_layout(bed), foreign(bed).find(mine, None, None))
    with pytest.raises(InvalidSource, match="MG701"):
        found.required(accept_unverified=True)


def test_two_tools_or_none_are_told_apart_by_a_person(bed: Sequences, mine: Any) -> None:
    with pytest.raises(InvalidSource, match="MG704"):
        foreign(bed).find(mine, None, None)
    make(bed, "goose")
    make(bed, "dbmate")
    with pytest.raises(InvalidSource, match="more than one"):
        foreign(bed).find(mine, None, None)
    assert foreign(bed).find(mine, "dbmate", None).tool == "dbmate"
    other = unique("elsewhere")
    schema = other if bed.postgresql else bed.target.database.name
    if bed.postgresql:
        bed.target.run(f"CREATE SCHEMA {other}", f"CREATE TABLE {other}.{other} (version text)")
    else:
        bed.target.run(f"CREATE TABLE {other} (version varchar(20))")
    for named in (other, f"{schema}.{other}"):
        assert str(foreign(bed).find(mine, None, named).table) == f"{schema}.{other}"
    bed.target.run(f"CREATE VIEW goose_view AS SELECT * FROM {name_of('goose')}")
    with pytest.raises(InvalidSource, match="goose_view is not one"):
        foreign(bed).find(mine, "goose", "goose_view")
