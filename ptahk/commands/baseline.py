"""``ptahk baseline``: record what an existing database already has."""

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
)
from ptahk.errors import UsageError

TOOLS = ("auto", "golang-migrate", "dbmate", "goose", "atlas", "flyway", "diesel", "ptah")


@grouped
def baseline(
    ref: Reference = None,
    *,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="Record every version up to this one."),
    ] = None,
    tool: Annotated[
        str | None,
        choice("--from", values=TOOLS, help="Import the history of this tool; auto: of whichever."),
    ] = None,
    accept_unverified: Annotated[
        bool,
        typer.Option(
            "--accept-unverified", help="Import also what nothing but the tool's word is known of."
        ),
    ] = False,
    common: Common,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Record versions of an existing database as applied, after showing what will be recorded.

    Nothing of the files is run, and another tool's table is only read. Your command is the
    approval.
    """
    from ptahk.commands import _local, _render, _sequence, _text

    change = _change(to, tool, accept_unverified=accept_unverified)
    told = _local.Told(common, place, source, policy, ref, timeout, directory)
    document = _sequence.record(told, cluster, change)
    _render.emit(document, _text.apply_result, common)
    return 0


def _change(to: str | None, tool: str | None, *, accept_unverified: bool) -> dict[str, str]:
    """What is to be recorded.

    :raises UsageError: neither is given, or both are.
    """
    from ptahk.migrations import importing

    if (to is None) == (tool is None):
        raise UsageError("say what is there: --to VERSION, or --from TOOL", field="to")
    if tool is not None:
        return importing.change(tool, accept_unverified=accept_unverified)
    if accept_unverified:
        raise UsageError(
            "--accept-unverified goes with --from: --to records the files as they are",
            field="accept-unverified",
        )
    assert to is not None, "checked above"
    return {"action": "baseline", "to": to}
