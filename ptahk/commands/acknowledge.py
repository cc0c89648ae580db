"""``ptahk acknowledge``: what only a person can settle, with their reason."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Directory,
    Place,
    PolicyOptions,
    Reference,
    Source,
    Timeout,
    choice,
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
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation", metavar="ID", help="Settle the migration run of this operation."
        ),
    ] = None,
    statement: Annotated[
        str | None,
        choice(
            "--statement",
            values=("applied", "not-applied"),
            help="Whether the statement that nobody saw end took effect.",
        ),
    ] = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="The rest of the file was done by hand.")
    ] = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="What the file did was undone by hand.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")
    ] = None,
    common: Common,
    place: Place,
    directory: Directory,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Settle what ptahk refuses to decide by itself; the reason and your name are kept."""
    from ptahk.commands import _acknowledge, _render, _text

    if (frozen + rebind + (operation is not None)) != 1:
        raise UsageError(
            "say what is acknowledged: --frozen, --rebind or --operation ID", field="frozen"
        )
    word = _word(operation, statement, resolved=resolved, abandon=abandon)
    if not (reason or "").strip():
        raise UsageError("no reason given (reason): it is part of the account", field="reason")
    assert reason is not None, "checked above"
    told = reason.strip()
    if operation is not None:
        from ptahk.commands import _local, _sequence

        told_ = _local.Told(common, place, Source(), PolicyOptions(), ref, timeout, directory)
        document = _sequence.settle(told_, cluster, operation, word, told)
        _render.emit(document, _text.acknowledgement, common)
        return 0
    if not is_local(place):
        document = _acknowledge.in_cluster(
            common, place, cluster, ref, told, timeout, frozen=frozen
        )
    else:
        work = _acknowledge.thaw if frozen else _acknowledge.rebind
        document = work(common, place, ref, told, timeout)
    _render.emit(document, _text.acknowledgement, common)
    return 0


def _word(operation: str | None, statement: str | None, *, resolved: bool, abandon: bool) -> str:
    """What is said of the run; empty without one.

    :raises UsageError: nothing, or too much.
    """
    words = [statement] if statement else []
    words += [word for word, given in (("resolved", resolved), ("abandon", abandon)) if given]
    if (operation is not None) != (len(words) == 1):
        raise UsageError(
            "--operation ID goes with one of --statement, --resolved and --abandon",
            field="operation",
        )
    return "".join(words)
