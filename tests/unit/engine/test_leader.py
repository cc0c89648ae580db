"""Verdicts on the managers' own Lease, without a store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.engine import leader
from ptahk.engine.leader import Held, Ours, Times, Unusable, Vacant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = Times()


def held(by: str = "one", **spec: Any) -> dict[str, Any]:
    found = leader.verdict(None, by, 0.0)
    assert isinstance(found, Vacant)
    document = leader.taken(found, "ptahk-system", by, TIMES, NOW)
    document["metadata"] |= {"uid": "u", "resourceVersion": "5"}
    document["spec"] |= spec
    return document


def test_nothing_and_released_are_vacant() -> None:
    assert leader.verdict(None, "one", 0.0) == Vacant(None)
    released = leader.released(Ours(held()), NOW)
    assert leader.verdict(released, "two", 0.0) == Vacant(released)
    assert released["spec"]["leaseTransitions"] == 1, "the count outlives its holder"


@pytest.mark.parametrize("years", [-10, 0, 10])
def test_stored_times_count_for_nothing(years: int) -> None:
    document = held()
    document["spec"]["renewTime"] = f"{2026 + years}-01-01T00:00:00.000000Z"
    assert leader.verdict(document, "two", 29.9) == Held("one", pytest.approx(0.1))
    assert leader.verdict(document, "two", 30.0) == Vacant(document)


def test_it_is_the_holders_own_duration_that_must_pass() -> None:
    document = held(leaseDurationSeconds=100)
    assert isinstance(leader.verdict(document, "two", 99.0), Held)
    assert isinstance(leader.verdict(document, "two", 100.0), Vacant)


def test_ones_own_is_ours_however_long_it_stood() -> None:
    assert leader.verdict(held(), "one", 1e9) == Ours(held())


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": "OldestEmulationVersion"},
        {"preferredHolder": "two"},
        {"leaseDurationSeconds": None},
        {"leaseDurationSeconds": "30"},
        {"leaseDurationSeconds": True},
        {"leaseDurationSeconds": 0},
        {"leaseDurationSeconds": 10**9},
        {"holderIdentity": 7},
    ],
)
def test_what_is_not_ours_is_never_taken(spec: dict[str, Any]) -> None:
    assert isinstance(leader.verdict(held(**spec), "two", 1e9), Unusable)


def test_taking_and_renewing_keep_unknown_fields() -> None:
    document = held(unknown={"kept": True})
    later = NOW + timedelta(seconds=40)
    taken = leader.taken(Vacant(document), "ptahk-system", "two", TIMES, later)
    assert taken["spec"]["unknown"] == {"kept": True}
    assert taken["spec"]["leaseTransitions"] == 2
    assert taken["spec"]["acquireTime"] == taken["spec"]["renewTime"]
    again = leader.renewed(Ours(taken), TIMES, later + timedelta(seconds=5))
    assert again["spec"]["acquireTime"] == taken["spec"]["acquireTime"]
    assert again["spec"]["renewTime"] > taken["spec"]["renewTime"]
    assert again["metadata"]["resourceVersion"] == "5", "the precondition of the write"


@pytest.mark.parametrize(
    "values",
    [(30, 15.0, 15.0, 10.0), (30, 20.0, 3.0, 10.0), (0, 0.0, 0.0, 0.0), (30, 15.0, 0.0, 10.0)],
)
def test_times_that_let_two_lead_are_refused(values: tuple[int, float, float, float]) -> None:
    with pytest.raises(ValueError, match="_s must"):
        Times(*values)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.dictionaries(st.sampled_from(
                        ["spec", "holderIdentity", "leaseDurationSeconds", "strategy", "x"]),
                        inner, max_size=4), max_leaves=8))  # fmt: skip
def test_no_document_raises(value: Any) -> None:
    document = value if isinstance(value, dict) else {"spec": value}
    leader.verdict(document, "one", 1.0)
