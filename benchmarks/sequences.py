"""1,000 migrations: ``migrate status`` and ``plan``, whole processes."""

from __future__ import annotations

from pathlib import Path

from benchmarks._report import Row, median, seconds
from benchmarks._server import Place, place
from tests.kit import databases

FILES = 1000
STATUS_MAX_S = 1.0
PLAN_MAX_S = 2.0


def rows(rounds: int, version: int) -> list[Row]:
    """The figures, over a directory whose first 1,000 files are applied and ten are not."""
    with place(version) as spot:
        database = databases.create(spot.server)
        folder = spot.folder / "migrations"
        folder.mkdir()
        _write(folder, 1, FILES)
        _run(spot, database.url(), "baseline", "--to", str(FILES), folder)
        status = [
            seconds(lambda: _run(spot, database.url(), "migrate", "status", folder))
            for _ in range(rounds)
        ]
        _write(folder, FILES + 1, FILES + 10)
        plan = [seconds(lambda: _run(spot, database.url(), "plan", folder)) for _ in range(rounds)]
    return [
        Row(f"migrate status of {FILES} files, whole process", median(status), "s", STATUS_MAX_S),
        Row(f"plan of 10 after {FILES} files, whole process", median(plan), "s", PLAN_MAX_S),
    ]


def _write(folder: Path, first: int, last: int) -> None:
    for number in range(first, last + 1):
        (folder / f"{number}_item.sql").write_text(
            f"-- What version {number} is about.\n"
            f"CREATE TABLE item_{number} (id bigint PRIMARY KEY, name text NOT NULL, note text);\n"
            f"CREATE INDEX item_{number}_name ON item_{number} (name);\n"
            f"INSERT INTO item_{number} VALUES (1, 'it''s; one', NULL);\n"
        )


def _run(spot: Place, url: str, *arguments: str | Path) -> None:
    *words, folder = map(str, arguments)
    spot.ptahk(url, spot.folder / "state", *words, "--migrations", folder, "--url-env",
               "DATABASE_URL")  # fmt: skip
