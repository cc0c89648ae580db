"""golang-migrate and goose themselves, built once per machine from the published modules.

``python -m tests.kit.migrators`` builds and prints the folder. Both under the MIT licence. Atlas's
command is a module of its own, which the public module proxy does not serve: its table is made by
the DDL that its sources hold (``foreign``).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from tests.kit.databases import Database, unique
from tests.kit.gotools import Tool, Tools
from tests.kit.mydatabases import Account, MyDatabase, ident
from tests.kit.servers import SUPERUSER

TOOLS: Final = Tools(
    "migrators",
    Path(__file__).resolve().parents[1] / "executor" / "migrators",
    {
        "migrate": Tool(
            "github.com/golang-migrate/migrate/v4/cmd/migrate", "golang-migrate",
            ("postgres", "mysql"),
        ),
        "goose": Tool(
            "github.com/pressly/goose/v3/cmd/goose", "goose",
            ("no_clickhouse", "no_libsql", "no_mssql", "no_sqlite3", "no_turso", "no_vertica",
             "no_ydb"),
        ),
    },
)  # fmt: skip


class Migrator:
    """One of the tools on one database, over the server's socket, as an account without a password:
    golang-migrate takes its URL among its arguments."""

    def __init__(self, tool: str, database: Database | MyDatabase, folder: Path) -> None:
        self.tool = tool
        self.folder = folder
        self._postgresql = isinstance(database, Database)
        if isinstance(database, Database):
            server = database.server
            place = urlencode({"host": server.socket_dir, "port": server.port})
            self._url = f"postgres://{SUPERUSER}@/{database.name}?{place}"
        else:
            account = _without_password(database)
            place = f"unix({database.server.socket})/{database.name}"
            self._url = f"{account}@{place}?parseTime=true&multiStatements=true"

    def run(self, *arguments: str, ok: bool = True) -> str:
        """Run one command of the tool. :returns: what it says.

        :param ok: whether it is to end well.
        """
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        if self.tool == "golang-migrate":
            scheme = "" if self._postgresql else "mysql://"
            program = TOOLS.program("migrate")
            given = ["-path", str(self.folder), "-database", scheme + self._url]
        else:
            driver = "postgres" if self._postgresql else "mysql"
            program, given = TOOLS.program("goose"), ["-dir", str(self.folder)]
            environment |= {"GOOSE_DRIVER": driver, "GOOSE_DBSTRING": self._url}
        done = subprocess.run(
            [program, *given, *arguments], env=environment, capture_output=True, text=True,
            check=False, stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        assert (done.returncode == 0) == ok, done
        return str(done.stdout + done.stderr)


def _without_password(database: MyDatabase) -> str:
    """An account that may do everything in this database, and goes with it."""
    account = Account(unique("p")[-32:], "")
    database.accounts.append(account)
    pattern = ident(database.name.replace("_", "\\_"))
    database.run(f"CREATE USER '{account.name}'@'%'")
    database.run(f"GRANT ALL ON {pattern}.* TO '{account.name}'@'%'")
    return account.name


if __name__ == "__main__":
    TOOLS.main()
