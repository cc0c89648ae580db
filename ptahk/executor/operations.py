"""The commands: observe, plan, apply, prove. One session each, settled here (C-9.6, C-9.7).

One way for every engine; what differs is behind ``dialect``.
"""

from __future__ import annotations

import base64
import contextlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ptahk.errors import PtahkError, Refused
from ptahk.executor import dialect as dialects
from ptahk.executor.attempt import SETTLE_S
from ptahk.executor.budget import Budget, ConnectionLost
from ptahk.executor.dialect import Dialect, Session
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
    dialect = dialects.of(spec.engine)
    if spec.operation != "Apply" and spec.migration is None:
        # The planner's modules, while the server answers who and where we are.
        threading.Thread(target=dialect.preload, daemon=True).start()
    session = dialect.connect(url, spec, budget)
    try:
        _settle(dialect, session, spec, url, out)
        _dispatch(dialect, session, command, spec, url, dev_url, out)
    except dialect.Error as error:
        raise dialect.unexpected(error) from error
    except ConnectionLost:
        if out.get("mutationStarted"):
            out["result"] = "unknown"
        raise
    finally:
        _report_ledger(dialect, session, spec, out)
        session.close()


def _settle(
    dialect: Dialect, session: Session, spec: JobSpec, url: str, out: dict[str, Any]
) -> None:
    """Lock, pooler, identity: everything before the first statement of the operation (C-9.7)."""
    identity = session.identity
    out["serverIdentity"] = str(identity)
    out["serverVersion"] = identity.version
    out["timeline"] = identity.timeline
    before = time.time()
    clock = dialect.clock(session)
    out["clockOffsetSeconds"] = round(clock - (before + time.time()) / 2, 3)
    timeout_s = spec.policy.connect_timeout_seconds
    if not dialect.is_direct(session):
        dialect.refuse_pooler(session, url, timeout_s)  # before the lock, which a pool would keep
    # A sequence's rows say what they say only while nobody else writes them.
    if spec.operation not in ("Observe", "History") or spec.migration is not None:
        session.lock(spec.policy.coordination_timeout_seconds)
        dialect.refuse_pooler(session, url, timeout_s)
    if spec.server_identity is not None and spec.server_identity != str(identity):
        raise Refused(
            f"the URL leads to another server or database than was planned "
            f"(planned={spec.server_identity}, here={identity})",
            reason="ServerIdentityMismatch",
            hint="plan again on this server",
        )


def _dispatch(
    dialect: Dialect,
    session: Session,
    command: dict[str, Any],
    spec: JobSpec,
    url: str,
    dev_url: str | None,
    out: dict[str, Any],
) -> None:
    nonce = str(command["startNonce"])
    if spec.migration is not None:
        _dispatch_sequence(dialect, session, command, spec, url, dev_url, out)
        return
    if spec.operation == "Apply":
        if spec.rebind:
            dialect.rebind(session, spec, nonce, out)
        else:
            dialect.apply(session, spec, base64.b64decode(command["planBytes"]), nonce, out)
        return
    if spec.operation == "History":
        out["rows"] = dialect.recent(session)
        return
    cache = os.environ.get(jobspec.CACHE_DIR) or None
    bench = dialect.bench(session, url, dev_url, spec, cache)
    files = files_of(command["source"])
    if spec.operation == "Observe":
        dialect.observe(bench, files, out)
        return
    _fence(dialect, session, spec, out)
    if files is None:
        raise Refused("a plan needs a declaration (source)", reason="NoSource")
    dialect.plan(bench, files, out, spec.fenced is not None)


def _fence(dialect: Dialect, session: Session, spec: JobSpec, out: dict[str, Any]) -> None:
    """A proof's first step (C-6.9)."""
    if spec.fenced is None:
        return
    out["fence"] = {"tombstone": False, "row": None}
    out["fence"]["row"] = dialect.fence(session, spec, spec.fenced)
    out["fence"]["tombstone"] = True


def _dispatch_sequence(
    dialect: Dialect, session: Session, command: dict[str, Any], spec: JobSpec, url: str,
    dev_url: str | None, out: dict[str, Any],
) -> None:  # fmt: skip
    """The commands of a migration."""
    from ptahk.executor import sequences

    files = files_of(command["source"])
    if spec.operation == "Apply":
        plan = base64.b64decode(command["planBytes"])
        nonce = str(command["startNonce"])
        sequences.apply(dialect, session, spec, plan, files, nonce, out)
    elif spec.operation == "Prove":
        _fence(dialect, session, spec, out)
        sequences.prove(dialect, session, spec, files, out)
    else:

        def bench(exclude: Sequence[str]) -> Any:
            policy = replace(spec.policy, exclude=tuple(exclude))
            return dialect.bench(session, url, dev_url, replace(spec, policy=policy), None)

        sequences.read_history(dialect, session, spec, files, out, bench)


def _report_ledger(dialect: Dialect, session: Session, spec: JobSpec, out: dict[str, Any]) -> None:
    """The ledger goes into every result, also into one that ended short (C-6.16)."""
    if session.lost or session.in_transaction:
        return
    with contextlib.suppress(dialect.Error, PtahkError):
        session.settle(SETTLE_S)
        out["ledger"] = dialect.report(session, spec)
