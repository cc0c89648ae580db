"""PostgreSQL to the operations: see ``executor.dialect``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import psycopg
import psycopg.conninfo

from ptahk.errors import OperationFailed, PtahkError, UsageError
from ptahk.executor.budget import Budget
from ptahk.executor.dialect import Sequences
from ptahk.executor.dialects.postgres import session as sessions
from ptahk.executor.dialects.postgres.applying import apply, rebind
from ptahk.executor.dialects.postgres.ledger import fence, recent, report
from ptahk.executor.dialects.postgres.session import Session, first_line, refuse_pooler
from ptahk.wire import dsn
from ptahk.wire.jobspec import JobSpec

__all__ = ["apply", "fence", "rebind", "recent", "refuse_pooler", "report"]

Error = psycopg.Error
Files = Sequence[tuple[str, str]]


def check_url(url: str, name: str, spec: JobSpec, user: str | None) -> None:
    """Compare our reading with libpq's.

    :param name: the environment variable that the URL stood in.
    :param user: whom libpq would take where the URL names nobody.
    :raises UsageError: ``InvalidUrl``.
    """
    parsed = dsn.read(url, engine=spec.engine, os_user=user)
    try:
        theirs = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise UsageError(
            f"libpq cannot read the database URL ({name})", reason="InvalidUrl"
        ) from None
    differing = parsed.disagreements(theirs)
    if differing:
        raise UsageError(
            f"libpq reads the database URL otherwise than we do ({name}: "
            f"{', '.join(differing)}): refused",
            reason="InvalidUrl",
        )


def preload() -> None:
    import ptahk.executor.dialects.postgres.planning_operation  # noqa: F401


def connect(url: str, spec: JobSpec, budget: Budget) -> Session:
    return sessions.connect(
        url,
        application_name=spec.application_name,
        connect_timeout_s=spec.policy.connect_timeout_seconds,
        budget=budget,
    )


def clock(session: Session) -> float:
    return float(session.query("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0])


def is_direct(session: Session) -> bool:
    return session.connection.info.backend_pid == session.pid


def bench(
    session: Session, url: str, dev_url: str | None, spec: JobSpec, cache_dir: str | None
) -> Any:
    from ptahk.executor.dialects.postgres.inspecting import Bench

    return Bench(session, url, dev_url, spec, cache_dir)


def observe(bench: Any, files: Files | None, out: dict[str, Any]) -> None:
    from ptahk.executor.dialects.postgres import planning_operation

    planning_operation.observe(bench, files, out)


def plan(bench: Any, files: Files, out: dict[str, Any], for_proof: bool) -> None:
    from ptahk.executor.dialects.postgres import planning_operation

    planning_operation.plan(bench, files, out, for_proof=for_proof)


def sequences() -> Sequences:
    from ptahk.executor.dialects.postgres import sequences as module

    return cast("Sequences", module)


def unexpected(error: Exception) -> PtahkError:
    failure = OperationFailed(
        f"the server refused a query: {first_line(error)}", reason="QueryFailed"
    )
    failure.sqlstate = getattr(error, "sqlstate", None)  # type: ignore[attr-defined]
    return failure
