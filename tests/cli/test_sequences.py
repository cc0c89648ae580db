"""A migration directory on a real PostgreSQL, from its plan to its proof, as a person does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import MakeUser
from tests.cli.kit import Answer, Ptahk
from tests.kit import databases
from tests.kit.budget import scaled
from tests.kit.databases import Database
from tests.kit.servers import Server

FILES = {
    "1_orders.sql": "CREATE TABLE orders (id bigint PRIMARY KEY);\n",
    "2_customer.sql": "ALTER TABLE orders ADD COLUMN customer text;\n",
    "3_rows.sql": "INSERT INTO orders VALUES (1, 'ann');\nINSERT INTO orders VALUES (2, 'bob');\n",
}


def write(folder: Path, files: dict[str, str], name: str = "migrations") -> str:
    """A directory of these files and no others. :returns: its name in the user's directory."""
    place = folder / name
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    for file, text in files.items():
        (place / file).write_text(text)
    return name


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.url()) as connection:
        return connection.execute(query).fetchall()


def states(database: Database) -> list[tuple[object, ...]]:
    return rows(
        database, "SELECT version, kind, state, applied FROM ptahk.revisions ORDER BY ordinal"
    )


def test_plan_apply_prove_and_nothing_left(user: Ptahk, tmp_path: Path, database: Database) -> None:
    folder = write(tmp_path, FILES)
    planned = user.run("plan", "--migrations", folder, "-o", "json", "--exit-code")
    assert planned.code == 1, planned
    document = planned.document("Plan")
    assert document["sequence"]["action"] == "run"
    assert [item["file"] for item in document["sequence"]["files"]] == list(FILES)
    assert [item["object"] for item in document["statements"]] == [
        "1_orders.sql:1", "2_customer.sql:1", "3_rows.sql:1", "3_rows.sql:2",
    ]  # fmt: skip
    assert document["approval"] == {"required": True, "reasons": ["policy"]}

    refused = user.run("apply", "--migrations", folder, "-o", "json")
    refused.refusal(3, "ApprovalMissing")
    applied = user.run(
        "apply", "--migrations", folder, "--approve", document["fingerprint"], "-o", "json"
    )
    assert applied.code == 0, applied
    result = applied.document("ApplyResult")
    assert (result["outcome"], result["converged"]) == ("Applied", True)
    assert (result["statements"], result["statementsDone"]) == (4, 4)
    assert rows(database, "SELECT * FROM orders ORDER BY id") == [(1, "ann"), (2, "bob")]
    assert states(database) == [
        ("1", "executed", "applied", 1),
        ("2", "executed", "applied", 1),
        ("3", "executed", "applied", 2),
    ]
    again = user.run("apply", "--migrations", folder, "--auto-approve", "-o", "json")
    assert again.document("ApplyResult")["outcome"] == "NoChanges", again
    assert user.run("plan", "--migrations", folder, "--exit-code").code == 0


def apply(user: Ptahk, folder: str, *more: str) -> Answer:
    return user.run("apply", "--migrations", folder, "--auto-approve", "-o", "json", *more)


def status(user: Ptahk, folder: str, *more: str) -> dict[str, Any]:
    answer = user.run("migrate", "status", folder, "-o", "json", *more)
    document = answer.document("MigrationStatus")
    clean = document["reason"] is None and not document["summary"]["pending"]
    assert answer.code == (0 if clean else 1), answer
    return document


