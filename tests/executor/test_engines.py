"""What holds on every engine: an Apply happens once, says how far it came, and is proven."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptahk.executor.budget import DeadlineExceeded
from ptahk.executor.planning.document import Statement, plan_bytes
from tests.kit.operations import OTHER_REALM, REALM, Operator, children, operator
from tests.kit.sessions import my_session, session
from tests.kit.targets import TRANSACTIONAL_DDL, Target
from tests.kit.waiting import until


@pytest.fixture
def here(target: Target, tmp_path: Path) -> Iterator[Operator]:
    """The superuser's operations on the target, from one store."""
    with operator(target.url(), tmp_path, defaults=target.settings) as made:
        yield made


def declared(target: Target, *names: str) -> str:
    return "".join(f"CREATE TABLE {target.table(name)} (id int PRIMARY KEY);" for name in names)


def written(*statements: tuple[str, str, int, bool]) -> bytes:
    """A plan of our own: (SQL, object, group, in a transaction)."""
    return plan_bytes(
        [
            Statement(number, sql, "Test", named, "safe", "", "", group, inside, None)
            for number, (sql, named, group, inside) in enumerate(statements, start=1)
        ]
    )


def test_a_declaration_that_does_not_load_is_refused_by_file_and_line(
    target: Target, here: Operator
) -> None:
    """By the server's own message, and nothing is left of it."""
    fine, twice = declared(target, "one"), declared(target, "one", "two", "one")
    lines = twice.replace(";", ";\n")
    for files, place, word in (
        ([("one.sql", fine), ("two.sql", "\n\nCREATE TABLE x (id int,,);")], "two.sql:3", "syntax"),
        ([("one.sql", fine), ("two.sql", fine)], "two.sql:1", "already exists"),
        ([("schema.sql", lines)], "schema.sql:3", "already exists"),
    ):
        done = here.plan(files)
        assert (done.exit_code, done.reason) == (2, "InvalidSource"), done.frame["error"]
        assert done.frame["error"]["field"] == place
        assert done.message.startswith(f"{place}: ") and word in done.message
    assert not target.has_table("one")


def test_rows_of_a_declaration_are_left_out_and_said_so(target: Target, here: Operator) -> None:
    text = f"BEGIN;\n{declared(target, 'one')}\nINSERT INTO {target.table('one')} VALUES (1);"
    done, _, _ = here.converge(f"{text}\nCOMMIT;")
    (note,) = [each for each in done.result["summary"]["notes"] if "rows" in each]
    assert "schema.sql:3" in note
    assert target.rows(f"SELECT * FROM {target.table('one')}") in ([], ())


def test_nothing_is_sent_without_time_left(target: Target) -> None:
    opened: Any = session if target.engine == "postgresql" else my_session
    with opened(target.url(), budget_s=60) as mine:
        mine.check_still_mine()
        mine.budget.shorten(0)
        with pytest.raises(DeadlineExceeded):
            mine.check_still_mine()


def test_a_plan_is_applied_once_and_proven(target: Target, here: Operator) -> None:
    _, applied, proved = here.converge(declared(target, "one", "two"))
    assert applied.result["result"] == "applied"
    assert applied.result["statementsDone"] == applied.result["statementsTotal"] == 2
    assert len(applied.result["notes"]) == 1, "the ledger was made"
    assert proved.result["fence"]["row"]["state"] == "finished"
    assert target.attempts() == [("finished", "applied", 2)]


def test_the_same_plan_again_ends_already_converged(target: Target, here: Operator) -> None:
    planned, _, _ = here.converge(declared(target, "one"))
    again = here.apply(planned)
    assert again.exit_code == 0
    assert again.result["result"] == "alreadyConverged"
    assert again.frame["mutationStarted"] is False
    assert len(target.attempts()) == 1


def test_a_database_that_moved_is_refused_before_any_row(target: Target, here: Operator) -> None:
    planned = here.plan(declared(target, "one"))
    target.run(declared(target, "surprise").removesuffix(";"))
    stale = here.apply(planned)
    assert (stale.exit_code, stale.reason) == (3, "StalePlan")
    assert stale.result["result"] == "stale"
    assert planned.result["observedFingerprint"] in stale.message
    assert not target.has_ledger()


