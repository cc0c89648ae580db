"""MySQL and MariaDB from the terminal: the engine comes from the URL, the rest is as ever."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import MakeUser
from tests.cli.kit import Ptahk
from tests.kit.mydatabases import MyDatabase


def test_from_a_declaration_to_a_proof(
    user_of: MakeUser, mydatabase: MyDatabase, declare: Callable[..., str]
) -> None:
    user = user_of(mydatabase.url())
    given = ("--schema", declare("CREATE TABLE a (id int PRIMARY KEY);"))
    planned = user.run("plan", *given, "-o", "json")
    assert planned.code == 0, planned
    assert planned.document("Plan")["engine"] == "mysql"
    applied = user.run("apply", "--auto-approve", *given, "-o", "json")
    assert applied.code == 0, applied
    assert applied.document("ApplyResult")["converged"] is True
    assert mydatabase.rows("SELECT state, outcome FROM ptahk_attempt") == [("finished", "applied")]
    other = "mysql" if mydatabase.server.make == "mariadb" else "mariadb"
    wrong = user.run("observe", "--engine", other, *given, "-o", "json")
    assert f"target.engine={other}" in wrong.refusal(3, "WrongServer")


def test_the_ledger_for_an_account(ptahk: Ptahk) -> None:
    answer = ptahk.run("ledger-sql", "--engine", "mariadb", "--grant-to", "app@%")
    assert answer.code == 0
    assert "CREATE TABLE IF NOT EXISTS ptahk_statement" in answer.out
    assert "TO 'app'@'%';" in answer.out
