"""``release-lock`` and ``acknowledge``: what only a person can settle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import MakeUser
from tests.cli.kit import Ptahk
from tests.cli.test_interruptions import APPLY, SCHEMA, blocked, until_running
from tests.kit.databases import Database

Declare = Callable[..., str]


def kill_job(user: Ptahk) -> None:
    """Kill the runner of the user's Job and its executor, each by its own pid."""
    mark = str(user.state / "jobs").encode()
    runners = [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and mark in _read(path / "cmdline")
    ]
    assert runners, "a Job is running"
    for runner in runners:
        children = _read(Path(f"/proc/{runner}/task/{runner}/children")).split()
        for pid in (runner, *map(int, children)):
            os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it ended meanwhile


def test_a_dead_holder_is_fenced_and_released(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema)
        until_running(database, running)
        running.kill()
        user.finish(running)
        release = ("release-lock", "--url-env", "DATABASE_URL", "-o", "json")
        refused = user.run(*release)
        assert refused.code == 3
        report = refused.document("LockReport")
        assert report["verdict"] == "Refused" and report["process"]["running"]
        operation = report["claim"]["operationId"]
        assert report["lease"]["epoch"].startswith("2.")
        kill_job(user)
        holder.rollback()
    dry = user.run(*release, "--dry-run").document("LockReport")
    assert dry["verdict"] == "WouldRelease" and "fence" in dry["message"]
    assert "url-env" in user.run("release-lock", "--local").refusal(2)
    done = user.run(*release)
    assert done.code == 0, done
    report = done.document("LockReport")
    assert report["verdict"] == "Released"
    assert report["ledgerRow"]["operationId"] == operation
    rows = database.rows("SELECT operation_id, state FROM ptahk.attempt")
    assert rows in ([(operation, "fenced")], [(operation, "finished")])
    assert user.run(*release).document("LockReport")["verdict"] == "Free"
    ended = user.run(*APPLY, schema, "-o", "json")
    if ended.code != 0:  # the begun apply ended as the ledger says; a new one is in order
        assert ended.code in (3, 5), ended
        ended = user.run(*APPLY, schema, "-o", "json")
    assert ended.code == 0, ended
    columns = database.rows(
        "SELECT count(*)::int FROM information_schema.columns"
        " WHERE table_schema = 'public' AND table_name = 't'"
    )
    assert columns == [(2,)]


def test_force_needs_the_operation_typed(user: Ptahk, declare: Declare, database: Database) -> None:
    schema = declare(SCHEMA)
    with blocked(database) as holder:
        running = user.start(*APPLY, schema)
        until_running(database, running)
        running.kill()
        user.finish(running)
        force = ("release-lock", "--url-env", "DATABASE_URL", "--force", "-o", "json")
        assert "--reason" in user.run(*force).refusal(2)
        wrong = user.run(*force, "--reason", "drill", "--operation", "0" * 32)
        wrong.refusal(3, "RealmHeld")
        kill_job(user)
        holder.rollback()
    report = user.run("release-lock", "--local", "--dry-run", "-o", "json").document("LockReport")
    operation = report["claim"]["operationId"]
    forced = user.run(*force, "--reason", "drill", "--operation", operation)
    assert forced.code == 0, forced
    assert "drill" in forced.document("LockReport")["message"]
    ((note,),) = database.rows("SELECT note FROM ptahk.attempt")
    assert note.endswith(": drill"), "kept in the ledger"


def test_another_key_is_accepted_by_a_person(
    user_of: MakeUser, declare: Declare, database: Database
) -> None:
    first, second = user_of(database.url()), user_of(database.url())
    assert first.run(*APPLY, declare(SCHEMA), "--key", "a/orders", "-q").code == 0
    more = declare(SCHEMA + "CREATE TABLE more (id int);", "more.sql")
    keyed = (*APPLY, more, "--key", "b/orders", "-o", "json")
    second.run(*keyed).refusal(3, "BindingMismatch")
    rebind = ("acknowledge", "--rebind", "--url-env", "DATABASE_URL", "--reason", "renamed")
    assert "key" in second.run(*rebind).refusal(2)
    done = second.run(*rebind, "--key", "b/orders", "-o", "json")
    assert done.code == 0, done
    assert done.document("Acknowledgement")["what"] == "rebind"
    answer = second.run(*keyed)
    assert answer.code == 0, answer
    assert answer.document("ApplyResult")["statementsDone"] == 1, "only the binding was changed"
    first.run(*APPLY, more, "--key", "a/orders", "-o", "json").refusal(3, "BindingMismatch")


def test_two_keys_from_one_store_are_no_restored_store(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare(SCHEMA)
    assert user.run(*APPLY, schema, "--key", "a/orders", "-q").code == 0
    more = declare(SCHEMA + "CREATE TABLE more (id int);", "more.sql")
    keyed = (*APPLY, more, "--key", "b/orders", "-o", "json")
    for _ in range(2):  # the second knows of the first's number, and is refused the same way
        user.run(*keyed).refusal(3, "BindingMismatch")
    rebind = ("acknowledge", "--rebind", "--url-env", "DATABASE_URL", "--reason", "renamed")
    assert user.run(*rebind, "--key", "b/orders").code == 0
    assert user.run(*keyed).code == 0


def test_a_frozen_realm_is_thawed_by_a_person(
    user: Ptahk, declare: Declare, database: Database
) -> None:
    schema = declare(SCHEMA)
    assert user.run(*APPLY, schema, "-q").code == 0
    nothing = user.run("acknowledge", "--local", "--frozen", "--reason", "drill", "-o", "json")
    nothing.refusal(3, "NothingToAcknowledge")
    # As after a restored state directory: the ledger knows a number that the store does not.
    database.run(
        "INSERT INTO ptahk.attempt SELECT (jsonb_populate_record(a, jsonb_build_object("
        "'operation_id', repeat('a', 32), 'number', 90, 'epoch', '90.' || repeat('0', 16)))).*"
        " FROM ptahk.attempt a LIMIT 1"
    )
    more = declare(SCHEMA + "CREATE TABLE more (id int);", "more.sql")
    frozen = user.run(*APPLY, more, "-o", "json")
    line = frozen.refusal(3, "Frozen")
    assert "acknowledge --frozen" in line
    status = user.run("status", "--local", "-o", "json")
    assert status.code == 1
    (entry,) = status.document("Status")["resources"]
    assert entry["phase"] == "Frozen" and "90" in " ".join(entry["owed"])
    assert "reason" in user.run("acknowledge", "--local", "--frozen").refusal(2)
    thawed = user.run("acknowledge", "--local", "--frozen", "--reason", "drill", "-o", "json")
    assert thawed.code == 0, thawed
    assert thawed.document("Acknowledgement")["what"] == "frozen"
    assert user.run(*APPLY, more, "-q").code == 0