def test_one_edited_byte_is_refused_before_the_child_starts(target: Target, here: Operator) -> None:
    planned = here.plan(declared(target, "one"))
    edited = planned.plan_bytes.replace(b"one", b"two")
    refused = here.apply(planned, plan=edited, plan_digest=planned.result["planDigest"])
    assert (refused.exit_code, refused.reason) == (3, "JobMismatch")
    assert refused.frame["result"] is None


def test_another_target_is_refused_before_the_child_starts(target: Target, here: Operator) -> None:
    planned = here.plan(declared(target, "one"))
    refused = here.apply(planned, url=target.url().replace("127.0.0.1", "localhost"))
    assert (refused.exit_code, refused.reason) == (3, "TargetMismatch")
    assert refused.frame["result"] is None


def test_another_server_behind_the_same_url_is_refused(target: Target, here: Operator) -> None:
    planned = here.plan(declared(target, "one"))
    refused = here.apply(planned, server_identity=f"{target.engine}/1/2")
    assert (refused.exit_code, refused.reason) == (3, "ServerIdentityMismatch")
    assert refused.result["ledger"]["present"] is False
    assert not target.has_ledger()


def test_a_failure_says_how_far_it_came(target: Target, here: Operator) -> None:
    planned = here.plan(declared(target, "one"))
    texts = (
        (declared(target, "first").removesuffix(";"), "table first", 1, True),
        (declared(target, "second").removesuffix(";"), "table second", 2, True),
        (f"CREATE TABLE {target.table('third')} (x nosuchtype)", "table third", 2, True),
    )
    failed = here.apply(planned, plan=written(*texts))
    assert (failed.exit_code, failed.reason) == (5, "StatementFailed")
    assert failed.result["statement"] == 3
    assert failed.frame["error"]["sqlstate"] in ("42704", "1064", "4161")
    whole = target.can(TRANSACTIONAL_DDL)
    assert failed.result["statementsDone"] == (1 if whole else 2)
    assert failed.frame["outcomeCertain"] is True
    assert target.attempts() == [("finished", "failed", 1 if whole else 2)]
    assert [target.has_table(name) for name in ("first", "second", "third")] == [
        True, not whole, False,
    ]  # fmt: skip
    same = {"operation_id": failed.spec.operation_id, "epoch": failed.spec.epoch}
    late = here.apply(planned, plan=written(*texts), **same)
    assert (late.exit_code, late.reason) == (3, "AttemptExists")
    assert late.result["result"] == "refused"


def test_two_statements_in_one_text_are_refused_by_the_server(
    target: Target, here: Operator
) -> None:
    planned = here.plan(declared(target, "one"))
    failed = here.apply(planned, plan=written((declared(target, "a", "b"), "table a", 1, True)))
    assert failed.reason == "StatementFailed"
    assert not target.has_table("a")


def test_two_explicit_keys_for_one_database(target: Target, here: Operator, tmp_path: Path) -> None:
    """The binding row knows the first; another is accepted by name, and never by a late process."""
    here.converge(declared(target, "one"), explicit_key=True)
    text = declared(target, "one", "two")
    with operator(target.url(), tmp_path, defaults=target.settings) as two:
        named: dict[str, Any] = {"explicit_key": True, "coordination_digest": OTHER_REALM}
        refused = two.plan(text, **named)
        assert (refused.exit_code, refused.reason) == (3, "BindingMismatch")
        assert REALM in refused.message
        unnamed = two.plan(text, coordination_digest=OTHER_REALM)
        assert unnamed.reason is None
        here_it_is: dict[str, Any] = {
            "target_identity": unnamed.frame["targetIdentity"],
            "server_identity": unnamed.result["serverIdentity"],
            "rebind": True,
        }
        old: dict[str, Any] = {"epoch": "1." + "0" * 16, "store_uid": here.store_uid}
        late = two.start("Apply", **named, **here_it_is, **old).wait()
        assert (late.exit_code, late.reason) == (3, "StaleEpoch")
        assert late.result["result"] == "refused"
        assert late.frame["mutationStarted"] is False
        assert two.start("Apply", **named, **here_it_is).wait().reason is None
        assert two.plan(text, **named).reason is None


