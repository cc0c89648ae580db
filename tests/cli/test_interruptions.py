"""Two at once, kills, Ctrl-C, the end of time, and a question at a terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import MakeUser
from tests.cli.kit import Ptahk
from tests.kit.databases import Database

Declare = Callable[..., str]
SCHEMA = "CREATE TABLE t (id int, note text);"


@contextlib.contextmanager
def blocked(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A session that holds table ``t``, so that an apply waits for it in the middle."""
    database.run("CREATE TABLE public.t (id int)")
    with psycopg.connect(database.server.socket_url(database.name)) as conn:
        # Plans still read the table; the ALTER of the apply waits.
        conn.execute("LOCK TABLE public.t IN ACCESS SHARE MODE")
        yield conn


def until_running(database: Database, process: subprocess.Popen[str] | None = None) -> str:
    """Wait until an apply waits for the table. :returns: its operation id, 12 digits."""
    query = (
        "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'ptahk/apply/%'"
        " AND wait_event_type = 'Lock'"
    )
    end = time.monotonic() + 60
    with database.connect() as conn:
        while time.monotonic() < end:
            found = conn.execute(query).fetchall()
            if found:
                return str(found[0][0]).rsplit("/", 1)[1]
            assert process is None or process.poll() is None, process.communicate()
            # The server has no event for "somebody waits for a lock".
            conn.execute("SELECT pg_sleep(0.05)")
    raise AssertionError("no apply came to wait for the table")


APPLY = ("apply", "--auto-approve", "--lock-timeout", "60s", "--schema")


def test_two_applies_at_once(user_of: MakeUser, declare: Declare, database: Database) -> None:
    schema = declare(SCHEMA)
    alias = database.url().replace("127.0.0.1", "localhost")
    first, second, third = user_of(database.url()), user_of(database.url()), user_of(alias)
    with blocked(database) as holder:
        running = first.start(*APPLY, schema, "-o", "json")
        operation = until_running(database, running)
        for other in (second, third):
            answer = other.run(*APPLY, schema, "--coordination-timeout", "500ms", "-o", "json")
            line = answer.refusal(3, "LockHeld")
            assert operation in line, "names the operation that holds the database"
        holder.rollback()
        answer = first.finish(running)
    assert answer.code == 0, answer
    assert answer.document("ApplyResult")["outcome"] == "Applied"


def test_two_commands_on_one_resource(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema)
        until_running(database, running)
        answer = user.run("plan", "--schema", schema, "-o", "json")
        assert str(running.pid) in answer.refusal(3, "ResourceBusy")
        status = user.run("status", "--local", "-o", "json").document("Status")
        (entry,) = status["resources"]
        assert entry["activeOperation"]["type"] == "Apply" and not entry["abandoned"]
        report = user.run("release-lock", "--url-env", "DATABASE_URL", "-o", "json")
        assert report.code == 3, report
        document = report.document("LockReport")
        assert document["verdict"] == "Refused" and document["process"]["running"]
        holder.rollback()
        assert user.finish(running).code == 0


def test_a_killed_command_is_continued(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema)
        until_running(database, running)
        running.kill()
        user.finish(running)
        status = user.run("status", "--local", "-o", "json")
        assert status.code == 1
        (entry,) = status.document("Status")["resources"]
        assert entry["abandoned"] and "same command again" in entry["nextStep"]
        again = user.start(*APPLY, schema, "-o", "json")
        holder.rollback()
        answer = user.finish(again)
    assert answer.code == 0, answer
    result = answer.document("ApplyResult")
    assert result["outcome"] == "Applied" and result["operationId"]
    rows = database.rows("SELECT operation_id, state FROM ptahk.attempt")
    assert rows == [(result["operationId"], "finished")], "one attempt, continued"


def test_another_url_is_refused_while_a_claim_stands(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema, "--key", "test/claims")
        until_running(database, running)
        running.kill()
        user.finish(running)
        other = database.url(database.role(create_schema=True))
        arguments = (*APPLY, schema, "--key", "test/claims", "-o", "json")
        refused = user.run(*arguments, DATABASE_URL=other)
        refused.refusal(3, "TargetMismatch")
        holder.rollback()
    assert user.run(*arguments).code == 0


