"""The attempt ledger's refusals, one by one, on a real server (C-6.11 to C-6.16)."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ptahk.errors import Refused
from ptahk.executor.dialects.mysql import ledger as my_ledger
from ptahk.executor.dialects.postgres import ledger as pg_ledger
from ptahk.executor.planning.document import Statement
from ptahk.wire import ledgersql
from ptahk.wire.jobspec import FencedAttempt, JobSpec
from tests.kit.databases import Database
from tests.kit.operations import OTHER_REALM, REALM, at, operator
from tests.kit.sessions import apply_spec, my_session, session
from tests.kit.targets import IMPLICIT_COMMIT, SCHEMAS, Target


@dataclass
class Book:
    """One database's ledger, on a session that holds the lock."""

    session: Any
    ledger: ModuleType
    per_statement: bool = False
    """DDL commits by itself, so each statement has a row."""

    def begin(self, spec: JobSpec) -> list[str]:
        notes: list[str] = self.ledger.begin(self.session, spec, secrets.token_hex(16), 3)
        return notes

    def statement(self, index: int) -> Any:
        """What a statement is called by."""
        if not self.per_statement:
            return index
        return Statement(index, "X", "Test", "table x", "safe", "", "", index, False, None)

    def row(self, spec: JobSpec) -> Any:
        found = self.ledger.row_of(self.session, spec.operation_id)
        assert found is not None
        return found

    def report(self, spec: JobSpec) -> Any:
        return self.ledger.report(self.session, spec)

    def refusal(self, spec: JobSpec) -> str:
        with pytest.raises(Refused) as refused:
            self.begin(spec)
        assert not self.session.in_transaction
        found = self.ledger.row_of(self.session, spec.operation_id)
        assert found is None or refused.value.reason == "AttemptExists"
        return refused.value.reason

    def settled(self, spec: JobSpec, outcome: str = "applied") -> None:
        self.begin(spec)
        self.ledger.done(self.session, spec, self.statement(3))
        self.ledger.finish(self.session, spec, outcome, REALM)

    def fence(self, spec: JobSpec) -> Any:
        assert spec.epoch is not None and spec.plan_digest is not None
        attempt = FencedAttempt(
            spec.operation_id, spec.epoch, spec.plan_digest, spec.execution_not_after
        )
        return self.ledger.fence(self.session, spec, attempt)


@pytest.fixture
def mine(target: Target) -> Iterator[Book]:
    each = target.can(IMPLICIT_COMMIT)
    opened: Any = (my_session if each else session)(target.url(), locked=True)
    with opened as made:
        yield Book(made, my_ledger if each else pg_ledger, each)


def test_the_first_attempt_makes_the_ledger(mine: Book) -> None:
    assert mine.ledger.require(mine.session) == [mine.ledger.SETUP_STEP]
    spec = apply_spec()
    assert mine.begin(spec) == [mine.ledger.SETUP_STEP]
    row = mine.row(spec)
    assert (row["state"], row["number"], row["statementsDone"]) == ("started", 1, 0)
    assert row["serverIdentity"] == str(mine.session.identity)
    assert mine.ledger.require(mine.session) == []


def test_an_operation_starts_once(mine: Book) -> None:
    spec = apply_spec()
    mine.settled(spec)
    assert mine.refusal(spec) == "AttemptExists"


@pytest.mark.parametrize("number", [1, 2])
def test_a_number_that_is_not_higher_is_out_of_date(mine: Book, number: int) -> None:
    mine.settled(apply_spec(2))
    assert mine.refusal(apply_spec(number)) == "StaleEpoch"
    assert mine.begin(apply_spec(3)) == []


def test_another_stores_numbers_are_history(mine: Book) -> None:
    mine.settled(apply_spec(7, store_uid="other"))
    assert mine.report(apply_spec())["highestNumber"] == 7
    assert mine.begin(apply_spec(1)) == []


