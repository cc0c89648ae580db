"""``ptahk census``: every realm with its claimants, conflicts first."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import Cluster, Common, grouped
from ptahk.errors import UsageError


@grouped
def census(
    *,
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Manifests or directories of them; repeatable; - is stdin.",
        ),
    ] = None,
    conflicts: Annotated[bool, typer.Option("--conflicts", help="Show only conflicts.")] = False,
    common: Common,
    cluster: Cluster,
) -> int:
    """Show who claims which database, so that a pipeline can check before it deploys.

    Exits 1 when there is a conflict.
    """
    if not filename:
        raise UsageError(
            "no manifests given (filename), and cluster mode is not in this build",
            reason="ClusterUnavailable",
            field="filename",
            hint="Give the manifests with -f FILE or -f DIR.",
        )
    from ptahk.commands import _census, _manifests, _render, _text

    document = _census.of_manifests(_manifests.read_all(filename), conflicts_only=conflicts)
    _render.emit(document, _text.census, common)
    return int(document["summary"]["conflicts"] > 0)
