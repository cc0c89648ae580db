"""``observe`` of a migration and ``migrate validate --dev-url-env`` on MySQL and MariaDB.

Scratch is a database beside the real one, so a statement that names the real one must not reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import MakeUser
from tests.cli.test_replays import DEV, drift, observe
from tests.cli.test_sequences import apply, write
from tests.kit import servers, targets
from tests.kit.targets import Target


@pytest.fixture(params=["mysql", "mariadb"])
def target(request: pytest.FixtureRequest, server_run: servers.Run) -> Iterator[Target]:
    with targets.open_target(server_run, request.param) as made:
        yield made


def files(database: str) -> dict[str, str]:
    """Every kind of object, rows, a routine that is called, and the database's own name."""
    return {
        "1_tables.sql": (
            f"CREATE TABLE `{database}`.orders (id bigint PRIMARY KEY, note varchar(20));\n"
            "CREATE TABLE items (id int PRIMARY KEY, orders bigint,\n"
            "  CONSTRAINT items_orders FOREIGN KEY (orders) REFERENCES orders (id));\n"
            f"INSERT INTO {database}.orders VALUES (1, 'one');\n"
        ),
        "2_code.sql": (
            "CREATE VIEW noted AS SELECT id FROM orders WHERE note IS NOT NULL;\n"
            "CREATE TRIGGER t BEFORE INSERT ON items FOR EACH ROW SET NEW.id = NEW.id + 0;\n"
            "CREATE PROCEDURE fill() BEGIN INSERT INTO orders VALUES (2, 'two'); END;\n"
            "CALL fill();\n"
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01' DO DELETE FROM items;\n"
            "CREATE TEMPORARY TABLE passing (id int);\nDROP TEMPORARY TABLE passing;\n"
        ),
        "3_rows.sql": "UPDATE orders SET note = 'both' WHERE id IN (1, 2);\n",
        "4_locked.sql": (
            "LOCK TABLES orders WRITE;\nINSERT INTO orders VALUES (3, 'x');\nUNLOCK TABLES;\n"
        ),
    }


def test_a_database_in_sync_and_one_that_somebody_changed(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user = user_of(target.url())
    folder = write(tmp_path, files(target.database.name))
    done = apply(user, folder)
    assert done.code == 0, done
    before = target.rows("SELECT * FROM orders ORDER BY id")
    found = drift(observe(user, folder))
    assert found["inSync"], found
    target.run("ALTER TABLE orders MODIFY note varchar(21)")
    target.run("CREATE TABLE by_hand (id int PRIMARY KEY)")
    found = drift(observe(user, folder))
    assert {item["object"] for item in found["items"]} == {"table orders", "table by_hand"}
    assert target.rows("SELECT * FROM orders ORDER BY id") == before == [
        (1, "both"), (2, "both"), (3, "x"),
    ]  # fmt: skip
    assert target.rows("SHOW DATABASES LIKE 'ptahk\\_scratch\\_%'") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT mysql.user (host) VALUES ('x');\n", "mysql is another database"),
        ("PREPARE s FROM 'SELECT 1';\nDEALLOCATE PREPARE s;\n", "PREPARE"),
        ("GRANT SELECT ON orders TO 'nobody'@'%';\n", "GRANT"),
        ("INSERT INTO orders SELECT 7, note FROM orders WHERE id = 99 + 1 / 0;\n"
         "ALTER TABLE absent ADD COLUMN x int;\n", "absent"),
    ],
)  # fmt: skip
def test_what_may_reach_beyond_scratch_is_never_sent(
    user_of: MakeUser, target: Target, tmp_path: Path, text: str, said: str
) -> None:
    user = user_of(target.url())
    folder = write(tmp_path, {"1_orders.sql": "CREATE TABLE orders (id int, note int);\n"})
    assert apply(user, folder).code == 0
    write(tmp_path, {"1_orders.sql": "CREATE TABLE orders (id int, note int);\n", "2_x.sql": text})
    done = user.run("baseline", "--to", "2", "--migrations", folder, "-o", "json")
    assert done.code == 0, done
    line = observe(user, folder).refusal(3, "ReplayImpossible")
    assert "2_x.sql:" in line and said in line
    assert target.rows("SHOW DATABASES LIKE 'ptahk\\_scratch\\_%'") == []


def test_validate_replays_on_a_development_server(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user = user_of(target.url())
    user.environment["DEV_URL"] = target.url()
    given = files(target.database.name)
    given["2_all.checkpoint.sql"] = given["1_tables.sql"] + given["2_code.sql"]
    folder = write(tmp_path, given)
    ask = ("migrate", "validate", folder, "--engine", target.name, "-o", "json", *DEV)
    answer = user.run(*ask)
    assert answer.document("Validation")["findings"] == [], answer
    given["2_all.checkpoint.sql"] = given["2_all.checkpoint.sql"].replace("varchar(20)", "text")
    write(tmp_path, given)
    (finding,) = user.run(*ask).document("Validation")["findings"]
    assert (finding["number"], finding["file"]) == ("MG802", "2_all.checkpoint.sql")
    assert "table orders" in finding["message"]
    assert target.rows("SHOW TABLES") == []
