"""The executor's requests to MySQL or MariaDB, as steps: each gets a name by what it says.

The session goes into a scratch database and comes back, so what it says there has names of its own.
"""

from __future__ import annotations

from typing import Any

import pymysql.connections

from tests.kill.points import SCRATCH, Steps, replace

NAMES = (
    ("WHERE 1 = 0", "read"),
    (".ptahk_none_", "read"),
    ("RELEASE_LOCK(", "unlock"),
    ("GET_LOCK(", "lock"),
    ("INTO `{}`.ptahk_attempt", "ledger-row"),
    ("INTO `{}`.ptahk_binding", "binding-row"),
    ("INTO `{}`.ptahk_statement", "statement-row"),
    ("INTO `{}`.ptahk_revisions", "revision-row"),
    ("UPDATE `{}`.ptahk_revisions SET started_at", "revision-row"),
    ("UPDATE `{}`.ptahk_revisions SET running", "revision-mark"),
    ("UPDATE `{}`.ptahk_revisions SET applied", "revision-progress"),
    ("UPDATE `{}`.ptahk_revisions SET state = 'applied'", "revision-applied"),
    ("UPDATE `{}`.ptahk_revisions SET state", "revision-ended"),
    ("SET statement_running = NULL", "progress"),
    ("SET statement_running =", "intent"),
    ("SET statements_done", "progress"),
    ("SET state = 'finished'", "finish"),
    ("SET state = 'fenced'", "fence"),
    ("UPDATE `{}`.ptahk_statement", "statement-end"),
    ("CREATE TABLE IF NOT EXISTS `{}`.ptahk_", "ledger-ddl"),
    ("CREATE DATABASE", "scratch-create"),
    ("DROP DATABASE", "scratch-drop"),
    ("START TRANSACTION READ ONLY", "read"),
)
WORDS = {"START TRANSACTION": "begin", "COMMIT": "commit", "ROLLBACK": "rollback"}
CHANGES = ("ALTER", "CREATE", "DROP", "RENAME")
FILES = ("BEGIN", "INSERT", "LOCK", "UNLOCK", "UPDATE")
"""What else a migration's file says to its target, where it is not about ptahk's own tables."""
READ = "read"


def name_of(text: str, database: str, in_target: bool) -> str:
    """The name of one request.

    :param database: the target's.
    """
    for part, name in NAMES:
        if part.format(database) in text:
            return name
    if text in WORDS:
        return WORDS[text]
    words = text.split(None, 1)
    if in_target and words and words[0].upper() in FILES and "ptahk_" not in text:
        return "statement"
    if not words or words[0].upper() not in CHANGES:
        return READ  # or a setting, which is as harmless
    return "statement" if in_target else "load"


def hook(steps: Steps) -> None:
    """Put the steps around every request of this process; a run of nameless reads is one."""
    query = pymysql.connections.Connection.query
    last: dict[int, str] = {}
    inside: set[int] = set()

    def asking(self: Any, sql: Any, *args: Any, **options: Any) -> Any:
        text = sql.decode(errors="replace") if isinstance(sql, bytes) else str(sql)
        _note(inside, id(self), text)
        scratch = id(self) in inside
        name = name_of(text, str(self.db.decode() if isinstance(self.db, bytes) else self.db),
                       not scratch)  # fmt: skip
        name = f"{SCRATCH}{name}" if scratch and "-" not in name else name
        before, last[id(self)] = last.get(id(self)), name
        if name == before and name in (READ, SCRATCH + READ, SCRATCH + "load"):
            return query(self, sql, *args, **options)
        with steps.step(name, self.thread_id()):
            return query(self, sql, *args, **options)

    replace(pymysql.connections.Connection, query=asking)


def _note(inside: set[int], connection: int, text: str) -> None:
    if text.startswith("USE `ptahk_scratch_"):
        inside.add(connection)
    elif text.startswith("USE "):
        inside.discard(connection)
