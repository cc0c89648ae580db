"""``python launch_executor.py POINT``: ptahk's executor, struck at one request to the server.

Each request gets a name by what it says; a run of nameless reads counts as one step.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psycopg

from ptahk.executor import __main__ as program
from tests.kill.points import SCRATCH, Point, Steps, replace

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


def main() -> int:
    point = Point.decode(sys.argv[1])
    steps = Steps(point, "executor")
    read_command, write = program._read_command, program._write
    execute, pipeline = psycopg.Connection.execute, psycopg.Connection.pipeline
    last: dict[int, str] = {}

    def reading() -> dict[str, Any]:
        command = read_command()
        steps.operation = command["command"].title()
        with steps.step("start"):
            return command

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

    def writing(data: bytes) -> None:
        number = steps.reached("document")
        steps.strike("document", number, "before")
        half = len(data) // 2
        write(data[:half])
        steps.strike("document", number, "during")
        write(data[half:])
        steps.strike("document", number, "after")

    replace(program, _read_command=reading, _write=writing)
    replace(psycopg.Connection, execute=executing, pipeline=loading)
    return program.main()


if __name__ == "__main__":
    sys.exit(main())
