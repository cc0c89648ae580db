"""``ptahk observe``: a read-only report of drift, or the live schema as a declaration."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    CommonSql,
    Directory,
    Place,
    PolicyOptions,
    Reference,
    Source,
    Timeout,
    choice,
    grouped,
)


@grouped
def observe(
    ref: Reference = None,
    *,
    common: CommonSql,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    severity: Annotated[
        str,
        choice(
            "--severity",
            values=("safe", "warning", "privilege", "destructive"),
            help="Lowest severity that is reported.",
        ),
    ] = "safe",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 1 when there is drift.")
    ] = False,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Report how the live database differs from the declaration, or from what the applied
    migrations give when they run again in a scratch database. Only reads; advisory.
    """
    from ptahk.commands import _cluster, _local, _observe, _render, _text

    told = _local.Told(common, place, source, policy, ref, timeout, directory, scratch=True)
    declaration = common.output == "sql"
    with _cluster.opened(told, cluster, "preferred", declared=not declaration) as session:
        if declaration:
            _render.write(_observe.declaration(session))
            return 0
        document = _observe.report(session, severity)
    _render.emit(document, _text.drift, common)
    return 1 if exit_code and not document["inSync"] else 0
