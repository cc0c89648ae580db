"""MySQL and MariaDB to the operations: see ``executor.dialect``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pymysql

from ptahk.errors import OperationFailed, PtahkError
from ptahk.executor.budget import Budget
from ptahk.executor.dialect import Sequences
from ptahk.executor.dialects.mysql import session as sessions
from ptahk.executor.dialects.mysql.driver import code_of, text_of
from ptahk.executor.dialects.mysql.ledger import fence, recent, report
from ptahk.executor.dialects.mysql.session import Session, is_direct, refuse_pooler
from ptahk.wire import dsn
from ptahk.wire.jobspec import JobSpec

__all__ = ["fence", "is_direct", "recent", "refuse_pooler", "report"]

Error = pymysql.MySQLError
Files = Sequence[tuple[str, str]]


def check_url(url: str, name: str, spec: JobSpec, user: str | None) -> None:
    """Read it; what the driver makes of the parts is compared before it connects (``driver``)."""
    dsn.read(url, engine=spec.engine)


def preload() -> None:
    import ptahk.executor.dialects.mysql.planning_operation  # noqa: F401


def connect(url: str, spec: JobSpec, budget: Budget) -> Session:
    return sessions.connect(
        url,
        application_name=spec.application_name,
        connect_timeout_s=spec.policy.connect_timeout_seconds,
        budget=budget,
        make=spec.make or "",
    )


def clock(session: Session) -> float:
    return float(session.query("SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0])


def apply(session: Session, spec: JobSpec, plan: bytes, nonce: str, out: dict[str, Any]) -> None:
    from ptahk.executor.dialects.mysql import applying

    applying.apply(session, spec, plan, nonce, out)


def rebind(session: Session, spec: JobSpec, nonce: str, out: dict[str, Any]) -> None:
    from ptahk.executor.dialects.mysql import applying

    applying.rebind(session, spec, nonce, out)


def bench(
    session: Session, url: str, dev_url: str | None, spec: JobSpec, cache_dir: str | None
) -> Any:
    from ptahk.executor.dialects.mysql.inspecting import Bench

    return Bench(session, dev_url, spec, cache_dir)


def observe(bench: Any, files: Files | None, out: dict[str, Any]) -> None:
    from ptahk.executor.dialects.mysql import planning_operation

    with bench:
        planning_operation.observe(bench, files, out)


def plan(bench: Any, files: Files, out: dict[str, Any], for_proof: bool) -> None:
    from ptahk.executor.dialects.mysql import planning_operation

    with bench:
        planning_operation.plan(bench, files, out, for_proof=for_proof)


def sequences() -> Sequences:
    from ptahk.executor.dialects.mysql import sequences as module

    return cast("Sequences", module)


def unexpected(error: Exception) -> PtahkError:
    failure = OperationFailed(f"the server refused a query: {text_of(error)}", reason="QueryFailed")
    failure.sqlstate = str(code_of(error))  # type: ignore[attr-defined]
    return failure
