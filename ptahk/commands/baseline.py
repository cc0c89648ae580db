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
    grouped,
)


@grouped
def baseline(
    ref: Reference = None,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="VERSION", help="Record every version up to this one."),
    ],
    common: Common,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Record versions of an existing database as applied, after showing what will be recorded.

    Nothing of the files is run. Your command is the approval.
    """
    from ptahk.commands import _local, _render, _sequence, _text

    told = _local.Told(common, place, source, policy, ref, timeout, directory)
    document = _sequence.record(told, cluster, {"action": "baseline", "to": to})
    _render.emit(document, _text.apply_result, common)
    return 0