def test_the_databases_clock_judges_the_deadline(mine: Book) -> None:
    late = apply_spec(execution_not_after=at(-1), dispatch_not_after=at(-2))
    assert mine.refusal(late) == "DeadlineExceeded"


def test_the_deadline_is_judged_at_the_very_insert(
    mine: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mine.ledger, "_refuse_start", lambda *_: None)
    late = apply_spec(execution_not_after=at(-1), dispatch_not_after=at(-2))
    assert mine.refusal(late) == "DeadlineExceeded"


def test_a_start_that_is_refused_at_its_insert_leaves_nothing(
    mine: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before the insert is in one transaction with it."""
    monkeypatch.setattr(mine.ledger, "_refuse_start", lambda *_: None)
    late = apply_spec(explicit_key=True, execution_not_after=at(-1), dispatch_not_after=at(-2))
    assert mine.refusal(late) == "DeadlineExceeded"
    assert mine.report(apply_spec())["binding"] is None


def test_what_time_is_left_is_the_databases_word(mine: Book) -> None:
    assert mine.session.budget.remaining() > 50
    mine.begin(apply_spec(execution_not_after=at(20)))
    assert 10 < mine.session.budget.remaining() < 20.1


def test_a_number_that_the_store_does_not_know_freezes(mine: Book) -> None:
    mine.settled(apply_spec(5))
    behind = apply_spec(9, known_number=3)
    # Its own claim's number counts as known; the ledger is not ahead of that.
    assert mine.report(behind)["frozen"] == []
    ahead = apply_spec(4, known_number=4)
    (finding,) = mine.report(ahead)["frozen"]
    assert (finding["reason"], finding["number"]) == ("UnknownNumber", 5)


def test_a_number_given_twice_freezes(mine: Book) -> None:
    lost = apply_spec(5)
    mine.settled(lost)
    again = apply_spec(5, epoch=lost.epoch)
    assert mine.report(again)["frozen"] == []
    restored = dataclasses.replace(again, epoch="5." + "f" * 16)
    (finding,) = mine.report(restored)["frozen"]
    assert (finding["reason"], finding["operationId"]) == ("UnknownNumber", lost.operation_id)


def test_another_clusters_open_attempt_freezes_unless_shared(mine: Book) -> None:
    foreign = apply_spec(5, store_uid="cluster", store_kind="cluster")
    mine.begin(foreign)
    spec = apply_spec(2)
    (finding,) = mine.report(spec)["frozen"]
    assert finding["reason"] == "ForeignCluster"
    assert mine.refusal(spec) == "Frozen"
    mine.settled(apply_spec(2, shared_realm=True))
    known = (foreign.operation_id,)
    mine.settled(apply_spec(3, store_uid="third", thawed=known))
    mine.begin(apply_spec(1, store_uid="other", store_kind="cluster", thawed=known))
    late = apply_spec(4, store_uid="third", thawed=known)
    assert mine.refusal(late) == "Frozen", "the word was on another attempt"


def test_an_open_attempt_of_an_unknown_local_store(mine: Book, target: Target) -> None:
    other = apply_spec(1, store_uid="other")
    mine.begin(other)
    assert mine.refusal(apply_spec(2)) == "UnfinishedAttempt"
    target.run(f"UPDATE {target.attempt} SET not_after = TIMESTAMP '2020-01-01 00:00:00'")
    (note,) = mine.begin(apply_spec(3))
    assert other.operation_id in note
    row = mine.row(other)
    assert row["state"] == "fenced"


def test_rows_of_a_copy_are_history(mine: Book, target: Target) -> None:
    mine.begin(apply_spec(9, explicit_key=True))
    for table in (target.attempt, target.attempt.replace("attempt", "binding")):
        target.run(f"UPDATE {table} SET server_identity = 'elsewhere/1/1'")
    spec = apply_spec(1, explicit_key=True, coordination_digest=OTHER_REALM)
    report = mine.report(spec)
    assert (report["highestNumber"], report["binding"], report["unfinished"]) == (0, None, [])
    assert mine.begin(spec) == []
    assert mine.report(spec)["binding"] == OTHER_REALM


def test_the_first_explicit_key_binds(mine: Book) -> None:
    mine.settled(apply_spec(1))
    assert mine.report(apply_spec())["binding"] is None
    mine.settled(apply_spec(2, explicit_key=True))
    other = apply_spec(3, explicit_key=True, coordination_digest=OTHER_REALM)
    assert mine.refusal(other) == "BindingMismatch"
    mine.settled(apply_spec(3, coordination_digest=OTHER_REALM))
    rebind = apply_spec(4, explicit_key=True, coordination_digest=OTHER_REALM, rebind=True)
    mine.settled(rebind)
    assert mine.report(other)["binding"] == OTHER_REALM


def test_a_fence_before_any_start_refuses_the_late_one(mine: Book) -> None:
    spec = apply_spec()
    assert mine.fence(spec) is None
    assert mine.refusal(spec) == "AttemptExists"
    again = mine.fence(spec)
    assert again["state"] == "fenced"
    assert again["startNonce"] is None


def test_a_fence_stops_a_started_attempt(mine: Book) -> None:
    spec = apply_spec()
    mine.begin(spec)
    mine.ledger.intend(mine.session, spec, mine.statement(2))
    found = mine.fence(spec)
    # Where each statement has a row, the fence itself sees that this one took no effect.
    running = None if mine.per_statement else 2
    assert (found["state"], found["statementRunning"]) == ("started", running)
    with pytest.raises(Refused) as refused:
        mine.ledger.done(mine.session, spec, mine.statement(2))
    assert refused.value.reason == "Fenced"


def test_a_finished_row_stays_finished(mine: Book) -> None:
    spec = apply_spec()
    mine.settled(spec, "failed")
    assert mine.fence(spec)["outcome"] == "failed"
    row = mine.row(spec)
    assert row["state"] == "finished"


def test_a_ledger_of_another_version_is_left_alone(mine: Book, target: Target) -> None:
    mine.begin(apply_spec())
    if target.can(SCHEMAS):
        target.run("COMMENT ON SCHEMA ptahk IS 'something else'")
    else:
        target.run(f"ALTER TABLE {target.attempt} COMMENT 'something else'")
    with pytest.raises(Refused) as refused:
        mine.ledger.require(mine.session)
    assert refused.value.reason == "LedgerVersion"


@pytest.mark.pg(15, 18)
def test_a_dba_makes_the_ledger_for_an_ordinary_role(database: Database) -> None:
    role = database.role(owns=("app",), create_database=True)
    with session(database.url(role), locked=True) as theirs:
        with pytest.raises(Refused) as missing:
            pg_ledger.require(theirs)
        assert missing.value.reason == "LedgerMissing"
        assert "ledger-sql" in str(missing.value.hint)
        for text in ledgersql.postgresql(role.name):
            database.run(text)
        assert pg_ledger.require(theirs) == []
        book = Book(theirs, pg_ledger)
        book.settled(apply_spec(explicit_key=True))
        book.fence(apply_spec(2))


def test_a_plan_never_makes_the_ledger_and_facts_never_hold_it(
    target: Target, mine: Book, tmp_path: Path
) -> None:
    mine.session.close()
    with operator(target.url(), tmp_path, defaults=target.settings) as here:
        planned = here.plan(f"CREATE TABLE {target.table('a')} (id int)")
        assert planned.result["summary"]["setup"] == [mine.ledger.SETUP_STEP]
        assert not target.has_ledger()
        before = here.observe().result["observedFingerprint"]
        assert here.apply(planned).exit_code == 0 and target.has_ledger()
        target.run(f"DROP TABLE {target.table('a')}")
        assert here.observe().result["observedFingerprint"] == before