def test_status_says_each_file_its_state_and_the_next_step(user: Ptahk, tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    before = status(user, folder)
    assert (before["verdict"], before["summary"]["pending"]) == ("pending", 3)
    assert apply(user, folder, "--limit", "2").code == 0
    after = status(user, folder)
    assert [item["state"] for item in after["files"]] == ["applied", "applied", "pending"]
    assert after["files"][0]["appliedAt"] and after["files"][0]["verified"] is True
    assert after["nextStep"] == "plan, then apply"
    assert apply(user, folder, "--to", "3").code == 0
    assert status(user, folder)["verdict"] == "nothingPending"
    kept = user.run("migrate", "status", "migration/default", "--local", "-o", "json")
    assert kept.document("MigrationStatus")["summary"] == {"files": 3, "applied": 3, "pending": 0}
    user.run("observe", "migration/default", "--local").refusal(2)
    text = user.run("migrate", "status", folder)
    assert text.code == 0 and "3_rows.sql" in text.out and "next: nothing" in text.out


def test_an_edit_of_what_was_applied_is_refused_until_a_person_accepts_it(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, FILES)
    assert apply(user, folder).code == 0
    write(
        tmp_path, {**FILES, "2_customer.sql": "ALTER TABLE orders ADD COLUMN customer varchar;\n"}
    )
    found = status(user, folder)
    assert (found["verdict"], found["reason"]) == ("modified", "HistoryModified")
    assert "repair 2 --accept-edit" in found["nextStep"]
    line = apply(user, folder).refusal(3, "HistoryModified")
    assert "2_customer.sql" in line and "MG611" in line
    repair = ("migrate", "repair", "2", "--migrations", folder, "-o", "json", "--url-env",
              "DATABASE_URL")  # fmt: skip
    user.run(*repair).refusal(2)
    done = user.run(*repair, "--accept-edit", "--reason", "a formatter")
    assert done.code == 0, done
    assert status(user, folder)["verdict"] == "nothingPending"
    assert rows(database, "SELECT kind, error LIKE '%a formatter' FROM ptahk.revisions"
                " WHERE version = '2'") == [("executed", True)]  # fmt: skip
    user.run(*repair, "--accept-edit").refusal(3, "NothingToRecord")


def test_a_removed_file_is_modified_and_a_shorter_directory_is_behind(
    user: Ptahk, tmp_path: Path
) -> None:
    folder = write(tmp_path, FILES)
    assert apply(user, folder).code == 0
    write(tmp_path, {name: text for name, text in FILES.items() if not name.startswith("2")})
    assert status(user, folder)["findings"][0]["number"] == "MG612"
    write(tmp_path, {name: text for name, text in FILES.items() if not name.startswith("3")})
    found = status(user, folder)
    assert (found["verdict"], found["reason"]) == ("ahead", "HistoryAhead")
    assert "policy.ahead" in found["nextStep"]
    assert "3" in apply(user, folder).refusal(3, "HistoryAhead")
    accepted = apply(user, folder, "--ahead", "accept")
    assert accepted.document("ApplyResult")["outcome"] == "NoChanges", accepted


def test_a_late_merge_is_refused_unless_its_own_header_says_so(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    early = {name: text for name, text in FILES.items() if not name.startswith("2")}
    early["3_rows.sql"] = "INSERT INTO orders VALUES (1);\n"
    folder = write(tmp_path, early)
    assert apply(user, folder).code == 0
    write(tmp_path, {**early, "2_customer.sql": FILES["2_customer.sql"]})
    found = status(user, folder)
    assert (found["verdict"], found["reason"]) == ("outOfOrder", "HistoryOutOfOrder")
    assert "rebase 2" in found["nextStep"]
    assert "2_customer.sql" in apply(user, folder).refusal(3, "HistoryOutOfOrder")
    write(
        tmp_path, {**early, "2_customer.sql": "-- ptahk:out-of-order\n" + FILES["2_customer.sql"]}
    )
    planned = user.run("plan", "--migrations", folder, "-o", "json").document("Plan")
    assert planned["approval"]["reasons"] == ["policy", "sequence"]
    assert apply(user, folder).code == 0
    assert [row[0] for row in states(database)] == ["1", "3", "2"]


def test_a_failure_that_was_rolled_back_is_pending_and_names_its_place(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    bad = {**FILES, "3_rows.sql": "INSERT INTO orders VALUES (1, 'ann');\n\nSELECT nothing;\n"}
    folder = write(tmp_path, bad)
    failed = apply(user, folder)
    line = failed.refusal(5)
    assert "3_rows.sql:3:8" in line and "statement 2 of 2" in line and "42703" in line
    found = status(user, folder)
    assert (found["verdict"], found["summary"]["pending"]) == ("pending", 1)
    assert found["files"][2]["state"] == "failed" and found["files"][2]["errorLine"] == 3
    assert rows(database, "SELECT count(*) FROM orders") == [(0,)]
    write(tmp_path, FILES)
    assert apply(user, folder).code == 0
    assert rows(database, "SELECT count(*) FROM orders") == [(2,)]


PARTS = "-- ptahk:txmode none\nCREATE TABLE a ();\nCREATE TABLE b ();\nCREATE TABLE c ();\n"


def partial(user: Ptahk, tmp_path: Path, database: Database) -> tuple[str, str]:
    """A file that stopped after its first statement. :returns: directory and operation id."""
    broken = PARTS.replace("TABLE b ()", "TABLE b (x nothing)")
    folder = write(tmp_path, {"1_parts.sql": broken})
    line = apply(user, folder).refusal(5, "Partial")
    assert "1 of 3 statements took effect" in line and "1_parts.sql" in line
    found = status(user, folder)
    assert (found["verdict"], found["files"][0]["state"]) == ("dirty", "partial")
    return folder, found["files"][0]["operationId"]


def test_a_partial_file_is_resumed_and_no_statement_runs_twice(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder, _ = partial(user, tmp_path, database)
    shown = user.run("status", "migration/default", "--local").out
    assert "Failed" in shown and "resume" in shown
    write(tmp_path, {"1_parts.sql": PARTS})
    planned = user.run("plan", "--migrations", folder, "-o", "json").document("Plan")
    assert planned["sequence"]["action"] == "resume"
    assert [item["sql"] for item in planned["statements"]] == [
        "CREATE TABLE b ()", "CREATE TABLE c ()",
    ]  # fmt: skip
    assert "sequence" in planned["approval"]["reasons"]
    done = apply(user, folder)
    assert done.code == 0, done
    assert states(database) == [("1", "executed", "applied", 3)]
    assert status(user, folder)["verdict"] == "nothingPending"


def test_a_resume_of_an_edited_beginning_is_refused(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder, _ = partial(user, tmp_path, database)
    write(tmp_path, {"1_parts.sql": PARTS.replace("TABLE a ()", "TABLE a (x int)")})
    line = apply(user, folder).refusal(5)
    assert "statement 1 is not the one that was applied" in line
    assert states(database) == [("1", "executed", "partial", 1)]


def acknowledge(user: Ptahk, folder: str, operation: str, *word: str) -> Answer:
    return user.run(
        "acknowledge", "migration/default", "--migrations", folder, "--operation", operation,
        *word, "--reason", "I looked", "-o", "json",
    )  # fmt: skip


def test_a_person_settles_a_partial_file(user: Ptahk, tmp_path: Path, database: Database) -> None:
    folder, operation = partial(user, tmp_path, database)
    acknowledge(user, folder, operation, "--statement", "applied").refusal(3, "HistoryDirty")
    acknowledge(user, folder, "0" * 32, "--abandon").refusal(3, "NothingToRecord")
    done = acknowledge(user, folder, operation, "--resolved")
    assert done.document("Acknowledgement")["what"] == "resolved", done
    assert states(database) == [("1", "resolved", "applied", 1)]
    assert status(user, folder)["verdict"] == "nothingPending"


def test_a_person_abandons_a_partial_file_and_it_runs_anew(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder, operation = partial(user, tmp_path, database)
    assert acknowledge(user, folder, operation, "--abandon").code == 0
    rows_ = states(database)
    assert rows_ == [("1", "executed", "failed", 0)]
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("DROP TABLE a")
    write(tmp_path, {"1_parts.sql": PARTS})
    assert apply(user, folder).code == 0
    assert states(database) == [("1", "executed", "applied", 3)]


COMMITS = """\
-- ptahk:txmode none
CREATE TABLE seen (n int);
CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO seen VALUES (1); COMMIT; RAISE 'half-way'; END $$;
CALL twice();
CREATE TABLE after ();
"""


@pytest.mark.parametrize("word", ["applied", "not-applied"])
def test_what_nobody_saw_end_waits_for_a_word(
    user: Ptahk, tmp_path: Path, database: Database, word: str
) -> None:
    folder = write(tmp_path, {"1_calls.sql": COMMITS})
    line = apply(user, folder).refusal(4)
    assert "statement 3 of 4" in line
    found = status(user, folder)
    assert (found["verdict"], found["files"][0]["state"]) == ("dirty", "unknown")
    operation = found["files"][0]["operationId"]
    assert f"--operation {operation} --statement" in found["nextStep"]
    apply(user, folder).refusal(3, "HistoryDirty")
    assert acknowledge(user, folder, operation, "--statement", word).code == 0
    assert states(database)[0][2:] == ("partial", 3 if word == "applied" else 2)
    if word == "not-applied":
        return
    assert apply(user, folder).code == 0
    assert states(database) == [("1", "executed", "applied", 4)]
    assert rows(database, "SELECT count(*) FROM seen") == [(1,)]


def test_objects_without_a_history_want_a_baseline(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, FILES)
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer text)")
    line = apply(user, folder).refusal(3, "DatabaseNotEmpty")
    assert "baseline --to" in line
    done = user.run("baseline", "--to", "2", "--migrations", folder, "-o", "json")
    assert done.document("ApplyResult")["outcome"] == "Applied", done
    assert states(database) == [("1", "baseline", "applied", 1), ("2", "baseline", "applied", 1)]
    assert apply(user, folder).code == 0
    assert rows(database, "SELECT count(*) FROM orders") == [(2,)]
    again = user.run("baseline", "--to", "2", "--migrations", folder, "-o", "json")
    again.refusal(3, "NothingToRecord")
    user.run("baseline", "--to", "9", "--migrations", folder, "-o", "json").refusal(2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"2_customer.sql": "ALTER TABLE orders ADD COLUMN other text;\n"},
            "2_customer.sql was changed",
        ),
        ({"4_more.sql": "CREATE TABLE more ();\n"}, "4_more.sql was added"),
        ({"3_rows.sql": None}, "3_rows.sql was removed"),
    ],
)
def test_a_directory_that_moved_after_its_approval_is_refused_by_name(
    user: Ptahk, tmp_path: Path, database: Database, change: dict[str, str | None], named: str
) -> None:
    folder = write(tmp_path, FILES)
    planned = user.run("plan", "--migrations", folder, "--out", "p.json", "-o", "json")
    fingerprint = planned.document("Plan")["fingerprint"]
    moved = {name: text for name, text in {**FILES, **change}.items() if text is not None}
    write(tmp_path, moved)
    line = user.run(
        "apply", "--plan", "p.json", "--migrations", folder, "--approve", fingerprint, "-o", "json"
    ).refusal(3, "SequenceChanged")  # fmt: skip
    assert named in line
    line = user.run(
        "apply", "--migrations", folder, "--approve", fingerprint, "-o", "json"
    ).refusal(3, "ApprovalMissing")
    assert named in line
    assert rows(database, "SELECT to_regclass('orders') IS NULL") == [(True,)]
    write(tmp_path, FILES)
    done = user.run(
        "apply", "--plan", "p.json", "--migrations", folder, "--approve", fingerprint, "-o", "json"
    )
    assert done.document("ApplyResult")["statementsDone"] == 4, done


def test_a_saved_plan_needs_no_directory(user: Ptahk, tmp_path: Path, database: Database) -> None:
    folder = write(tmp_path, FILES)
    planned = user.run("plan", "--migrations", folder, "--out", "p.json", "-o", "json")
    fingerprint = planned.document("Plan")["fingerprint"]
    saved = ("apply", "--plan", "p.json", "--url-env", "DATABASE_URL", "--approve", fingerprint)
    assert user.run(*saved).code == 0
    assert rows(database, "SELECT count(*) FROM orders") == [(2,)]
    again = user.run(*saved, "-o", "json")
    assert again.document("ApplyResult")["outcome"] == "AlreadyConverged", again


def schema_of(database: Database) -> list[tuple[object, ...]]:
    """Every column, index and constraint of the database, as its catalogs have them."""
    return rows(
        database,
        "SELECT 'column', table_name, column_name, data_type || coalesce(column_default, '')"
        " || is_nullable FROM information_schema.columns WHERE table_schema = 'public'"
        " UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes"
        " WHERE schemaname = 'public'"
        " UNION ALL SELECT 'constraint', conrelid::regclass::text, conname,"
        " pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace AND conrelid <> 0"
        " ORDER BY 1, 2, 3, 4",
    )


@pytest.mark.parametrize("name", ["vaultwarden/postgresql", "kratos"])
def test_a_corpus_from_empty_in_parts_and_all_at_once_gives_one_schema(
    user_of: MakeUser, database: Database, postgres: Server, corpora: Path, name: str
) -> None:
    folder = str(corpora / name)
    one, two = database, databases.create(postgres)
    whole, parts = user_of(one.url()), user_of(two.url())
    done = apply(whole, folder)
    assert done.code == 0, done
    files = status(whole, folder)["files"]
    assert {item["state"] for item in files} == {"applied"}
    # One file at a time where there are few; of many, in parts that a person would take.
    step = 1 if len(files) <= 12 * scaled(1) else -(-len(files) // 6)
    for _ in range(0, len(files), step):
        assert apply(parts, folder, "--limit", str(step)).code == 0
    assert status(parts, folder)["verdict"] == "nothingPending"
    assert schema_of(two) == schema_of(one)
    two.drop()


def test_rows_that_cannot_be_read_are_a_named_refusal(
    user: Ptahk, tmp_path: Path, database: Database
) -> None:
    folder = write(tmp_path, FILES)
    assert apply(user, folder).code == 0
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("ALTER TABLE ptahk.revisions RENAME COLUMN error TO x")
    answer = user.run("migrate", "status", folder, "-o", "json")
    assert "ptahk.revisions" in answer.refusal(3, "LedgerUntrusted")


def test_an_ordinary_role_writes_rows_that_a_dba_made(
    user_of: MakeUser, tmp_path: Path, database: Database
) -> None:
    role = database.role(owns=("app",))
    user = user_of(database.url(role))
    folder = write(tmp_path, {"1_a.sql": "CREATE TABLE app.a ();\n"})
    line = apply(user, folder).refusal(3, "LedgerMissing")
    assert "ledger-sql" in line
    script = user.run("ledger-sql", "--engine", "postgresql", "--grant-to", role.name).out
    database.run(script)
    done = apply(user, folder)
    assert done.code == 0, done
    assert states(database) == [("1", "executed", "applied", 1)]
