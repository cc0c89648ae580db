"""What a migration's rows prove of its run, and what an unresolved run keeps from being done."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.engine.families.migration.results import by_rows
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.outcome import (
    Failed,
    NotStarted,
    Outcome,
    Partial,
    StoredOutcome,
    Succeeded,
    Unknown,
)
from ptahk.migrations.history import Row
from tests.kit.fakedb import Died
from tests.kit.scenario import Scenario, applied, command, planned, scenario

REPORTED = StoredOutcome("Unknown", "StatementFailed", "1_a.sql:1:1: it failed")


def file(state: str, applied: int, total: int, running: int | None = None) -> dict[str, Any]:
    return {"version": "1", "file": "1_a.sql", "state": state, "applied": applied,
            "total": total, "running": running}  # fmt: skip


@pytest.mark.parametrize(
    ("ledgers", "files", "total", "kind"),
    [
        (Succeeded(), [file("applied", 2, 2)], 2, Succeeded),
        (Succeeded(), [file("partial", 1, 2)], 2, Unknown),
        (Failed("x"), [file("failed", 0, 2)], 2, Failed),
        (Failed("x"), [], 2, Failed),
        (Partial(2, 4), [file("applied", 2, 2), file("failed", 0, 2)], 4, Partial),
        # The ledger's mark of a failed statement is lifted by a row that says it had no effect.
        (Unknown("x"), [file("partial", 1, 3)], 3, Partial),
        (Unknown("x"), [file("unknown", 1, 3, 2)], 3, Unknown),
        (Partial(3, 4), [file("applied", 4, 4)], 4, Succeeded),
        (NotStarted(), [], 4, NotStarted),
        (Failed("x"), [file("applied", 5, 5), file("partial", 1, 3)], 4, Unknown),
    ],
)
def test_the_outcome_by_the_rows(
    ledgers: Outcome, files: list[dict[str, Any]], total: int, kind: type[Outcome]
) -> None:
    assert isinstance(by_rows(ledgers, {"files": files}, total, REPORTED), kind)


def test_without_rows_the_ledger_stands() -> None:
    assert by_rows(Unknown("x"), None, 3, REPORTED) == Unknown("x")


def stopped() -> Scenario:
    """A sequence whose second file failed outside a transaction: nobody knows what it left."""
    s = scenario("a", "!b", "c", kind=MIGRATION)
    s.database.failing.add("!b")
    answer = command(s, s.process())
    assert (answer.exit_code, answer.outcome) == (4, "Unknown"), answer
    return s


def test_an_unresolved_run_lets_nothing_else_be_planned_or_applied() -> None:
    s = stopped()
    run = s.status().unresolved_run
    assert run is not None and run.outcome == "Unknown"
    assert (s.status().phase, run.file) == ("Unknown", "2_b.sql")
    assert "acknowledge --operation" in s.status().next_step
    s.ask("plan")
    s.process().settle()
    answer = s.answer()
    assert (answer.exit_code, answer.reason) == (3, "HistoryDirty")
    assert s.status().unresolved_run is not None


def test_an_older_plan_is_not_applied_over_an_unresolved_run() -> None:
    s = scenario("a", "!b", kind=MIGRATION)
    process = s.process()
    plan = planned(s, process)
    s.database.failing.add("!b")
    assert applied(s, process, plan).exit_code == 4
    s.approve(plan)
    answer = applied(s, process, plan)
    assert (answer.exit_code, answer.reason) == (3, "RunUnresolved")


def test_a_history_that_shows_it_settled_clears_it() -> None:
    s = stopped()
    key = ("default", "2")
    row = s.database.revisions[key]
    s.database.revisions[key] = type(row)(
        row.version, row.kind, "applied", row.ordinal, row.file, row.checksum, row.token_digest,
        row.tx_mode, row.total, row.total, None, row.claim,
    )  # fmt: skip
    s.database.failing.clear()
    assert command(s, s.process()).exit_code == 0
    assert s.status().unresolved_run is None and s.status().phase == "InSync"


def test_a_gained_file_after_the_approval_is_refused_by_its_name() -> None:
    s = scenario("a", kind=MIGRATION)
    process = s.process()
    plan = planned(s, process)
    s.declare("a", "c")
    answer = applied(s, process, plan)
    assert (answer.exit_code, answer.reason, s.database.effects) == (3, "SequenceChanged", [])
    assert "2_c.sql was added" in answer.message


def test_a_history_that_moved_after_the_approval_is_stale() -> None:
    s = scenario("a", "c", kind=MIGRATION)
    process = s.process()
    plan = planned(s, process)
    other = s.beside("other")
    other.edit(policy={"apply": "Always"})
    assert command(other, other.process()).exit_code == 0
    answer = applied(s, process, plan)
    assert answer.reason in ("StalePlan", "AlreadyConverged")
    assert len(s.database.effects) == 2


def finish(s: Scenario) -> None:
    """The same command, with a person's word where nobody saw a statement end, until it is done."""
    for _ in range(6):
        answer = command(s, s.process())
        if answer.exit_code == 0 and set(s.database.live) == {"a", "!b", "c"}:
            return
        run = s.status().unresolved_run
        if answer.reason in ("HistoryDirty", "OutcomeUnknown") and run is not None:
            word = "applied" if "!b" in s.database.live else "not-applied"
            told = {"action": "settle", "operation": run.operation_id, "as": word}
            settle(s, told)
    raise AssertionError(s.answer())


