"""Apply and its proof on PostgreSQL: what only it does. What every engine does: test_engines."""

from __future__ import annotations

import os
import signal

import pytest

from ptahk.executor.planning.document import Statement, plan_bytes
from ptahk.executor.planning.plan import CHECK
from ptahk.wire.jobspec import JobPolicy
from tests.kit.cutter import cutter
from tests.kit.databases import Database
from tests.kit.operations import Operator, children
from tests.kit.waiting import until

PATIENT = JobPolicy(lock_timeout_seconds=60)
DESTRUCTIVE = JobPolicy(allow_destructive=True)
BASE = "CREATE TABLE public.a (id int PRIMARY KEY, n text);"
TWO = BASE + "CREATE TABLE public.b (id int);"


def applied_rows(database: Database) -> list[tuple[str, str | None, int]]:
    """State, outcome and statements done of every attempt, oldest first."""
    return database.rows(
        "SELECT state, outcome, statements_done FROM ptahk.attempt ORDER BY number"
    )


@pytest.mark.pg(15, 17, 18)
def test_a_plan_is_applied_once_and_proven(database: Database, one: Operator) -> None:
    _, applied, proved = one.converge(TWO)
    assert applied.result["result"] == "applied"
    assert applied.result["statementsDone"] == applied.result["statementsTotal"]
    assert applied.result["notes"] == ["create the attempt ledger (schema ptahk)"]
    assert proved.result["fence"]["row"]["state"] == "finished"
    assert applied_rows(database) == [("finished", "applied", 2)]


def written(*statements: tuple[str, int, bool]) -> bytes:
    """A plan of our own: (SQL, group, in a transaction)."""
    return plan_bytes(
        [
            Statement(number, sql, "Test", "table public.a", "safe", "", "", group, inside, None)
            for number, (sql, group, inside) in enumerate(statements, start=1)
        ]
    )


def test_a_statement_that_ends_its_transaction_ends_the_attempt(
    database: Database, one: Operator
) -> None:
    planned = one.plan(BASE)
    ended = one.apply(
        planned,
        plan=written(
            ("CREATE TABLE public.one ()", 1, True),
            ("COMMIT", 1, True),
            ("CREATE TABLE public.two ()", 1, True),
        ),
    )
    assert (ended.exit_code, ended.result["result"]) == (4, "unknown")
    assert ended.frame["outcomeCertain"] is False
    assert database.rows("SELECT to_regclass('public.two') IS NULL") == [(True,)]
    assert applied_rows(database) == [("started", None, 0)]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE public.one ()",
        "SELECT nextval('public.s')::text WHERE false; CREATE TABLE public.one ()",
        "ROLLBACK; CREATE TABLE public.one ()",
        "WITH x AS (INSERT INTO public.t VALUES (1) RETURNING 1) SELECT 'x' FROM x WHERE false",
    ],
)
def test_a_check_changes_nothing_before_the_ledgers_row(
    database: Database, one: Operator, text: str
) -> None:
    database.run("CREATE TABLE public.t (id int)")
    planned = one.plan(BASE)
    check = Statement(1, text, CHECK, "table public.t", "safe", "", "", 1, True, None)
    refused = one.apply(planned, plan=plan_bytes([check]))
    assert refused.exit_code != 0
    assert refused.result["result"] == "refused"
    assert refused.frame["mutationStarted"] is False
    found = "SELECT to_regclass('public.one') IS NULL, (SELECT count(*) FROM public.t)"
    assert database.rows(found) == [(True, 0)]


def test_a_deferred_constraint_fails_before_the_commit(database: Database, one: Operator) -> None:
    database.run("CREATE TABLE public.p (id int PRIMARY KEY); CREATE TABLE public.c (id int)")
    planned = one.plan(BASE)
    failed = one.apply(
        planned,
        plan=written(
            (
                "ALTER TABLE public.c ADD FOREIGN KEY (id) REFERENCES public.p"
                " DEFERRABLE INITIALLY DEFERRED",
                1,
                True,
            ),
            ("INSERT INTO public.c VALUES (1)", 1, True),
        ),
    )
    assert failed.result["result"] == "failed"
    assert applied_rows(database) == [("finished", "failed", 0)]