@pytest.mark.parametrize("keys", [(REALM, REALM), (REALM, OTHER_REALM)], ids=["one", "two"])
def test_two_applies_at_once_one_wins(
    target: Target, tmp_path: Path, keys: tuple[str, str]
) -> None:
    """From two state directories; also with a key that one of them got wrong (C-9.8)."""
    made = []
    with contextlib.ExitStack() as stack:
        for number, key in enumerate(keys):
            folder = tmp_path / str(number)
            folder.mkdir()
            defaults = {
                **target.settings, "coordination_digest": key, "plan_coordination_digest": key,
                "explicit_key": len(set(keys)) > 1, "store_uid": f"store-{number}",
            }  # fmt: skip
            made.append(stack.enter_context(operator(target.url(), folder, defaults=defaults)))
        plans = [side.plan(declared(target, "one", "two")) for side in made]
        assert [plan.reason for plan in plans] == [None, None]
        started = [side.start_apply(plan) for side, plan in zip(made, plans, strict=True)]
        ended = [each.wait() for each in started]
    results = sorted(str(each.result["result"]) for each in ended)
    assert results in (["alreadyConverged", "applied"], ["applied", "refused"]), results
    assert [row[:2] for row in target.attempts()] == [("finished", "applied")]


def test_an_apply_that_waits_for_the_lock_names_who_holds_it(
    target: Target, here: Operator, tmp_path: Path
) -> None:
    planned = here.plan(declared(target, "one"))
    with target.locked() as holder:
        policy = here.policy_with(coordination_timeout_seconds=0.5)
        began = time.monotonic()
        held = here.apply(planned, policy=policy)
        assert (held.exit_code, held.reason) == (3, "LockHeld")
        assert str(holder) in held.message
        assert time.monotonic() - began < 60
    assert not target.has_ledger()


def test_two_operators_one_wins_and_the_other_names_it(
    target: Target, here: Operator, tmp_path: Path
) -> None:
    target.run(declared(target, "busy").removesuffix(";"))
    text = wider(target)
    with operator(target.url(), tmp_path, defaults=target.settings) as two:
        planned, same = here.plan(text), two.plan(text)
        with target.in_use("busy"):
            first = here.start_apply(planned, policy=here.policy_with(lock_timeout_seconds=60))
            until(target.waiting_lock_owner, "the first to hold the lock")
            refused = two.apply(same, policy=two.policy_with(coordination_timeout_seconds=0.3))
        assert (refused.exit_code, refused.reason) == (3, "LockHeld")
        assert f"ptahk/apply/{first.spec.operation_id[:12]}" in refused.message
        assert first.wait().reason is None
        late = two.apply(same)
        assert late.result["result"] == "alreadyConverged"


def test_a_tombstone_refuses_a_late_process(target: Target, here: Operator) -> None:
    planned = here.plan(declared(target, "one"))
    with target.locked():
        # Its first wait is for the database's own lock, so it never reaches the ledger.
        ghost = here.start_apply(planned)
        until(target.applying, "the attempt to connect")
        ghost.process.kill()
        until(lambda: not target.applying(), "the killed session to end", 15)
    proved = here.prove(ghost.spec, planned, declared(target, "one"))
    assert proved.result["fence"] == {"tombstone": True, "row": None}
    late = here.apply(planned, operation_id=ghost.spec.operation_id, epoch=ghost.spec.epoch)
    assert (late.exit_code, late.reason) == (3, "AttemptExists")
    assert late.result["result"] == "refused"
    assert late.frame["mutationStarted"] is False
    assert not target.has_table("one")


def wider(target: Target) -> str:
    """The table ``busy`` with another column."""
    return f"CREATE TABLE {target.table('busy')} (id int PRIMARY KEY, n int);"


