"""What an uninstall waits for (``ptahk census --unsettled``)."""

from __future__ import annotations

from typing import Any

import pytest

from ptahk.commands import census


def realm(lease: Any = None, operation: str | None = None, *, owes: bool = False) -> dict[str, Any]:
    """A realm of the document, with one claimant at rest and this one."""
    rest = {"activeOperation": None, "pendingObservation": False}
    busy = {"activeOperation": operation, "pendingObservation": owes}
    return {"lease": lease, "claimants": [rest, busy]}


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        (realm(), False),
        (realm(operation="Observe"), False),
        (realm(operation="Apply"), True),
        (realm(operation="Prove", owes=True), True),
        (realm(owes=True), True),
        (realm(lease={"holder": "x"}), True),
    ],
)
def test_only_what_may_change_a_database_is_waited_for(found: dict[str, Any], waits: bool) -> None:
    assert census.busy(found) is waits
