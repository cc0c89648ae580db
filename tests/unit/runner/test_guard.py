"""The one guard before a child starts (C-9.2, C-9.3), and that there is only one."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ptahk.errors import PtahkError
from ptahk.runner import guard
from ptahk.runner.guard import Found, admit, within_deadlines
from ptahk.wire.jobspec import SequenceJob
from tests.kit.sessions import FINGERPRINT, apply_spec

OTHER = "sha256:" + "e" * 64
DISPATCH, EXECUTION = "2026-01-01T00:05:00Z", "2026-01-01T00:15:00.5Z"
NOW = guard.instant("2026-01-01T00:00:00Z")


def spec(**changes: Any) -> Any:
    given = {"dispatch_not_after": DISPATCH, "execution_not_after": EXECUTION}
    return apply_spec(**(given | {"active_deadline_seconds": 900} | changes))


def found(**changes: Any) -> Found:
    given: dict[str, Any] = {
        "target_identity": FINGERPRINT,
        "engine": "postgresql",
        "plan_digest": FINGERPRINT,
        "source_digest": None,
        "snapshot_digest": None,
    }
    return Found(**(given | changes))


def test_everything_as_claimed_is_admitted() -> None:
    admit(spec(), found(), NOW)
    assert within_deadlines(spec(), NOW) == 900.0
    assert within_deadlines(spec(), NOW + 100) == 800.5


@pytest.mark.parametrize(
    ("changes", "reason", "code"),
    [
        ({"target_identity": OTHER}, "TargetMismatch", 3),
        ({"engine": "mysql"}, "EngineMismatch", 2),
        ({"plan_digest": OTHER}, "JobMismatch", 3),
        ({"plan_digest": None}, "JobMismatch", 3),
        ({"snapshot_digest": OTHER}, "JobMismatch", 3),
    ],
)
def test_each_binding_refuses(changes: dict[str, Any], reason: str, code: int) -> None:
    with pytest.raises(PtahkError) as refused:
        admit(spec(), found(**changes), NOW)
    assert (refused.value.reason, refused.value.exit_code) == (reason, code)


@pytest.mark.parametrize("planned", [None, OTHER])
def test_the_plan_of_another_realm_refuses(planned: str | None) -> None:
    with pytest.raises(PtahkError) as refused:
        admit(spec(plan_coordination_digest=planned), found(), NOW)
    assert (refused.value.reason, refused.value.exit_code) == ("CoordinationMismatch", 3)


def test_a_sequence_and_its_history_are_bound() -> None:
    bound = SequenceJob(sequence_digest=FINGERPRINT, history_fingerprint=FINGERPRINT)
    given = spec(family="migration", migration=bound)
    admit(given, found(sequence=(FINGERPRINT, FINGERPRINT)), NOW)
    for other in (None, (OTHER, FINGERPRINT), (FINGERPRINT, OTHER)):
        with pytest.raises(PtahkError) as refused:
            admit(given, found(sequence=other), NOW)
        assert (refused.value.reason, refused.value.exit_code) == ("JobMismatch", 3)


def test_a_declaration_other_than_the_claimed_one_refuses() -> None:
    with pytest.raises(PtahkError) as refused:
        admit(spec(source_digest=OTHER), found(source_digest=FINGERPRINT), NOW)
    assert refused.value.field == "sourceDigest"


def test_a_local_snapshot_that_changed_refuses() -> None:
    with pytest.raises(PtahkError) as refused:
        admit(spec(local_snapshot_digest=OTHER), found(snapshot_digest=FINGERPRINT), NOW)
    assert refused.value.field == "localSnapshotDigest"
    admit(spec(local_snapshot_digest=OTHER), found(snapshot_digest=OTHER), NOW)


@pytest.mark.parametrize(
    ("after_s", "field"), [(300.0, "dispatchNotAfter"), (901.0, "dispatchNotAfter")]
)
def test_an_expired_deadline_refuses(after_s: float, field: str) -> None:
    with pytest.raises(PtahkError) as refused:
        admit(spec(), found(), NOW + after_s)
    assert (refused.value.reason, refused.value.field) == ("DeadlineExceeded", field)


def test_deadlines_out_of_order_refuse() -> None:
    turned = spec(dispatch_not_after=EXECUTION, execution_not_after=DISPATCH)
    with pytest.raises(PtahkError) as refused:
        admit(turned, found(), NOW)
    assert refused.value.field == "executionNotAfter"


def test_a_read_only_job_needs_no_plan_but_keeps_its_target() -> None:
    reading = dataclasses.replace(
        spec(), operation="Observe", plan_digest=None, target_identity=None
    )
    admit(reading, found(plan_digest=None), NOW)
    kept = dataclasses.replace(reading, target_identity=OTHER)
    with pytest.raises(PtahkError) as refused:
        admit(kept, found(plan_digest=None), NOW)
    assert refused.value.reason == "TargetMismatch"


def calls(name: str) -> list[tuple[str, int]]:
    """Every call of ``guard.NAME`` or ``NAME`` in the package, with its place."""
    package = Path(guard.__file__).parent
    out = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func
                last = called.attr if isinstance(called, ast.Attribute) else None
                last = called.id if isinstance(called, ast.Name) else last
                if last == name:
                    out.append((path.name, node.lineno))
    return out


def test_the_guard_has_one_call_site_and_the_repeat_stands_before_the_start() -> None:
    assert [place for place, _ in calls("admit")] == ["__main__.py"]
    repeat = [line for place, line in calls("within_deadlines") if place == "__main__.py"]
    start = [line for place, line in calls("Child") if place == "__main__.py"]
    assert len(repeat) == 1
    assert len(start) == 1
    assert 0 < start[0] - repeat[0] <= 4
