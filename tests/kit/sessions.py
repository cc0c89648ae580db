"""Sessions of the executor's own kind, inside the test's process."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

from ptahk.executor.budget import Budget
from ptahk.executor.dialects.mysql import session as mysql
from ptahk.executor.dialects.postgres.session import Session, connect
from ptahk.wire.jobspec import JobPolicy, JobSpec
from tests.kit.operations import REALM, at

FINGERPRINT = "sha256:" + "f" * 64


@contextlib.contextmanager
def _ending(made: Any, locked: bool) -> Iterator[None]:
    try:
        if locked:
            made.lock(5)
        yield
    finally:
        made.close()


@contextlib.contextmanager
def session(url: str, *, locked: bool = False, budget_s: float = 60) -> Iterator[Session]:
    """A session that ends with the block."""
    made = connect(
        url,
        application_name=f"ptahk/test/{secrets.token_hex(6)}",
        connect_timeout_s=10,
        budget=Budget(budget_s),
    )
    with _ending(made, locked):
        yield made


@contextlib.contextmanager
def my_session(
    url: str, *, locked: bool = False, budget_s: float = 60, make: str = ""
) -> Iterator[mysql.Session]:
    """The same on MySQL and MariaDB."""
    made = mysql.connect(
        url,
        application_name=f"ptahk/test/{secrets.token_hex(6)}",
        connect_timeout_s=10,
        budget=Budget(budget_s),
        make=make,
    )
    with _ending(made, locked):
        yield made


def apply_spec(number: int = 1, **changes: Any) -> JobSpec:
    """An Apply whose plan nobody reads."""
    given: dict[str, Any] = {
        "operation": "Apply",
        "family": "schema",
        "engine": "postgresql",
        "operation_id": secrets.token_hex(16),
        "attempt": 1,
        "job_name": "ptahk-op-apply-1",
        "holder": REALM,
        "store_uid": "store",
        "store_kind": "local",
        "resource_uid": "resource",
        "coordination_digest": REALM,
        "dispatch_not_after": at(30),
        "execution_not_after": at(60),
        "active_deadline_seconds": 60,
        "termination_grace_period_seconds": 9,
        "epoch": f"{number}.{secrets.token_hex(8)}",
        "known_number": number,
        "target_identity": FINGERPRINT,
        "server_identity": "postgresql/1/2",
        "plan_digest": FINGERPRINT,
        "plan_coordination_digest": changes.get("coordination_digest", REALM),
        "observed_fingerprint": FINGERPRINT,
        "desired_fingerprint": FINGERPRINT,
        "scope": ("public",),
        "inputs": {"plan.json.gz": FINGERPRINT},
        "policy": JobPolicy(),
    }
    return JobSpec(**(given | changes))
