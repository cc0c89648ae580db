"""A migration directory on a real PostgreSQL, from its plan to its proof, as a person does it."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.cli.kit import Ptahk
from tests.kit.databases import Database

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
