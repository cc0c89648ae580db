"""``ptahk plan``: resolve, observe and plan; print the SQL, the fingerprint and a summary."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    CommonSql,
    Directory,
    Extent,
    Place,
    PolicyOptions,
    Reference,
    Source,
    Timeout,
    grouped,
)


@grouped
def plan(
    ref: Reference = None,
    *,
    common: CommonSql,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    extent: Extent,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Save a self-contained plan for an apply."),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 1 when there are changes.")
    ] = False,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Show what would change, each statement with severity, lock and reason. Only reads."""
    from ptahk.commands import _cluster, _documents, _local, _planfile, _render, _text

    told = _local.Told(common, place, source, policy, ref, timeout, directory, extent.change)
    with _cluster.opened(told, cluster, "preferred") as session:
        made = _local.make_plan(session)
        wanted = session.wanted
        document = _documents.plan(wanted.document, wanted.spec, made.plan, made.data)
        if out is not None:
            _planfile.save(session, made, out)
            session.messages.note(f"Plan saved: {out}")
    layout = _text.plan_sql if common.output == "sql" else _text.plan
    _render.emit(document, layout, common)
    return 1 if exit_code and document["changes"] else 0
