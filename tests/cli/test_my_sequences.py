"""A migration directory on MySQL and MariaDB from the terminal: stopped, and brought on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MakeUser
from tests.cli.test_sequences import acknowledge, apply, status, write
from tests.kit import servers, targets
from tests.kit.targets import Target

ONE = "CREATE TABLE orders (id bigint PRIMARY KEY);\nINSERT INTO orders VALUES (1);\n"
TWO = "CREATE TABLE a (x int);\nCREATE TABLE b (x int);\nINSERT INTO b VALUES (1);\n"
LOCKED = """\
CREATE TABLE a (x int);
LOCK TABLES a WRITE;
INSERT INTO a VALUES (1);
INSERT INTO a VALUES (2);
CALL die();
UNLOCK TABLES;
CREATE TABLE b (x int);
"""


@pytest.fixture(params=["mysql", "mariadb"])
def target(request: pytest.FixtureRequest, server_run: servers.Run) -> Iterator[Target]:
    with targets.open_target(server_run, request.param) as made:
        yield made


def states(target: Target) -> list[tuple[Any, ...]]:
    return target.rows(
        "SELECT version, state, applied, total FROM ptahk_revisions ORDER BY ordinal"
    )


def test_a_file_that_stops_half_way_is_resumed(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user = user_of(target.url())
    folder = write(tmp_path, {"1_one.sql": ONE, "2_two.sql": TWO.replace("b (x int)", "b (x no)")})
    failed = apply(user, folder)
    line = failed.refusal(5, "Partial")
    assert "2_two.sql:2" in line and "statement 2 of 3" in line
    assert states(target) == [("1", "applied", 2, 2), ("2", "partial", 1, 3)]
    seen = status(user, folder)
    assert (seen["verdict"], seen["files"][1]["state"]) == ("dirty", "partial")
    write(tmp_path, {"1_one.sql": ONE, "2_two.sql": TWO})
    planned = user.run("plan", "--migrations", folder, "-o", "json").document("Plan")
    assert planned["sequence"]["action"] == "resume"
    assert [each["sql"].partition(" (")[0] for each in planned["statements"]] == [
        "CREATE TABLE b", "INSERT INTO b VALUES",
    ]  # fmt: skip
    done = apply(user, folder)
    assert done.code == 0, done
    assert states(target) == [("1", "applied", 2, 2), ("2", "applied", 3, 3)]
    assert target.rows("SELECT count(*) FROM b") == [(1,)]


def test_a_word_on_what_ended_between_the_locks_is_about_all_of_it(
    user_of: MakeUser, target: Target, tmp_path: Path
) -> None:
    user = user_of(target.url())
    folder = write(tmp_path, {"0_first.sql": "SELECT 1;\n", "1_locked.sql": LOCKED})
    target.run("CREATE PROCEDURE die() KILL CONNECTION_ID()")
    assert user.run("baseline", "--to", "0", "--migrations", folder).code == 0
    apply(user, folder).refusal(4)
    seen = status(user, folder)
    assert (seen["verdict"], seen["files"][1]["state"]) == ("dirty", "running")
    operation = seen["files"][1]["operationId"]
    assert acknowledge(user, folder, operation, "--statement", "applied").code == 0
    assert states(target)[1] == ("1", "partial", 6, 7)
    done = apply(user, folder)
    assert done.code == 0, done
    assert states(target)[1] == ("1", "applied", 7, 7)
    assert target.rows("SELECT x FROM a ORDER BY x") == [(1,), (2,)], "nothing ran twice"
