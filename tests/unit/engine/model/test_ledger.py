"""The ledger's row is the verdict; a frame only explains it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ptahk.engine.model.ledger import database_of, frozen_by, judge
from ptahk.engine.model.outcome import StoredOutcome, store
from ptahk.engine.model.status import Status, render

UNKNOWN = StoredOutcome("Unknown", "ConnectionLost", "the session ended")
SUCCESS = StoredOutcome("Succeeded", "Succeeded")


def row(**changes: Any) -> dict[str, Any]:
    base = {
        "state": "started",
        "startNonce": "n",
        "statementsTotal": 3,
        "statementsDone": 0,
        "statementRunning": None,
        "outcome": None,
    }
    return base | changes


@pytest.mark.parametrize(
    ("found", "reported", "kind"),
    [
        (None, UNKNOWN, "NotStarted"),
        (row(state="fenced", startNonce=None), UNKNOWN, "NotStarted"),
        (None, SUCCESS, "Unknown"),
        (row(), UNKNOWN, "Failed"),
        (row(), SUCCESS, "Failed"),
        (row(statementsDone=1), UNKNOWN, "Partial"),
        (row(statementsDone=3), UNKNOWN, "Succeeded"),
        (row(state="fenced", statementsDone=2), UNKNOWN, "Partial"),
        (row(statementRunning=1), UNKNOWN, "Unknown"),
        (row(statementsDone=2, statementRunning=3), UNKNOWN, "Unknown"),
        (row(state="finished", outcome="applied", statementsDone=3), SUCCESS, "Succeeded"),
        (row(state="finished", outcome="applied", statementsDone=3), UNKNOWN, "Succeeded"),
        (row(state="finished", outcome="failed"), UNKNOWN, "Failed"),
        (row(state="finished", outcome="failed", statementsDone=2), UNKNOWN, "Partial"),
        (row(state="finished", outcome="failed", statementRunning=1), UNKNOWN, "Unknown"),
        (row(statementsDone=4), UNKNOWN, "Unknown"),
        (row(statementsTotal=0), UNKNOWN, "Failed"),
        (row(statementsTotal=0, state="finished", outcome="applied"), UNKNOWN, "Succeeded"),
    ],
)
def test_what_a_row_proves(
    found: dict[str, Any] | None, reported: StoredOutcome, kind: str
) -> None:
    assert store(judge(found, reported)).type == kind


def test_a_stale_refusal_keeps_its_reason() -> None:
    stale = StoredOutcome("NotStarted", "StalePlan", "the database changed")
    assert store(judge(None, stale)).reason == "StalePlan"


def test_a_refusal_of_the_executor_keeps_its_reason_once_nothing_ran() -> None:
    refused = StoredOutcome("Unknown", "UnfinishedAttempt", "an attempt has not been settled")
    outcome = store(judge(None, refused))
    assert (outcome.type, outcome.reason) == ("NotStarted", "UnfinishedAttempt")
    assert refused.message in outcome.message
    assert store(judge(None, UNKNOWN)).reason == "NotStarted"


def test_a_failure_outside_a_transaction_is_told_in_the_server_s_words() -> None:
    failed = StoredOutcome("Unknown", "StatementFailed", "canceling statement")
    outcome = store(judge(row(state="finished", outcome="failed", statementRunning=1), failed))
    assert "failed" in outcome.message and "canceling statement" in outcome.message
    assert "was interrupted" in store(judge(row(statementRunning=1), failed)).message


def test_counts_are_told() -> None:
    outcome = store(judge(row(statementsDone=2), UNKNOWN))
    assert (outcome.done, outcome.total) == (2, 3)


def head(**ledger: Any) -> dict[str, Any]:
    """What every result document says first."""
    whole = {
        "present": True, "writable": True, "creatable": True, "highestNumber": 3, "binding": None,
        "unfinished": [], "frozen": [],
    }  # fmt: skip
    return {"serverIdentity": "s", "targetIdentity": "t", "ledger": whole | ledger}


NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = "x" * 1_000_000


def test_what_a_frame_says_of_the_database_is_kept_within_bounds() -> None:
    """C-5.2 of the store: whatever a frame holds, a status stays small."""
    said = head(binding=LONG, unfinished=[{"operationId": LONG}])
    database = database_of(said, NOW, None)
    assert database is not None
    finding = {"reason": LONG, "message": LONG, "number": 9, "operationId": LONG}
    frozen = frozen_by(head(frozen=[finding]), NOW, Status("uid"))
    assert frozen is not None and frozen.number == 9
    assert len(str(render(Status("uid", database=database, frozen=frozen)))) < 4096
    again = frozen_by(head(frozen=[finding]), NOW, Status("uid", thawed=9))
    assert again is None
    foreign = finding | {"reason": "ForeignCluster"}
    kept = frozen_by(head(frozen=[foreign]), NOW, Status("uid"))
    assert kept is not None and kept.operation_id is not None
    thawed = Status("uid", thawed_operations=(kept.operation_id,))
    assert frozen_by(head(frozen=[foreign]), NOW, thawed) is None, (
        "as it is kept, it is known again"
    )


@pytest.mark.parametrize("wrong", [7, ["a"], {"key": "b"}])
def test_a_binding_that_is_no_text_says_nothing_of_the_database(wrong: Any) -> None:
    assert database_of(head(binding=wrong), NOW, None) is None
    assert database_of(head(unfinished=[{"operationId": wrong}]), NOW, None) is None
