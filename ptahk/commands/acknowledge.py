"""``ptahk acknowledge``: what only a person can settle, with their reason."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    Reference,
    Timeout,
    grouped,
    is_local,
)
from ptahk.errors import UsageError


@grouped
def acknowledge(
    ref: Reference = None,
    *,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Thaw a realm whose ledger and store disagreed.")
    ] = False,
    rebind: Annotated[
        bool, typer.Option("--rebind", help="Bind the database to this coordination key.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")
    ] = None,
    common: Common,
    place: Place,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Settle what ptahk refuses to decide by itself; the reason and your name are kept."""
    from ptahk.commands import _acknowledge, _render, _text

    if frozen == rebind:
        raise UsageError("say what is acknowledged: --frozen or --rebind", field="frozen")
    if not (reason or "").strip():
        raise UsageError("no reason given (reason): it is part of the account", field="reason")
    assert reason is not None, "checked above"
    told = reason.strip()
    if not is_local(place):
        document = _acknowledge.in_cluster(
            common, place, cluster, ref, told, timeout, frozen=frozen
        )
    else:
        work = _acknowledge.thaw if frozen else _acknowledge.rebind
        document = work(common, place, ref, told, timeout)
    _render.emit(document, _text.acknowledgement, common)
    return 0