def test_ctrl_c_once_stops_and_says_what_runs(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema)
        operation = until_running(database, running)
        os.kill(running.pid, signal.SIGINT)
        stopped = user.finish(running)
        assert stopped.code == 130, stopped
        assert f"Apply {operation}" in stopped.err and "is still running" in stopped.err
        assert "ptahk status schema/default --local --watch" in stopped.err
        assert until_running(database), "the process lives on"
        holder.rollback()
    assert user.run(*APPLY, schema, "-q").code == 0


def test_ctrl_c_twice_stops_now(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema)
        until_running(database, running)
        os.kill(running.pid, signal.SIGINT)
        os.kill(running.pid, signal.SIGINT)
        stopped = user.finish(running)
        assert stopped.code == 130 and "Traceback" not in stopped.err, stopped
        holder.rollback()
    assert user.run(*APPLY, schema, "-q").code == 0


def test_the_end_of_time(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        answer = user.run(*APPLY, schema, "--timeout", "8s", "-o", "json")
        line = answer.refusal(4, "TimedOut")
        assert "Apply" in line and "goes on" in line
        holder.rollback()
    assert user.run(*APPLY, schema, "-q").code == 0


def test_a_killed_backend_is_settled_by_the_ledger(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema, "-o", "json")
        until_running(database, running)
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'ptahk/apply/%'"
        )
        holder.rollback()
        answer = user.finish(running)
    assert answer.code in (3, 4, 5), answer
    assert answer.document("Error")["hint"]
    assert user.run(*APPLY, schema, "-q").code == 0
    assert database.rows(
        "SELECT count(*)::int FROM information_schema.columns WHERE table_name = 't'"
    ) == [(2,)]


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_question_at_a_terminal(
    user: Ptahk, declare: Declare, database: Database, answer: str
) -> None:
    terminal = user.terminal("apply", "--schema", declare(SCHEMA))
    terminal.expect("Apply exactly these statements\\? Type yes: ")
    assert "CREATE TABLE public.t" in terminal.text
    assert "\x1b[" in terminal.raw, "in colour"
    terminal.send(f"{answer}\n")
    code = terminal.end()
    there = database.rows("SELECT to_regclass('public.t') IS NOT NULL")
    if answer == "yes":
        assert code == 0 and there == [(True,)], terminal.text
        assert "applied and proved" in terminal.text
    else:
        assert code == 3 and there == [(False,)], terminal.text
        assert "approval refused" in terminal.text


def test_quiet_still_shows_what_is_asked_for(user: Ptahk, declare: Declare) -> None:
    terminal = user.terminal("apply", "--quiet", "--schema", declare(SCHEMA))
    terminal.expect("Type yes: ")
    assert "CREATE TABLE public.t" in terminal.text
    terminal.send("no\n")
    assert terminal.end() == 3


def test_no_colour_at_a_terminal(user: Ptahk, declare: Declare) -> None:
    schema = declare(SCHEMA)
    for extra, env in ((("--no-color",), {}), ((), {"NO_COLOR": "1"})):
        terminal = user.terminal("plan", "--schema", schema, *extra, **env)
        assert terminal.end() == 0
        assert "CREATE TABLE" in terminal.raw and "\x1b[" not in terminal.raw


def test_ctrl_c_at_the_question(user: Ptahk, declare: Declare, database: Database) -> None:
    terminal = user.terminal("apply", "--schema", declare(SCHEMA))
    terminal.expect("Type yes: ")
    terminal.send("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert database.rows("SELECT to_regclass('public.t') IS NULL") == [(True,)]


def test_status_follows(user: Ptahk, declare: Declare) -> None:
    watching = user.start("status", "--local", "--watch", "--timeout", "60s")
    assert watching.stdout is not None
    assert watching.stdout.readline() == "No resources.\n"
    assert user.run(*APPLY, declare(SCHEMA), "-q").code == 0
    seen = ""
    while "InSync" not in seen:
        line = watching.stdout.readline()
        assert line, seen
        seen += line
    os.kill(watching.pid, signal.SIGINT)
    assert user.finish(watching).code == 130
