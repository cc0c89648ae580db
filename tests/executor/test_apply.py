"""Apply and its proof on a real server: what happens once, and what is said of the rest."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ptahk.executor.planning.document import Statement, plan_bytes
from ptahk.executor.planning.plan import CHECK
from ptahk.wire.digest import advisory_lock_key
from ptahk.wire.jobspec import JobPolicy
from tests.kit.cutter import cutter
from tests.kit.databases import Database
from tests.kit.operations import OTHER_REALM, Operator, children, operator
from tests.kit.waiting import until

PATIENT = JobPolicy(lock_timeout_seconds=60)
DESTRUCTIVE = JobPolicy(allow_destructive=True)
BASE = "CREATE TABLE public.a (id int PRIMARY KEY, n text);"
TWO = BASE + "CREATE TABLE public.b (id int);"
LOCK_KEY = advisory_lock_key()


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


def test_the_same_plan_again_ends_already_converged(database: Database, one: Operator) -> None:
    planned, _, _ = one.converge(TWO)
    again = one.apply(planned)
    assert again.exit_code == 0
    assert again.result["result"] == "alreadyConverged"
    assert again.frame["mutationStarted"] is False
    assert len(applied_rows(database)) == 1


def test_a_database_that_moved_is_refused_before_any_row(database: Database, one: Operator) -> None:
    planned = one.plan(TWO)
    database.run("CREATE TABLE public.surprise ()")
    stale = one.apply(planned)
    assert (stale.exit_code, stale.reason) == (3, "StalePlan")
    assert stale.result["result"] == "stale"
    assert planned.result["observedFingerprint"] in stale.message
    assert database.rows("SELECT to_regnamespace('ptahk') IS NULL") == [(True,)]


def test_one_edited_byte_is_refused_before_the_child_starts(one: Operator) -> None:
    planned = one.plan(BASE)
    edited = planned.plan_bytes.replace(b"public.a", b"public.z")
    refused = one.apply(planned, plan=edited, plan_digest=planned.result["planDigest"])
    assert (refused.exit_code, refused.reason) == (3, "JobMismatch")
    assert refused.frame["result"] is None


def test_another_target_is_refused_before_the_child_starts(
    database: Database, one: Operator
) -> None:
    planned = one.plan(BASE)
    refused = one.apply(planned, url=database.url(sslmode="disable"))
    assert (refused.exit_code, refused.reason) == (3, "TargetMismatch")
    assert refused.frame["result"] is None


def test_another_server_behind_the_same_url_is_refused_before_the_row(one: Operator) -> None:
    planned = one.plan(BASE)
    refused = one.apply(planned, server_identity="postgresql/1/2")
    assert (refused.exit_code, refused.reason) == (3, "ServerIdentityMismatch")
    assert refused.result["ledger"]["present"] is False


def written(*statements: tuple[str, int, bool]) -> bytes:
    """A plan of our own: (SQL, group, in a transaction)."""
    return plan_bytes(
        [
            Statement(number, sql, "Test", "table public.a", "safe", "", "", group, inside, None)
            for number, (sql, group, inside) in enumerate(statements, start=1)
        ]
    )


def test_a_failing_statement_undoes_its_group_and_the_ledger_says_so(
    database: Database, one: Operator
) -> None:
    planned = one.plan(BASE)
    failed = one.apply(
        planned,
        plan=written(
            ("CREATE TABLE public.one ()", 1, True),
            ("CREATE TABLE public.two ()", 2, True),
            ("CREATE TABLE public.three (x nosuchtype)", 2, True),
        ),
    )
    assert (failed.exit_code, failed.reason) == (5, "StatementFailed")
    assert failed.frame["error"]["sqlstate"] == "42704"
    assert failed.result["statement"] == 3
    assert failed.result["statementsDone"] == 1
    assert failed.frame["outcomeCertain"] is True
    assert applied_rows(database) == [("finished", "failed", 1)]
    found = "SELECT to_regclass('public.one') IS NULL, to_regclass('public.two') IS NULL"
    assert database.rows(found) == [(False, True)]


def test_two_statements_in_one_text_are_refused_by_the_server(
    database: Database, one: Operator
) -> None:
    planned = one.plan(BASE)
    text = "CREATE TABLE public.one (); CREATE TABLE public.two ()"
    failed = one.apply(planned, plan=written((text, 1, True)))
    assert failed.reason == "StatementFailed"
    assert database.rows("SELECT to_regclass('public.one') IS NULL") == [(True,)]


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


def test_a_second_process_of_an_operation_never_calls_its_own_work_staleness(
    database: Database, one: Operator
) -> None:
    planned = one.plan(BASE)
    texts = ("CREATE TABLE public.one ()", 1, True), ("SELECT 1 / 0", 2, True)
    failed = one.apply(planned, plan=written(*texts))
    assert failed.result["statementsDone"] == 1
    same = {"operation_id": failed.spec.operation_id, "epoch": failed.spec.epoch}
    late = one.apply(planned, plan=written(*texts), **same)
    assert (late.exit_code, late.reason) == (3, "AttemptExists")
    assert late.result["result"] == "refused"
    assert applied_rows(database) == [("finished", "failed", 1)]


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


def test_sigterm_ends_the_statement_and_the_row_says_failed(
    database: Database, one: Operator
) -> None:
    database.run(BASE)
    planned = one.plan(BASE.replace("n text", "n text, m int"))
    with database.connect() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
        started = one.start_apply(planned, policy=PATIENT)
        until(lambda: _waiting(database), "the statement to wait for its lock")
        started.process.terminate()
        stopped = started.wait()
        assert stopped.exit_code == 5
        assert stopped.reason == "Stopped"
        assert stopped.result["result"] == "failed"
        blocker.execute("ROLLBACK")
    assert applied_rows(database)[-1] == ("finished", "failed", 0)


def test_a_busy_table_is_waited_for_by_retries(database: Database, one: Operator) -> None:
    database.run(BASE)
    planned = one.plan(BASE.replace("n text", "n text, m int"))
    with database.connect() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
        started = one.start_apply(planned, policy=JobPolicy(lock_timeout_seconds=0.05))
        until(lambda: _waiting(database), "a first try")
        until(lambda: not _waiting(database), "its lock timeout")
        until(lambda: _waiting(database), "a second try")
        blocker.execute("ROLLBACK")
    done = started.wait()
    assert done.reason is None
    assert any("was retried" in note for note in done.result["notes"])


def test_the_deadline_ends_a_statement_that_waits(database: Database, one: Operator) -> None:
    database.run(BASE)
    planned = one.plan(BASE.replace("n text", "n text, m int"))
    with database.connect() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
        done = one.apply(planned, deadline_s=12, policy=PATIENT)
        blocker.execute("ROLLBACK")
    assert done.exit_code == 5
    assert done.result["result"] == "failed"


def test_two_operators_one_wins_and_the_other_names_it(
    database: Database, one: Operator, tmp_path: Path
) -> None:
    database.run(BASE)
    with operator(database.url(), tmp_path) as two:
        planned = one.plan(BASE.replace("n text", "n text, m int"))
        same = two.plan(BASE.replace("n text", "n text, m int"))
        with database.connect() as blocker:
            blocker.execute("BEGIN")
            blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
            first = one.start_apply(planned, policy=PATIENT)
            until(lambda: _waiting(database), "the first to hold the lock")
            refused = two.apply(same, policy=JobPolicy(coordination_timeout_seconds=0.3))
            blocker.execute("ROLLBACK")
        assert (refused.exit_code, refused.reason) == (3, "LockHeld")
        assert f"ptahk/apply/{first.spec.operation_id[:12]}" in refused.message
        assert first.wait().reason is None
        late = two.apply(same)
        assert late.result["result"] == "alreadyConverged"


def test_two_explicit_keys_for_one_database(
    database: Database, one: Operator, tmp_path: Path
) -> None:
    one.converge(BASE, explicit_key=True)
    with operator(database.url(), tmp_path) as two:
        refused = two.plan(TWO, explicit_key=True, coordination_digest=OTHER_REALM)
        assert (refused.exit_code, refused.reason) == (3, "BindingMismatch")
        assert "sha256:" + "a" * 64 in refused.message
        unnamed = two.plan(TWO, coordination_digest=OTHER_REALM)
        assert unnamed.reason is None
        late = two.start(
            "Apply",
            explicit_key=True,
            coordination_digest=OTHER_REALM,
            rebind=True,
            epoch="1." + "0" * 16,
            store_uid=one.store_uid,
            target_identity=unnamed.frame["targetIdentity"],
            server_identity=unnamed.result["serverIdentity"],
        ).wait()
        assert (late.exit_code, late.reason) == (3, "StaleEpoch")
        assert late.result["result"] == "refused"
        assert late.frame["mutationStarted"] is False
        rebound = two.start(
            "Apply",
            explicit_key=True,
            coordination_digest=OTHER_REALM,
            rebind=True,
            target_identity=unnamed.frame["targetIdentity"],
            server_identity=unnamed.result["serverIdentity"],
        ).wait()
        assert rebound.reason is None
        assert two.plan(TWO, explicit_key=True, coordination_digest=OTHER_REALM).reason is None


def test_a_tombstone_refuses_a_late_process(database: Database, one: Operator) -> None:
    planned = one.plan(BASE)
    with database.connect() as blocker:
        # Its first wait is for the database's own lock, so it never reaches the ledger.
        blocker.execute("SELECT pg_advisory_lock(%s)", (LOCK_KEY,))
        ghost = one.start_apply(planned)
        until(lambda: _sessions(database), "the attempt to connect")
        ghost.process.kill()
        until(lambda: not _sessions(database), "the killed session to end", 15)
    proved = one.prove(ghost.spec, planned, BASE)
    assert proved.result["fence"] == {"tombstone": True, "row": None}
    late = one.apply(planned, operation_id=ghost.spec.operation_id, epoch=ghost.spec.epoch)
    assert (late.exit_code, late.reason) == (3, "AttemptExists")
    assert late.result["result"] == "refused"
    assert late.frame["mutationStarted"] is False
    assert database.rows("SELECT to_regclass('public.a') IS NULL") == [(True,)]


def test_one_session_holds_the_lock_and_waits_for_the_table(
    database: Database, one: Operator
) -> None:
    """C-9.6: the advisory lock's holder and the waiting backend are one; killed, nothing runs."""
    database.run(BASE)
    wanted = BASE.replace("n text", "n text, m int") + "CREATE TABLE public.z ();"
    planned = one.plan(wanted)
    with database.connect() as blocker:
        blocker.execute("BEGIN")
        blocker.execute("LOCK TABLE public.a IN ACCESS SHARE MODE")
        started = one.start_apply(planned, policy=PATIENT)
        until(lambda: _waiting(database), "the statement to wait for its lock")
        joined = database.rows(
            "SELECT DISTINCT w.pid FROM pg_locks h JOIN pg_locks w USING (pid)"
            " JOIN pg_database d ON d.oid = h.database AND d.datname = current_database()"
            " WHERE h.locktype = 'advisory' AND h.granted AND w.locktype = 'relation'"
            " AND NOT w.granted AND w.relation = 'public.a'::regclass AND w.database = h.database"
        )
        assert len(joined) == 1
        assert [(pid,) for (pid,) in joined] == _sessions(database)
        assert database.rows("SELECT pg_terminate_backend(%s, 10000)", joined[0][0]) == [(True,)]
        lost = started.wait()
        blocker.execute("ROLLBACK")
    assert (lost.exit_code, lost.result["result"]) == (4, "unknown")
    assert _sessions(database) == []
    assert database.rows("SELECT to_regclass('public.z') IS NULL") == [(True,)]


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
