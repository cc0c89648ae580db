"""Schemas that other projects run: apply and plan empty, from release to release, with rows."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from ptahk.executor.dialects.postgres.declaration import declaration
from tests.executor.planning_kit import Bench, DataRefused, bench, shared_bench
from tests.kit.installs import find
from tests.kit.servers import SUPERUSER, Server

__all__ = ["bench", "shared_bench"]

RELEASES = ("1.0.0", "1.1.0", "1.1.1", "1.2.0", "1.2.1", "1.3.0", "1.4.0", "1.5.1")
STEPS = [
    *zip(RELEASES, (*RELEASES[1:], "schema"), strict=True),
    *((release, "schema") for release in RELEASES[:-1]),
]


def icinga(corpora: Path, name: str) -> str:
    folder = corpora / "icingadb" / "pgsql"
    path = folder / "schema.sql" if name == "schema" else folder / "releases" / f"{name}.sql"
    return path.read_text()


def fill(bench: Bench) -> int:
    """A row of made-up values in every table that takes one; how many there are then."""
    bench.live.conn.execute("SET session_replication_role = replica")
    rows = bench.live.query(
        "SELECT c.oid::regclass::text, string_agg(quote_ident(a.attname), ', ' ORDER BY attnum),"
        " string_agg(CASE WHEN t.typtype = 'e' THEN (SELECT quote_literal(e.enumlabel) FROM"
        "   pg_enum e WHERE e.enumtypid = t.oid ORDER BY enumsortorder LIMIT 1)"
        "  WHEN t.typcategory = 'N' OR b.typcategory = 'N' THEN '1'"
        "  WHEN t.typname = 'bytea' OR b.typname = 'bytea' THEN"
        "   CASE WHEN t.typname = 'bytea20' THEN quote_literal('\\x' || repeat('ab', 20))"
        "        WHEN t.typname = 'bytea4' THEN quote_literal('\\x01020304')"
        "        WHEN t.typname = 'bytea16' THEN quote_literal('\\x' || repeat('ab', 16))"
        "        ELSE quote_literal('\\x' || repeat('ab', 20)) END"
        "  ELSE quote_literal('x') END, ', ' ORDER BY attnum)"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
        "  AND NOT a.attisdropped JOIN pg_type t ON t.oid = a.atttypid"
        " LEFT JOIN pg_type b ON b.oid = t.typbasetype"
        " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY c.oid"
    )
    filled = 0
    for table, columns, values in rows:
        with suppress(psycopg.errors.CheckViolation), bench.live.conn.transaction():
            bench.live.conn.execute(
                f"INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING".encode()
            )
        filled += 1
    bench.live.conn.execute("RESET ALL")
    return filled


def counts(bench: Bench, tables: list[str]) -> dict[str, int]:
    return {t: bench.live.query(f"SELECT count(*) FROM {t}")[0][0] for t in tables}


def tables_of(bench: Bench) -> list[str]:
    return [
        row[0]
        for row in bench.live.query(
            "SELECT 'public.' || quote_ident(relname) FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace ORDER BY 1"
        )
    ]


def dump(server: Server, bench: Bench) -> str:
    """``pg_dump --schema-only`` without the lines that are psql's own."""
    program = find(server.version).tool("pg_dump")
    url = server.socket_url(bench.live.conn.info.dbname, SUPERUSER)
    done = subprocess.run(
        [program, "--schema-only", "--dbname", url], capture_output=True, text=True, check=True
    )
    lines = (line for line in done.stdout.splitlines() if not line.startswith("\\"))
    return "\n".join(lines).replace("CREATE SCHEMA public;", "")


@pytest.mark.pg(15, 17, 18)
@pytest.mark.parametrize("name", ["sakila", "icingadb"])
def test_new_database(bench: Bench, corpora: Path, name: str) -> None:
    """One run from nothing, and nothing is left."""
    sakila = corpora / "sakila" / "postgresql.sql"
    bench.declared.run(sakila.read_text() if name == "sakila" else icinga(corpora, "schema"))
    made = bench.converge()
    assert {statement.group for statement in made.statements} == {1}


@pytest.mark.pg(15, 17, 18)
@pytest.mark.parametrize(("old", "new"), STEPS, ids=lambda name: name)
def test_releases_keep_rows(bench: Bench, corpora: Path, old: str, new: str) -> None:
    """Every release to the next and to the current schema, with a row in every table."""
    bench.live.run(icinga(corpora, old))
    assert fill(bench) > 40
    before = counts(bench, tables_of(bench))
    bench.declared.run(icinga(corpora, new))
    for table in _converge_without(bench):
        before.pop(table, None)
    after = counts(bench, tables_of(bench))
    assert {t: n for t, n in before.items() if t in after} == {
        t: n for t, n in after.items() if t in before
    }


def _converge_without(bench: Bench) -> list[str]:
    """Converge; empty, one by one, the tables whose rows have no value for a new column.

    The projects' own upgrades say that value, a declaration does not. Nothing else may be refused.
    """
    emptied: list[str] = []
    while True:
        try:
            bench.converge()
            return emptied
        except DataRefused as refused:
            for message in str(refused).split("; "):
                found = re.search(r"is NOT NULL without a default and (\S+) has rows", message)
                assert found, message
                bench.live.conn.execute(f"DELETE FROM {found[1]}".encode())
                emptied.append(found[1])


@pytest.mark.pg(15, 17, 18)
def test_value_without_a_home_is_refused(bench: Bench, corpora: Path) -> None:
    """``sticky`` in ``acked`` (1.3.0 to 1.4.0): refused by table, column and value."""
    bench.live.run(icinga(corpora, "1.3.0"))
    table, column = bench.live.query(
        "SELECT c.oid::regclass::text, a.attname FROM pg_attribute a JOIN pg_class c"
        " ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid WHERE t.typname = 'acked'"
        " AND c.relkind = 'r' ORDER BY 1 LIMIT 1"
    )[0]
    fill(bench)
    bench.live.conn.execute(f"UPDATE {table} SET {column} = 'sticky'".encode())
    bench.declared.run(icinga(corpora, "1.4.0"))
    before = bench.plan().observed_fingerprint
    with pytest.raises(DataRefused) as refused:
        bench.converge()
    for word in (table, column, "sticky"):
        assert word in str(refused.value)
    assert bench.plan().observed_fingerprint == before


@pytest.mark.pg(15, 17, 18)
@pytest.mark.parametrize("name", ["sakila", "icingadb"])
def test_dump_and_declaration_say_the_same(
    bench: Bench, postgres: Server, corpora: Path, name: str
) -> None:
    """What pg_dump and ``observe -o sql`` print of a result, used as the declaration."""
    sakila = corpora / "sakila" / "postgresql.sql"
    bench.live.run(sakila.read_text() if name == "sakila" else icinga(corpora, "1.0.0"))
    if name == "icingadb":
        bench.declared.run(icinga(corpora, "schema"))
        bench.converge()
    written = declaration(bench.live.catalog(sorted(bench.live.schemas())))
    for text in (dump(postgres, bench), written):
        bench.declared.empty()
        bench.declared.run(text)
        made = bench.plan()
        assert [s.sql for s in made.statements] == []
        assert made.refusals == ()
