"""The one place where a pass does two things: the mark, then the one create."""

import pytest

from ptahk.engine.ports import Conflict, Indeterminate, PortError
from tests.kit.faults import Fate, Faults
from tests.kit.scenario import scenario


@pytest.mark.parametrize(
    ("fate", "creates"),
    [
        (Fate(), True),
        (Fate(after=Indeterminate("lost")), True),
        (Fate(before=Indeterminate("lost")), False),
        (Fate(late=True), False),
        (Fate(before=Conflict("another was faster")), False),
    ],
)
def test_only_a_mark_that_landed_leads_to_a_create(fate: Fate, creates: bool) -> None:
    s = scenario("a")
    s.ask("plan")
    faults = Faults()
    process = s.process(faults)
    process.until("PersistSnapshot")
    before = len(faults.calls)
    marks = [fate]
    faults.fate = lambda call: marks.pop() if call.writes and marks else None
    process.step()
    sent = [call.verb for call in faults.calls[before:]]
    assert sent.count("create_job") == creates


def test_a_condition_says_why_the_create_failed_and_nothing_is_remembered_after() -> None:
    s = scenario("a")
    s.ask("plan")
    faults = Faults()
    process = s.process(faults)
    process.until("PersistSnapshot")
    error = PortError("exceeded quota: no-jobs")
    faults.fate = lambda call: Fate(before=error) if call.verb == "create_job" else None
    assert process.step().step == "CreateUncertain"
    faults.fate = lambda call: None
    process.until("Settle")
    claim = s.status().active_operation
    assert claim is not None and claim.outcome is not None
    assert "exceeded quota: no-jobs" in claim.outcome.message
    assert process.ports.memory.refused == {}
    process.until("ClearClaim")
    said = {item.message for item in s.status().conditions}
    assert any("exceeded quota: no-jobs" in text for text in said), said


@pytest.mark.parametrize("error", [Indeterminate("lost"), Conflict("no"), PortError("quota")])
def test_any_error_of_the_create_is_uncertain_and_never_sent_again(error: PortError) -> None:
    s = scenario("a")
    s.ask("plan")
    faults = Faults()
    process = s.process(faults)
    process.until("PersistSnapshot")
    faults.fate = lambda call: Fate(before=error) if call.verb == "create_job" else None
    assert process.step().step == "CreateUncertain"
    faults.fate = lambda call: None
    claim = s.status().active_operation
    assert claim is not None and claim.dispatch_started
    process.settle()
    names = [call.key.name for call in faults.calls if call.verb == "create_job"]
    assert len(names) == len(set(names)) == 2, "another claim, another name"
    assert s.answer().exit_code == 0
