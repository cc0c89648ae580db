"""An import that was planned, by the executor's own commands: only what was planned is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptahk.migrations import importing
from ptahk.wire.jobspec import SequenceJob
from tests.executor.test_foreign_history import make
from tests.kit.operations import Done, Operator
from tests.kit.sequences import Sequences
from tests.kit.targets import Target

FILES = [("1_a.sql", "CREATE TABLE t (a int);\n"), ("2_b.sql", "CREATE TABLE u (a int);\n")]
CHANGE = importing.change("golang-migrate", accept_unverified=True)


@pytest.fixture
def operator(target: Target, tmp_path: Path) -> Operator:
    defaults = {**target.settings, "family": "migration"}
    return Operator(target.url(), tmp_path, defaults=defaults)


def plan(operator: Operator, **more: Any) -> Done:
    job = SequenceJob(change=CHANGE, **more)
    return operator.start("History", source=FILES, migration=job).wait()


def apply(operator: Operator, planned: Done) -> Done:
    result = planned.result
    job = SequenceJob(
        change=CHANGE,
        sequence_digest=result["sequence"]["digest"],
        history_fingerprint=result["history"]["fingerprint"],
    )
    return operator.start(
        "Apply", source=FILES, plan=planned.plan_bytes, migration=job,
        target_identity=planned.frame["targetIdentity"], server_identity=result["serverIdentity"],
    ).wait()  # fmt: skip


@pytest.mark.parametrize(
    "moved",
    [
        "UPDATE schema_migrations SET version = 2",
        "UPDATE schema_migrations SET dirty = true",
        "DROP TABLE schema_migrations",
    ],
)
def test_a_table_that_moved_after_the_plan_is_not_imported(
    target: Target, operator: Operator, moved: str
) -> None:
    make(Sequences(target), "golang-migrate")
    target.run("INSERT INTO schema_migrations VALUES (1, false)")
    planned = plan(operator)
    assert planned.result["sequence"]["action"] == "import", planned.frame
    target.run(moved)
    refused = apply(operator, planned)
    assert refused.reason == "StalePlan", refused.frame
    assert not target.has_ledger(), "nothing was written"
    again = plan(operator)
    if "version" in moved:
        assert apply(operator, again).result["result"] == "applied"
        assert target.attempts() == [("finished", "applied", 2)]
    else:
        assert again.reason in ("ForeignHistoryRefused", "InvalidSource"), again.frame


def test_rows_and_ledger_are_one_transaction_and_it_is_done_once(
    target: Target, operator: Operator
) -> None:
    make(Sequences(target), "golang-migrate")
    target.run("INSERT INTO schema_migrations VALUES (1, false)")
    planned = plan(operator)
    done = apply(operator, planned)
    assert (done.exit_code, done.result["result"]) == (0, "applied"), done.frame
    assert target.attempts() == [("finished", "applied", 1)]
    assert apply(operator, planned).reason == "StalePlan"
    assert plan(operator).reason == "NothingToRecord"