def settle(s: Scenario, change: dict[str, str]) -> None:
    """A person's word: rows alone, planned, approved and applied like any other."""
    process = s.process()
    request = s.ask("plan", change=change)
    process.settle()
    answer = s.answer()
    assert (answer.id, answer.exit_code) == (request, 0), answer
    assert answer.plan is not None
    s.approve(answer.plan)
    assert applied(s, process, answer.plan).exit_code == 0


def test_a_word_settles_a_run_that_stayed_in_another_database() -> None:
    """C-4.4: the server was left for an older copy, which knows nothing of the run."""
    s = scenario("a", "!b", "c", kind=MIGRATION)
    left = ["effect"]

    def step(order: Any, name: str) -> None:
        if order.spec.operation == "Apply" and left and name == left[0]:
            left.clear()
            raise Died

    s.database.step = step
    assert command(s, s.process()).reason == "OutcomeUnknown"
    run = s.status().unresolved_run
    assert run is not None and run.outcome == "Unknown"
    rows = s.database.revisions
    s.database.identity = "postgresql/2/2"
    s.database.revisions = {key: row for key, row in rows.items() if row.state == "applied"}
    s.database.live.remove("!b")
    assert command(s, s.process()).reason == "RunUnresolved", "another server settles nothing"
    process = s.process()
    s.ask("plan", change={"action": "settle", "operation": "f" * 32, "as": "resolved"})
    process.settle()
    assert s.answer().reason == "NothingToRecord" and s.status().unresolved_run == run
    s.ask("plan", change={"action": "settle", "operation": run.operation_id, "as": "resolved"})
    process.settle()
    assert (s.answer().exit_code, s.status().unresolved_run) == (0, None)
    assert command(s, s.process()).exit_code == 0
    assert s.database.live == ["a", "!b", "c"] and s.status().phase == "InSync"


def steps_of_an_apply() -> list[str]:
    seen: list[str] = []
    s = scenario("a", "!b", "c", kind=MIGRATION)
    s.database.step = lambda order, name: (
        seen.append(name) if order.spec.operation == "Apply" else None
    )
    assert command(s, s.process()).exit_code == 0
    return seen


@pytest.mark.parametrize("number", range(len(steps_of_an_apply())))
@pytest.mark.parametrize("lands", [False, True], ids=["lost", "lands"])
def test_an_executor_that_dies_at_any_step(number: int, lands: bool) -> None:
    s = scenario("a", "!b", "c", kind=MIGRATION)
    left = [number]

    def step(order: Any, name: str) -> None:
        if order.spec.operation != "Apply" or left[0] < 0:
            return
        left[0] -= 1
        if left[0] < 0:
            session = s.database.session
            if lands and session is not None and name == "sent":
                session.land()  # what was sent commits after all
            raise Died

    s.database.step = step
    answer = command(s, s.process())
    assert answer.exit_code in (0, 3, 4, 5), answer
    finish(s)
    found = [statement for _, statement in s.database.effects]
    effects = [statement for statement in found if not statement.startswith("record ")]
    assert len(effects) == len(set(effects)) == 3, effects
    status = s.status()
    assert (status.unresolved_run, status.phase, s.holder()) == (None, "InSync", None)
    assert {row.state for row in s.database.revisions.values()} == {"applied"}


def watching() -> Scenario:
    """A migration that acts by itself, and is in sync."""
    s = scenario(
        "a", "b", kind=MIGRATION, automatic=True, certain=False, policy={"apply": "Always"}
    )
    s.process().settle(patience_s=0)
    assert s.status().phase == "InSync"
    return s


def interval(s: Scenario) -> None:
    s.world.clock.advance(700)
    s.process().settle(patience_s=0)


def test_the_interval_finds_drift_and_sees_it_go() -> None:
    s = watching()
    s.database.live.append("by hand")
    before = len(s.status().history)
    interval(s)
    status = s.status()
    assert [entry.type for entry in status.history[before:]] == ["History"], "one Job an interval"
    assert (status.phase, status.conditions[0].reason) == ("Drifted", "DriftFound")
    s.ask("plan")
    s.process().settle(patience_s=0)
    assert s.status().phase == "Drifted", "a reading that did not look has not seen it go"
    s.database.live.remove("by hand")
    interval(s)
    assert s.status().phase == "InSync"


def test_what_cannot_be_replayed_is_told_and_is_neither_drift_nor_its_absence() -> None:
    s = watching()
    s.database.revisions["other", "1"] = Row("1", "executed", "applied", 1, "1_x.sql")
    s.database.live.append("by hand")
    interval(s)
    status = s.status()
    assert status.phase == "InSync"
    assert "drift is not known (ReplayImpossible: other streams" in status.conditions[0].message
    s.ask("observe")
    s.process().settle(patience_s=0)
    assert s.answer().exit_code == 0, "the history was read; a command looks at what it left"
    assert "drift is not known" in s.status().conditions[0].message


def test_drift_is_forgotten_when_files_ran() -> None:
    s = watching()
    s.database.live.append("by hand")
    interval(s)
    s.declare("a", "b", "c")
    s.process().settle(patience_s=0)
    assert s.database.live == ["a", "b", "by hand", "c"]
    seen = s.status().last_observation
    assert seen is not None and "drift" not in seen
    interval(s)
    assert s.status().phase == "Drifted"
