"""A history of another tool: imported once, by a person's word, and watched afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MakeUser
from tests.cli.kit import Answer, Ptahk
from tests.cli.test_sequences import apply, status, write
from tests.kit import servers, targets
from tests.kit.foreign import DDL
from tests.kit.targets import Target

FILES = {
    "1_orders.sql": "CREATE TABLE orders (id bigint PRIMARY KEY);\n",
    "2_customer.sql": "ALTER TABLE orders ADD COLUMN customer varchar(20);\n",
    "3_rows.sql": "INSERT INTO orders VALUES (1, 'ann');\nINSERT INTO orders VALUES (2, 'bob');\n",
}


@pytest.fixture(params=["pg18", "mysql", "mariadb"])
def target(request: pytest.FixtureRequest, server_run: servers.Run) -> Iterator[Target]:
    with targets.open_target(server_run, request.param) as made:
        yield made


def made_by(target: Target, tool: str, *rows: str) -> None:
    """The first file, as another tool ran it, and that tool's table."""
    target.run(FILES["1_orders.sql"], DDL[tool][target.engine], *rows)


def baseline(user: Ptahk, folder: str, *more: str) -> Answer:
    return user.run("baseline", "--migrations", folder, "-o", "json", *more)


def revisions(target: Target) -> list[tuple[Any, ...]]:
    table = "ptahk.revisions" if target.engine == "postgresql" else "ptahk_revisions"
    query = f"SELECT version, kind, state, checksum IS NOT NULL FROM {table} ORDER BY ordinal"
    return [(*row[:3], bool(row[3])) for row in target.rows(query)]


def test_a_history_is_imported_by_a_persons_word_and_watched(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user, folder = user_of(target.url()), write(tmp_path, FILES)
    made_by(target, "golang-migrate", "INSERT INTO schema_migrations VALUES (1, false)")
    assert "--from TOOL" in apply(user, folder).refusal(3, "DatabaseNotEmpty")
    line = baseline(user, folder, "--from", "golang-migrate").refusal(3, "ForeignHistoryRefused")
    assert "MG705" in line and "--accept-unverified" in line
    assert not target.has_ledger(), "nothing was written"

    done = baseline(user, folder, "--from", "auto", "--accept-unverified")
    result = done.document("ApplyResult")
    assert (result["outcome"], result["statements"], result["statementsDone"]) == ("Applied", 1, 1)
    assert "plan" in result["nextStep"].lower()
    assert "imports the history of golang-migrate from" in done.err
    assert "1 unverified" in done.err and "record version 1 as imported" in done.err
    assert revisions(target) == [("1", "imported", "applied", False)]
    seen = status(user, folder)
    assert (seen["verdict"], seen["files"][0]["verified"]) == ("pending", False)
    again = baseline(user, folder, "--from", "auto", "--accept-unverified")
    again.refusal(3, "NothingToRecord")

    applied = apply(user, folder, "--limit", "1")
    assert applied.code == 0, applied
    target.run("UPDATE schema_migrations SET version = 3")
    moved = status(user, folder)
    assert (moved["verdict"], moved["findings"][0]["number"]) == ("dirty", "MG604")
    apply(user, folder).refusal(3, "HistoryDirty")
    again = baseline(user, folder, "--from", "auto", "--accept-unverified")
    assert again.document("ApplyResult")["statements"] == 2, "what ptahk ran is its own"
    assert status(user, folder)["verdict"] == "nothingPending"
    assert [row[:2] for row in revisions(target)] == [
        ("1", "imported"), ("2", "executed"), ("3", "imported"),
    ]  # fmt: skip
    target.run("UPDATE schema_migrations SET version = -1")
    line = baseline(user, folder, "--from", "auto", "--accept-unverified").refusal(3)
    assert "took back" in line


def test_a_table_that_moved_after_the_plan_is_not_imported(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user, folder = user_of(target.url()), write(tmp_path, FILES)
    made_by(target, "goose", "INSERT INTO goose_db_version (version_id, is_applied)"
            " VALUES (0, true), (1, true)")  # fmt: skip
    assert baseline(user, folder, "--from", "goose", "--accept-unverified").code == 0
    line = baseline(user, folder, "--from", "dbmate", "--accept-unverified").refusal(2)
    assert "MG704" in line
    baseline(user, folder).refusal(2)
    baseline(user, folder, "--from", "goose", "--to", "1").refusal(2)
    baseline(user, folder, "--to", "1", "--accept-unverified").refusal(2)
    baseline(user, folder, "--from", "liquibase").refusal(2)


def test_what_did_not_end_well_is_not_imported(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user, folder = user_of(target.url()), write(tmp_path, FILES)
    made_by(target, "golang-migrate", "INSERT INTO schema_migrations VALUES (2, true)")
    line = baseline(user, folder, "--from", "auto", "--accept-unverified").refusal(3)
    assert "MG701" in line and "dirty" in line
    target.run("UPDATE schema_migrations SET version = 9, dirty = false")
    line = baseline(user, folder, "--from", "auto", "--accept-unverified").refusal(3)
    assert "MG702" in line and "9" in line


def test_a_table_of_any_name_is_named_by_a_person(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user, folder = user_of(target.url()), write(tmp_path, FILES)
    made_by(target, "dbmate", "INSERT INTO schema_migrations VALUES ('1')",
            "ALTER TABLE schema_migrations RENAME TO versions")  # fmt: skip
    baseline(user, folder, "--from", "auto", "--accept-unverified").refusal(2)
    schema = "public" if target.engine == "postgresql" else target.database.name
    named = ("--history-table", f"{schema}.versions")
    done = baseline(user, folder, "--from", "auto", "--accept-unverified", *named)
    assert done.code == 0, done
    assert f"from {schema}.versions" in done.err
    assert revisions(target) == [("1", "imported", "applied", False)]
