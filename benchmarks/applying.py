"""``ptahk apply`` of one statement, whole process: plan, apply, prove, release."""

from __future__ import annotations

from benchmarks._report import Row, median, seconds
from benchmarks._server import Place, place
from tests.kit import databases

APPLY_MAX_S = 3.0


def rows(rounds: int, version: int) -> list[Row]:
    """The figures. Every round adds one column to a table with rows."""
    times = []
    with place(version) as spot:
        database = databases.create(spot.server)
        database.run("CREATE TABLE item (id bigint PRIMARY KEY, c0 text)")
        database.run("INSERT INTO item SELECT n, n::text FROM generate_series(1, 10000) n")
        for number in range(1, rounds + 2):
            spent = seconds(lambda n=number: _apply(spot, database.url(), n))  # type: ignore[misc]
            if number > 1:  # the first creates the ledger too
                times.append(spent)
    return [Row("apply of one statement, whole process", median(times), "s", APPLY_MAX_S)]


def _apply(spot: Place, url: str, columns: int) -> None:
    declared = ", ".join(f"c{number} text" for number in range(columns + 1))
    file = spot.folder / "schema.sql"
    file.write_text(f"CREATE TABLE item (id bigint PRIMARY KEY, {declared});\n")
    arguments = ("--engine", "postgresql", "--schema", str(file), "--auto-approve")
    spot.ptahk(url, spot.folder / "state", "apply", *arguments)
