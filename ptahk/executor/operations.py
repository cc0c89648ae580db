"""The commands: observe, plan, apply, prove. One session each, settled here (C-9.6, C-9.7)."""

from __future__ import annotations

import base64
import contextlib
import os
import threading
import time
from typing import Any

import psycopg

from ptahk.errors import OperationFailed, PtahkError, Refused
from ptahk.executor.budget import Budget
from ptahk.executor.dialects.postgres import applying, ledger
from ptahk.executor.dialects.postgres.session import (
    ConnectionLost,
    Session,
    connect,
    first_line,
    refuse_pooler,
)
from ptahk.executor.sources import files_of
from ptahk.wire import jobspec
from ptahk.wire.jobspec import JobSpec


def run(
    command: dict[str, Any],
    spec: JobSpec,
    budget: Budget,
    url: str,
    dev_url: str | None,
    out: dict[str, Any],
) -> None:
    """Run one command; fills the result document.

    :raises PtahkError: why it ended short; ``out`` keeps what was learned by then.
    """
    if spec.operation != "Apply":
        # The planner's modules, while the server answers who and where we are.
        threading.Thread(target=_import_planner, daemon=True).start()
    session = connect(
        url,
        application_name=spec.application_name,
        connect_timeout_s=spec.policy.connect_timeout_seconds,
        budget=budget,
    )
    try:
        _settle(session, spec, url, out)
        _dispatch(session, command, spec, url, dev_url, out)
    except psycopg.Error as error:
        raise _unexpected(error) from error
    except ConnectionLost:
        if out.get("mutationStarted"):
            out["result"] = "unknown"
        raise
    finally:
        _report_ledger(session, spec, out)
        session.close()


def _import_planner() -> None:
    import ptahk.executor.dialects.postgres.planning_operation  # noqa: F401


def _settle(session: Session, spec: JobSpec, url: str, out: dict[str, Any]) -> None:
    """Lock, pooler, identity: everything before the first statement of the operation (C-9.7)."""
    identity = session.identity
    out["serverIdentity"] = str(identity)
    out["serverVersion"] = identity.version
    out["timeline"] = identity.timeline
    before = time.time()
    clock = session.query("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0]
    out["clockOffsetSeconds"] = round(clock - (before + time.time()) / 2, 3)
    timeout_s = spec.policy.connect_timeout_seconds
    if session.connection.info.backend_pid != session.pid:
        refuse_pooler(session, url, timeout_s)  # before the lock, which a pool would keep
    if spec.operation not in ("Observe", "History"):
        session.lock(spec.policy.coordination_timeout_seconds)
        refuse_pooler(session, url, timeout_s)
    if spec.server_identity is not None and spec.server_identity != str(identity):
        raise Refused(
            f"the URL leads to another server or database than was planned "
            f"(planned={spec.server_identity}, here={identity})",
            reason="ServerIdentityMismatch",
            hint="plan again on this server",
        )


def _dispatch(
    session: Session,
    command: dict[str, Any],
    spec: JobSpec,
    url: str,
    dev_url: str | None,
    out: dict[str, Any],
) -> None:
    nonce = str(command["startNonce"])
    if spec.operation == "Apply":
        if spec.rebind:
            applying.rebind(session, spec, nonce, out)
        else:
            applying.apply(session, spec, base64.b64decode(command["planBytes"]), nonce, out)
        return
    if spec.operation == "History":
        out["rows"] = ledger.recent(session)
        return
    from ptahk.executor.dialects.postgres import planning_operation
    from ptahk.executor.dialects.postgres.inspecting import Bench

    bench = Bench(session, url, dev_url, spec, os.environ.get(jobspec.CACHE_DIR) or None)
    files = files_of(command["source"])
    if spec.operation == "Observe":
        planning_operation.observe(bench, files, out)
        return
    if spec.fenced is not None:
        out["fence"] = {"tombstone": False, "row": None}
        out["fence"]["row"] = ledger.fence(session, spec, spec.fenced)
        out["fence"]["tombstone"] = True
    if files is None:
        raise Refused("a plan needs a declaration (source)", reason="NoSource")
    planning_operation.plan(bench, files, out, for_proof=spec.fenced is not None)


def _unexpected(error: psycopg.Error) -> PtahkError:
    """A read of ours that the server refused: by right, by a timeout, or by a surprise."""
    failure = OperationFailed(
        f"the server refused a query: {first_line(error)}", reason="QueryFailed"
    )
    failure.sqlstate = error.sqlstate  # type: ignore[attr-defined]
    return failure


def _report_ledger(session: Session, spec: JobSpec, out: dict[str, Any]) -> None:
    """The ledger goes into every result, also into one that ended short (C-6.16)."""
    if session.lost or session.in_transaction:
        return
    with contextlib.suppress(psycopg.Error, PtahkError):
        session.settle(applying.SETTLE_S)
        out["ledger"] = ledger.report(session, spec)
