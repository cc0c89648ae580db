"""The attempt ledger's refusals, one by one, on a real server (C-6.11 to C-6.16)."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from ptahk.errors import Refused
from ptahk.executor.dialects.postgres import ledger
from ptahk.executor.dialects.postgres.session import Session
from ptahk.wire import ledgersql
from ptahk.wire.jobspec import FencedAttempt, JobSpec
from tests.kit.databases import Database
from tests.kit.operations import OTHER_REALM, REALM, Operator, at
from tests.kit.sessions import apply_spec, session


@pytest.fixture
def mine(database: Database) -> Iterator[Session]:
    with session(database.url(), locked=True) as made:
        yield made


def begin(mine: Session, spec: JobSpec) -> list[str]:
    return ledger.begin(mine, spec, secrets.token_hex(16), 3)


def refusal(mine: Session, spec: JobSpec) -> str:
    with pytest.raises(Refused) as refused:
        begin(mine, spec)
    assert not mine.in_transaction
    assert ledger.row_of(mine, spec.operation_id) is None or refused.value.reason == "AttemptExists"
    return refused.value.reason


def settled(mine: Session, spec: JobSpec, outcome: str = "applied") -> None:
    begin(mine, spec)
    ledger.done(mine, spec, 3)
    ledger.finish(mine, spec, outcome, REALM)


def test_the_first_attempt_makes_the_ledger(mine: Session) -> None:
    assert ledger.require(mine) == [ledger.SETUP_STEP]
    spec = apply_spec()
    assert begin(mine, spec) == [ledger.SETUP_STEP]
    row = ledger.row_of(mine, spec.operation_id)
    assert row is not None
    assert (row["state"], row["number"], row["statementsDone"]) == ("started", 1, 0)
    assert row["serverIdentity"] == str(mine.identity)
    assert ledger.require(mine) == []


def test_an_operation_starts_once(mine: Session) -> None:
    spec = apply_spec()
    settled(mine, spec)
    assert refusal(mine, spec) == "AttemptExists"


@pytest.mark.parametrize("number", [1, 2])
def test_a_number_that_is_not_higher_is_out_of_date(mine: Session, number: int) -> None:
    settled(mine, apply_spec(2))
    assert refusal(mine, apply_spec(number)) == "StaleEpoch"
    assert begin(mine, apply_spec(3)) == []


def test_another_stores_numbers_are_history(mine: Session) -> None:
    settled(mine, apply_spec(7, store_uid="other"))
    assert ledger.report(mine, apply_spec())["highestNumber"] == 7
    assert begin(mine, apply_spec(1)) == []


def test_the_databases_clock_judges_the_deadline(mine: Session) -> None:
    late = apply_spec(execution_not_after=at(-1), dispatch_not_after=at(-2))
    assert refusal(mine, late) == "DeadlineExceeded"


def test_the_deadline_is_judged_at_the_very_insert(
    mine: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_refuse_start", lambda *_: None)
    late = apply_spec(execution_not_after=at(-1), dispatch_not_after=at(-2))
    assert refusal(mine, late) == "DeadlineExceeded"


def test_what_time_is_left_is_the_databases_word(mine: Session) -> None:
    assert mine.budget.remaining() > 50
    begin(mine, apply_spec(execution_not_after=at(20)))
    assert 10 < mine.budget.remaining() < 20.1


def test_a_number_that_the_store_does_not_know_freezes(mine: Session) -> None:
    settled(mine, apply_spec(5))
    behind = apply_spec(9, known_number=3)
    # Its own claim's number counts as known; the ledger is not ahead of that.
    assert ledger.report(mine, behind)["frozen"] == []
    ahead = apply_spec(4, known_number=4)
    (finding,) = ledger.report(mine, ahead)["frozen"]
    assert (finding["reason"], finding["number"]) == ("UnknownNumber", 5)


def test_a_number_given_twice_freezes(mine: Session) -> None:
    lost = apply_spec(5)
    settled(mine, lost)
    again = apply_spec(5, epoch=lost.epoch)
    assert ledger.report(mine, again)["frozen"] == []
    restored = dataclasses.replace(again, epoch="5." + "f" * 16)
    (finding,) = ledger.report(mine, restored)["frozen"]
    assert (finding["reason"], finding["operationId"]) == ("UnknownNumber", lost.operation_id)


def test_another_clusters_open_attempt_freezes_unless_shared(mine: Session) -> None:
    foreign = apply_spec(5, store_uid="cluster", store_kind="cluster")
    begin(mine, foreign)
    spec = apply_spec(2)
    (finding,) = ledger.report(mine, spec)["frozen"]
    assert finding["reason"] == "ForeignCluster"
    assert refusal(mine, spec) == "Frozen"
    settled(mine, apply_spec(2, shared_realm=True))
    known = (foreign.operation_id,)
    settled(mine, apply_spec(3, store_uid="third", thawed=known))
    begin(mine, apply_spec(1, store_uid="other", store_kind="cluster", thawed=known))
    late = apply_spec(4, store_uid="third", thawed=known)
    assert refusal(mine, late) == "Frozen", "the word was on another attempt"


def test_an_open_attempt_of_an_unknown_local_store(mine: Session, database: Database) -> None:
    other = apply_spec(1, store_uid="other")
    begin(mine, other)
    assert refusal(mine, apply_spec(2)) == "UnfinishedAttempt"
    database.run("UPDATE ptahk.attempt SET not_after = clock_timestamp() - interval '1 s'")
    (note,) = begin(mine, apply_spec(3))
    assert other.operation_id in note
    row = ledger.row_of(mine, other.operation_id)
    assert row is not None
    assert row["state"] == "fenced"


def test_rows_of_a_copy_are_history(mine: Session, database: Database) -> None:
    begin(mine, apply_spec(9, explicit_key=True))
    database.run("UPDATE ptahk.attempt SET server_identity = 'postgresql/1/1'")
    database.run("UPDATE ptahk.binding SET server_identity = 'postgresql/1/1'")
    spec = apply_spec(1, explicit_key=True, coordination_digest=OTHER_REALM)
    report = ledger.report(mine, spec)
    assert (report["highestNumber"], report["binding"], report["unfinished"]) == (0, None, [])
    assert begin(mine, spec) == []
    assert ledger.report(mine, spec)["binding"] == OTHER_REALM


def test_the_first_explicit_key_binds(mine: Session) -> None:
    settled(mine, apply_spec(1))
    assert ledger.report(mine, apply_spec())["binding"] is None
    settled(mine, apply_spec(2, explicit_key=True))
    other = apply_spec(3, explicit_key=True, coordination_digest=OTHER_REALM)
    assert refusal(mine, other) == "BindingMismatch"
    settled(mine, apply_spec(3, coordination_digest=OTHER_REALM))
    rebind = apply_spec(4, explicit_key=True, coordination_digest=OTHER_REALM, rebind=True)
    settled(mine, rebind)
    assert ledger.report(mine, other)["binding"] == OTHER_REALM


def fence(mine: Session, spec: JobSpec) -> Any:
    assert spec.epoch is not None and spec.plan_digest is not None
    attempt = FencedAttempt(
        spec.operation_id, spec.epoch, spec.plan_digest, spec.execution_not_after
    )
    return ledger.fence(mine, spec, attempt)


def test_a_fence_before_any_start_refuses_the_late_one(mine: Session) -> None:
    spec = apply_spec()
    assert fence(mine, spec) is None
    assert refusal(mine, spec) == "AttemptExists"
    again = fence(mine, spec)
    assert again["state"] == "fenced"
    assert again["startNonce"] is None


def test_a_fence_stops_a_started_attempt(mine: Session) -> None:
    spec = apply_spec()
    begin(mine, spec)
    ledger.intend(mine, spec, 2)
    found = fence(mine, spec)
    assert (found["state"], found["statementRunning"]) == ("started", 2)
    with pytest.raises(Refused) as refused:
        ledger.done(mine, spec, 2)
    assert refused.value.reason == "Fenced"


def test_a_finished_row_stays_finished(mine: Session) -> None:
    spec = apply_spec()
    settled(mine, spec, "failed")
    assert fence(mine, spec)["outcome"] == "failed"
    row = ledger.row_of(mine, spec.operation_id)
    assert row is not None
    assert row["state"] == "finished"


def test_a_ledger_of_another_version_is_left_alone(mine: Session, database: Database) -> None:
    begin(mine, apply_spec())
    database.run("COMMENT ON SCHEMA ptahk IS 'something else'")
    with pytest.raises(Refused) as refused:
        ledger.require(mine)
    assert refused.value.reason == "LedgerVersion"


@pytest.mark.pg(15, 18)
def test_a_dba_makes_the_ledger_for_an_ordinary_role(database: Database) -> None:
    role = database.role(owns=("app",), create_database=True)
    with session(database.url(role), locked=True) as theirs:
        with pytest.raises(Refused) as missing:
            ledger.require(theirs)
        assert missing.value.reason == "LedgerMissing"
        assert "ledger-sql" in str(missing.value.hint)
        for text in ledgersql.postgresql(role.name):
            database.run(text)
        assert ledger.require(theirs) == []
        settled(theirs, apply_spec(explicit_key=True))
        fence(theirs, apply_spec(2))


def test_a_plan_never_makes_the_ledger_and_facts_never_hold_it(
    database: Database, one: Operator
) -> None:
    planned = one.plan("CREATE TABLE public.a (id int)")
    assert planned.result["summary"]["setup"] == [ledger.SETUP_STEP]
    assert database.rows("SELECT to_regnamespace('ptahk') IS NULL") == [(True,)]
    before = one.observe().result["observedFingerprint"]
    with session(database.url(), locked=True) as mine:
        begin(mine, apply_spec())
    assert one.observe().result["observedFingerprint"] == before