def test_a_stop_ends_the_statement_and_the_row_says_failed(target: Target, here: Operator) -> None:
    target.run(declared(target, "busy").removesuffix(";"))
    planned = here.plan(wider(target))
    with target.in_use("busy"):
        started = here.start_apply(planned, policy=here.policy_with(lock_timeout_seconds=60))
        until(target.waiting_lock_owner, "the statement to wait for the table")
        started.process.terminate()
        stopped = started.wait()
    assert (stopped.exit_code, stopped.reason) == (5, "Stopped")
    assert stopped.result["result"] == "failed"
    assert stopped.frame["outcomeCertain"] is True
    assert target.attempts() == [("finished", "failed", 0)]
    assert not target.has_column("busy", "n")


def test_the_deadline_ends_a_statement_that_waits(target: Target, here: Operator) -> None:
    target.run(declared(target, "busy").removesuffix(";"))
    planned = here.plan(wider(target))
    with target.in_use("busy"):
        policy = here.policy_with(lock_timeout_seconds=60)
        done = here.apply(planned, deadline_s=12, policy=policy)
    assert (done.exit_code, done.result["result"]) == (5, "failed")
    assert target.attempts() == [("finished", "failed", 0)]
    assert not target.has_column("busy", "n")


def test_a_busy_table_is_waited_for_by_retries(target: Target, here: Operator) -> None:
    target.run(declared(target, "busy").removesuffix(";"))
    planned = here.plan(wider(target))
    with target.in_use("busy"):
        started = here.start_apply(planned, policy=here.policy_with(lock_timeout_seconds=0.05))
        until(target.waiting_lock_owner, "a first try")
        until(lambda: not target.waiting_lock_owner(), "its lock timeout")
        until(target.waiting_lock_owner, "a second try")
    done = started.wait()
    assert done.reason is None
    assert any("was retried" in note for note in done.result["notes"])


def test_one_session_holds_the_lock_and_runs_the_statements(target: Target, here: Operator) -> None:
    target.run(declared(target, "busy").removesuffix(";"))
    texts = (
        (f"ALTER TABLE {target.table('busy')} ADD COLUMN n int", "table busy", 1, True),
        (declared(target, "after").removesuffix(";"), "table after", 2, True),
    )
    planned = here.plan(declared(target, "busy", "one"))
    with target.in_use("busy"):
        policy = here.policy_with(lock_timeout_seconds=60)
        started = here.start_apply(planned, plan=written(*texts), policy=policy)
        waiter = until(target.waiting_lock_owner, "the lock's owner to wait for the table")
        target.kill(waiter)
        ended = started.wait()
    assert ended.exit_code == 4
    assert ended.result["result"] == "unknown"
    assert not target.has_table("after"), "nothing more was sent"
    proved = here.prove(ended.spec, planned, declared(target, "busy", "one"))
    row = proved.result["fence"]["row"]
    assert row["state"] == "started"
    assert (row["statementsDone"], row["statementRunning"]) == (0, None)


def test_what_a_killed_client_left_running_is_settled_by_the_fence(
    target: Target, here: Operator
) -> None:
    target.run(declared(target, "busy").removesuffix(";"))
    text = f"ALTER TABLE {target.table('busy')} ADD COLUMN n int"
    planned = here.plan(declared(target, "busy", "one"))
    with target.in_use("busy"):
        policy = here.policy_with(lock_timeout_seconds=60)
        plan = written((text, "table busy", 1, True))
        started = here.start_apply(planned, plan=plan, policy=policy)
        until(target.waiting_lock_owner, "the lock's owner to wait for the table")
        for child in children(started.process.pid):
            os.kill(child, signal.SIGKILL)
        ended = started.wait()
        assert ended.frame["outcomeCertain"] is False
    # MySQL and MariaDB do not notice that the client is gone: the statement goes on, and the fence
    # waits for it. PostgreSQL may have ended it before.
    proved = here.prove(ended.spec, planned, declared(target, "busy", "one"))
    row = proved.result["fence"]["row"]
    assert row["state"] == "started"
    assert row["statementRunning"] is None
    assert row["statementsDone"] == (1 if target.has_column("busy", "n") else 0)
