"""What a person changes while an Apply runs (C-3.5, C-3.6, C-6.5), on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.kit.chartbed import Start
from tests.kit.podbed import Bed
from tests.kit.waiting import until

BEFORE = "CREATE TABLE app.orders (id int);"
AFTER = "CREATE SCHEMA app; CREATE TABLE app.orders (id int, more int);"
LATER = "CREATE SCHEMA app; CREATE TABLE app.orders (id int, more int, most int);"
DEADLINE_S = 150
LEASE_S = DEADLINE_S + 60
EDITS: dict[str, Callable[[Bed], Any]] = {
    "spec": lambda bed: bed.change(desired={"inline": LATER}),
    "suspend": lambda bed: bed.change(suspend=True),
    "delete": lambda bed: bed.kubectl("delete", "ptahschema", "db", "--wait=false"),
    "deadline": lambda bed: bed.change(execution={"activeDeadlineSeconds": 900}),
}


@pytest.fixture
def held(beds: Callable[[], Bed]) -> Iterator[tuple[dict[str, Bed], ExitStack]]:
    """A database for each edit, with a lock that keeps its Apply waiting."""
    with ExitStack() as locks:
        made = {edit: beds() for edit in EDITS}
        for bed in made.values():
            bed.database.run(BEFORE, bed.role)
            holding = locks.enter_context(bed.database.connect())
            locks.enter_context(holding.transaction())
            holding.execute("LOCK TABLE app.orders IN ACCESS SHARE MODE")
        yield made, locks


def columns(bed: Bed) -> list[str]:
    rows = bed.database.rows(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'app.orders'::regclass"
        " AND attnum > 0 ORDER BY attnum"
    )
    return [name for (name,) in rows]


def renewed(bed: Bed, since: str) -> bool:
    lease = bed.lease()
    assert lease is not None, "the realm is kept"
    assert lease["spec"]["leaseDurationSeconds"] == LEASE_S, "the claim's, never the spec's"
    return bool(lease["spec"]["renewTime"] != since)


def test_the_apply_is_read_and_accounted_for(
    start: Start, held: tuple[dict[str, Bed], ExitStack]
) -> None:
    made, locks = held
    start().ready()
    for bed in made.values():
        bed.make(
            text=AFTER,
            interval="0",
            policy={"lockTimeout": "10m"},
            execution={"activeDeadlineSeconds": DEADLINE_S},
        )
    claims, times = {}, {}
    for edit, bed in made.items():
        until(
            lambda bed=bed: bed.claim().get("type") == "Apply" and bed.claim().get("jobUid"),
            "the Apply",
            180,
        )
        until(bed.waits, "its statement to wait", 60)
        claims[edit] = bed.claim()["operationId"]
        lease = bed.lease()
        assert lease is not None
        times[edit] = lease["spec"]["renewTime"]
        EDITS[edit](bed)
    # With the spec's new deadline the Lease would be another at its next renewal.
    until(lambda: renewed(made["deadline"], times["deadline"]), "a renewal", LEASE_S / 2)
    for edit, bed in made.items():
        assert bed.claim()["operationId"] == claims[edit], edit
        assert bed.claim()["leaseDurationSeconds"] == LEASE_S
        assert bed.jobs().count("apply") == 1 and columns(bed) == ["id"]
        assert renewed(bed, "")
    assert made["delete"].stored()["metadata"]["deletionTimestamp"]
    locks.close()

    until(lambda: not made["delete"].exists(), "the deletion, after proof and release", 120)
    until(lambda: made["suspend"].status()["phase"] == "Suspended", "rest", 120)
    for edit in ("spec", "deadline"):
        made[edit].ready()
    for edit, bed in made.items():
        until(lambda bed=bed: bed.lease() is None, "the release", 60)
        ledger = bed.ledger()
        assert ledger[0] == (claims[edit], "finished"), edit
        assert len(ledger) == (2 if edit == "spec" else 1), edit
        assert columns(bed) == (["id", "more", "most"] if edit == "spec" else ["id", "more"])
        if edit != "delete":
            entry = next(e for e in bed.history() if e["operationId"] == claims[edit])
            assert entry["settled"]["type"] == "Succeeded", entry