def test_a_failed_concurrent_index_stays_invalid_until_a_fresh_plan_clears_it(
    database: Database, one: Operator
) -> None:
    database.run(BASE)
    database.run("INSERT INTO public.a SELECT i, 'same' FROM generate_series(1, 20) i")
    planned = one.plan(BASE + "CREATE INDEX a_m ON public.a (n, id);")
    text = "CREATE UNIQUE INDEX CONCURRENTLY a_n ON public.a (n)"
    failed = one.apply(planned, plan=written((text, 1, False)))
    assert (failed.exit_code, failed.result["result"]) == (5, "failed")
    row = failed.result["row"]
    assert (row["outcome"], row["statementsDone"], row["statementRunning"]) == ("failed", 0, 1)
    invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"
    assert database.rows(invalid) == [(1,)]
    database.run("DELETE FROM public.a WHERE id > 1")
    one.converge(BASE + "CREATE UNIQUE INDEX a_n ON public.a (n);", policy=DESTRUCTIVE)
    assert database.rows(invalid) == [(0,)]


@pytest.mark.parametrize("deliver", [True, False], ids=["answer-lost", "commit-lost"])
def test_a_lost_commit_is_unknown_and_the_proof_settles_it(
    database: Database, one: Operator, deliver: bool
) -> None:
    database.run(BASE)
    with cutter(database.server.port) as proxy, database.connect() as blocker:
        through = database.server.url(database.name, port=proxy.port)
        wanted = BASE.replace("n text", "n text, m int")
        planned = one.plan(wanted, url=through)
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
        started = one.start_apply(planned, url=through, policy=PATIENT)
        # The ledger's row is committed by now, so the next COMMIT is that of the statements.
        until(lambda: _waiting(database), "the statement to wait for its lock")
        proxy.arm(b"COMMIT", deliver=deliver)
        blocker.execute("ROLLBACK")
        lost = started.wait()
        assert proxy.cut.is_set()
    assert lost.exit_code == 4
    assert lost.result["result"] == "unknown"
    assert lost.frame["outcomeCertain"] is False
    proved = one.prove(lost.spec, planned, wanted, target_identity=_identity(one))
    row = proved.result["fence"]["row"]
    assert row["state"] == ("finished" if deliver else "started")
    assert row["statementsDone"] == (1 if deliver else 0)
    assert bool(proved.statements) is not deliver


def _identity(one: Operator) -> str:
    """Of the direct route: the plan went through the proxy's port."""
    return str(one.observe().frame["targetIdentity"])


def test_a_killed_executor_leaves_nothing_running_and_the_fence_says_nothing_finished(
    database: Database, one: Operator
) -> None:
    database.run(BASE)
    planned = one.plan(BASE.replace("n text", "n text, m int"))
    with database.connect() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
        started = one.start_apply(planned, policy=PATIENT)
        until(lambda: _waiting(database), "the statement to wait for its lock")
        for pid in children(started.process.pid):
            os.kill(pid, signal.SIGKILL)
        lost = started.wait()
        assert (lost.exit_code, lost.reason) == (4, "ExecutorLost")
        assert lost.termination["mutationStarted"] is True
        # The server notices the dead client although its statement still waits (C-9.7).
        until(lambda: not _sessions(database), "the session to end", 15)
        blocker.execute("ROLLBACK")
    proved = one.prove(lost.spec, planned, BASE)
    assert proved.result["fence"]["row"]["state"] == "started"
    assert database.rows("SELECT state FROM ptahk.attempt ORDER BY number DESC LIMIT 1") == [
        ("fenced",)
    ]


def _waiting(database: Database) -> list[tuple[int]]:
    return database.rows(
        "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE NOT l.granted AND a.application_name LIKE 'ptahk/apply/%'"
        " AND a.datname = current_database()"
    )


def _sessions(database: Database) -> list[tuple[int]]:
    return database.rows(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'ptahk/apply/%'"
        " AND datname = current_database()"
    )


def test_an_old_snapshot_is_named_before_a_concurrent_build(
    database: Database, one: Operator
) -> None:
    database.run(BASE)
    planned = one.plan(BASE + "CREATE INDEX a_n ON public.a (n);")
    text = "CREATE INDEX CONCURRENTLY a_n ON public.a (n)"
    with database.connect() as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT pg_sleep(5.1)")
        pid = reader.info.backend_pid
        started = one.start_apply(planned, plan=written((text, 1, False)))
        until(lambda: _waiting(database), "the build to wait for the snapshot")
        reader.execute("ROLLBACK")
    done = started.wait()
    assert done.reason is None
    assert any(f"backend {pid}" in note for note in done.result["notes"])
