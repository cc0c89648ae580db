"""``ptahk approve``: approve the current plan of a resource by its fingerprint."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    Reference,
    grouped,
    require_local,
)


@grouped
def approve(
    ref: Reference = None,
    *,
    common: Common,
    place: Place,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="FINGERPRINT", help="Approve exactly this plan."),
    ] = None,
    cluster: Cluster,
) -> int:
    """Approve a plan, after showing it. An approval is used by one apply, once."""
    from ptahk.commands import _approve, _inputs, _local, _render, _text, _wiring

    require_local(place)
    messages = _render.Messages(common)
    state = _inputs.state_directory(place)
    with _wiring.local_world(state, "required", _local.Progress(messages)) as world:
        document = _approve.approve(world, place, ref, plan, messages)
    _render.emit(document, _text.approval, common)
    return 0
