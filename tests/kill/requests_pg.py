"""The executor's requests to PostgreSQL, as steps: each gets a name by what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg

from tests.kill.points import SCRATCH, Steps, replace

NAMES = (
    ("pg_try_advisory_lock", "lock"),
    ("pg_advisory_unlock", "unlock"),
    ("REPEATABLE READ READ ONLY", "inspect"),
    ("INSERT INTO ptahk.attempt", "ledger-row"),
    ("INSERT INTO ptahk.binding", "binding-row"),
    ("INSERT INTO ptahk.revisions", "revision-row"),
    ("UPDATE ptahk.revisions SET running", "revision-mark"),
    ("UPDATE ptahk.revisions SET applied", "revision-progress"),
    ("UPDATE ptahk.revisions SET state = 'applied'", "revision-applied"),
    ("SET statement_running =", "intent"),
    ("SET statements_done", "progress"),
    ("SET state = 'finished'", "finish"),
    ("SET state = 'fenced'", "fence"),
    ("CREATE DATABASE", "scratch-create"),
    ("COMMENT ON DATABASE", "scratch-comment"),
    ("DROP DATABASE", "scratch-drop"),
    ("CREATE SCHEMA IF NOT EXISTS ptahk", "ledger-ddl"),
    ("SET CONSTRAINTS", "constraints"),
)
WORDS = {"BEGIN": "begin", "COMMIT": "commit", "ROLLBACK": "rollback"}
CHANGES = ("ALTER", "COMMENT", "CREATE", "DROP", "GRANT", "REVOKE")
READ = "read"


def name_of(text: str, in_target: bool) -> str:
    """The name of one request."""
    for part, name in NAMES:
        if part in text:
            return name
    words = text.split(None, 1)
    if text in WORDS:
        return WORDS[text]
    if not words or words[0].upper() not in CHANGES:
        return READ  # or a setting, which is as harmless
    if "ptahk_scratch_" in text:
        return "scratch-prepare"
    if "ptahk" in text:
        return "ledger-ddl"
    return "statement" if in_target else "change"


def is_scratch(connection: Any) -> bool:
    return str(connection.info.dbname).startswith("ptahk_scratch_")


def hook(steps: Steps) -> None:
    """Put the steps around every request of this process; a run of nameless reads is one."""
    execute, pipeline = psycopg.Connection.execute, psycopg.Connection.pipeline
    last: dict[int, str] = {}

    def executing(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        scratch = is_scratch(self)
        name = name_of(str(query), not scratch)
        before, last[id(self)] = last.get(id(self)), name
        if name == before == READ:
            return execute(self, query, *args, **options)
        backend = self.info.backend_pid
        with steps.step(f"{SCRATCH}{name}" if scratch else name, backend):
            return execute(self, query, *args, **options)

    @contextlib.contextmanager
    def loading(self: Any) -> Iterator[Any]:
        with steps.step(f"{SCRATCH}load", self.info.backend_pid), pipeline(self) as inner:
            yield inner

    replace(psycopg.Connection, execute=executing, pipeline=loading)
