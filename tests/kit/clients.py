"""The servers' own terminal clients: what a person loads a file with."""

from __future__ import annotations

import subprocess

from tests.kit.databases import Database
from tests.kit.mydatabases import MyDatabase


def load(database: Database | MyDatabase, text: str) -> None:
    """Run a script through ``psql``, ``mysql`` or ``mariadb``; the first error ends it.

    :raises subprocess.CalledProcessError: what the client said is in its ``stderr``.
    """
    if isinstance(database, Database):
        url = database.server.socket_url(database.name)
        command = [
            str(database.server.tool("psql")),
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            url,
        ]
        environment = {"LC_ALL": "C"}
    else:
        server = database.server
        command = [
            *server.install.client(), "--no-defaults", f"--socket={server.socket}", "--user=admin",
            f"--character-sets-dir={server.install.share / 'charsets'}",
            "--default-character-set=utf8mb4",
            "--skip-ssl" if server.make == "mariadb" else "--ssl-mode=DISABLED", database.name,
        ]  # fmt: skip
        environment = {"LC_ALL": "C", "MYSQL_PWD": server.password}
    subprocess.run(
        command, input=text.encode(), capture_output=True, check=True, timeout=300, env=environment
    )
