"""One case per micro-change of tables and what belongs to them, in both directions."""

from __future__ import annotations

import pytest

from tests.executor.kinds_cases import Case
from tests.executor.planner_cases import CASES, FROM_18
from tests.executor.planning_kit import Bench, bench, shared_bench

__all__ = ["bench", "shared_bench"]


@pytest.mark.pg(15, 17, 18)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_case(bench: Bench, case: Case, back: bool) -> None:
    """Plan, apply, plan empty; or the refusal that the case names."""
    _try(bench, case, back)


@pytest.mark.pg(18)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("case", FROM_18, ids=lambda case: case.name.replace(" ", "-"))
def test_case_from_18_on(bench: Bench, case: Case, back: bool) -> None:
    """The same for what older servers do not have."""
    if bench.version >= 18:
        _try(bench, case, back)


def _try(bench: Bench, case: Case, back: bool) -> None:
    old, new = (case.new, case.old) if back else (case.old, case.new)
    refused = case.back_refused if back else case.refused
    bench.live.run(old)
    bench.live.run(case.rows)
    bench.declared.run(new)
    made = bench.converge()
    assert [refusal.reason for refusal in made.refusals][:1] == ([refused] if refused else [])
    for statement in made.statements:
        assert statement.severity == "safe" or statement.reason
