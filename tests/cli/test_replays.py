"""``observe`` of a migration and ``migrate validate --dev-url-env`` on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.kit import Answer, Ptahk
from tests.cli.test_sequences import FILES, apply, rows, write
from tests.kit.databases import Database

DEV = ("--dev-url-env", "DEV_URL")


def observe(user: Ptahk, folder: str, *more: str) -> Answer:
    return user.run("observe", "--migrations", folder, "-o", "json", "--exit-code", *more)


def drift(answer: Answer) -> dict[str, Any]:
    document = answer.document("DriftReport")
    assert answer.code == (0 if document["inSync"] else 1), answer
    return document


def run(database: Database, text: str) -> None:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute(text.encode())


def scratches(database: Database) -> int:
    found = rows(database, "SELECT count(*) FROM pg_database WHERE datname LIKE 'ptahk_scratch_%'")
    return int(str(found[0][0]))


def test_what_the_files_give_is_in_sync_and_a_change_by_hand_is_drift(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, FILES)
    before = scratches(database)
    assert apply(user, folder).code == 0
    found = drift(observe(user, folder))
    assert found["inSync"] and found["counts"] == {}
    assert found["resource"]["kind"] == "PtahMigration"

    run(database, "ALTER TABLE orders ALTER COLUMN customer SET NOT NULL;"
        " CREATE INDEX by_hand ON orders (customer)")  # fmt: skip
    found = drift(observe(user, folder))
    assert not found["inSync"] and sum(found["counts"].values()) == 2
    assert {item["object"] for item in found["items"]} == {
        "column public.orders.customer", "index public.by_hand",
    }  # fmt: skip
    shown = user.run("status", "migration/default", "--local").out
    assert "Drifted" in shown and "2 differences" in shown
    # A later reading that does not look for drift does not forget it.
    assert user.run("plan", "--migrations", folder).code == 0
    assert "Drifted" in user.run("status", "migration/default", "--local").out

    run(database, "ALTER TABLE orders ALTER COLUMN customer DROP NOT NULL; DROP INDEX by_hand")
    assert drift(observe(user, folder))["inSync"]
    assert rows(database, "SELECT count(*) FROM orders") == [(2,)], "the data is untouched"
    assert scratches(database) == before


def test_only_what_was_applied_is_replayed(user: Ptahk, tmp_path: Path, database: Database) -> None:
    folder = write(tmp_path, FILES)
    assert apply(user, folder, "--limit", "1").code == 0
    assert drift(observe(user, folder))["inSync"], "pending files are no drift"
    run(database, "ALTER TABLE orders ADD COLUMN customer text")
    found = drift(observe(user, folder))
    assert [item["object"] for item in found["items"]] == ["column public.orders.customer"]


REFUSED = {
    "a role": ("CREATE ROLE somebody;\n", "CREATE ROLE reaches beyond one database", None),
    "data": (
        "DO $$ BEGIN IF (SELECT count(*) FROM orders) < 1 THEN RAISE 'no orders';"
        " END IF; END $$;\n",
        "no orders", "INSERT INTO orders VALUES (7)",
    ),
    "a right on the database": (
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = ''8MB''',"
        " current_database()); END $$;\n",
        "reaches beyond one database", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_cannot_be_replayed_is_a_named_refusal(
    user: Ptahk, tmp_path: Path, database: Database, what: str
) -> None:
    text, said, prepared = REFUSED[what]
    first = {"1_orders.sql": FILES["1_orders.sql"]}
    folder = write(tmp_path, first)
    assert apply(user, folder).code == 0
    if prepared:
        run(database, prepared)
    write(tmp_path, {**first, "2_other.sql": text})
    if what == "a role":  # recorded, not run: no role of a test's may outlive it
        done = user.run("baseline", "--to", "2", "--migrations", folder, "-o", "json")
        assert done.code == 0, done
    else:
        assert apply(user, folder).code == 0
    line = observe(user, folder).refusal(3, "ReplayImpossible")
    assert "2_other.sql:1:" in line and "statement 1 of 1" in line and said in line
    shown = user.run("status", "migration/default", "--local").out
    assert "ReplayImpossible" in shown and "Drifted" not in shown


def test_other_streams_and_absent_files_make_it_impossible(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, FILES)
    other = write(tmp_path, {"1_x.sql": "CREATE TABLE x ();\n"}, "other")
    assert apply(user, folder).code == 0
    shorter = {name: text for name, text in FILES.items() if not name.startswith("3")}
    write(tmp_path, shorter)
    line = observe(user, folder, "--ahead", "accept").refusal(3, "ReplayImpossible")
    assert "3_rows.sql" in line and "its file is not here" in line
    write(tmp_path, FILES)
    second = ("--stream", "second", "--name", "second")
    assert apply(user, other, *second).code == 0
    line = observe(user, folder).refusal(3, "ReplayImpossible")
    assert "second" in line


def test_a_history_that_is_not_settled_is_refused_as_ever(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, FILES)
    assert apply(user, folder).code == 0
    write(
        tmp_path, {**FILES, "2_customer.sql": "ALTER TABLE orders ADD COLUMN customer varchar;\n"}
    )
    observe(user, folder).refusal(3, "HistoryModified")
    user.run("observe", "--migrations", folder, "-o", "sql").refusal(2)


CHECKPOINT = {
    "1_orders.sql": FILES["1_orders.sql"],
    "2_customer.sql": FILES["2_customer.sql"],
    "2_all.checkpoint.sql": "CREATE TABLE orders (id bigint PRIMARY KEY, customer text);\n",
    "3_rows.sql": FILES["3_rows.sql"],
}


def test_a_checkpoint_is_replayed_instead_of_what_it_stands_for(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, CHECKPOINT)
    assert apply(user, folder).code == 0
    assert drift(observe(user, folder))["inSync"]


def validate(user: Ptahk, folder: str, *more: str) -> dict[str, Any]:
    answer = user.run("migrate", "validate", folder, "--engine", "postgresql", "-o", "json", *more)
    document = answer.document("Validation")
    assert answer.code == (1 if document["summary"]["errors"] else 0), answer
    return document


def test_validate_replays_on_a_development_server(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    user.environment["DEV_URL"] = database.url()
    folder = write(tmp_path, CHECKPOINT)
    before = scratches(database)
    assert validate(user, folder, *DEV)["findings"] == []

    late = "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL);\n"
    write(tmp_path, {**CHECKPOINT, "2_all.checkpoint.sql": late})
    (finding,) = validate(user, folder, *DEV)["findings"]
    assert (finding["number"], finding["file"]) == ("MG802", "2_all.checkpoint.sql")
    assert "column public.orders.customer" in finding["message"]

    wrong = "INSERT INTO orders VALUES (1);\n\nINSERT INTO absent VALUES (1);\n"
    write(tmp_path, {**FILES, "3_rows.sql": wrong})
    assert validate(user, folder)["findings"] == [], "only a server can tell"
    document = validate(user, folder, *DEV)
    (finding,) = document["findings"]
    assert (finding["number"], finding["file"], finding["line"]) == ("MG801", "3_rows.sql", 3)
    assert finding["statement"] == 2 and document["sequence"] is None
    assert "absent" in finding["message"]
    assert rows(database, "SELECT count(*) FROM pg_class WHERE relname = 'orders'") == [(0,)]
    assert scratches(database) == before

    answer = user.run("migrate", "validate", folder, "--engine", "postgresql", *DEV, DEV_URL="")
    answer.refusal(2)
