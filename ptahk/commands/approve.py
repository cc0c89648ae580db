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
    is_local,
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
    from ptahk.commands import _approve, _inputs, _local, _lookup, _render, _text, _wiring
    from ptahk.engine.model.plan import Approver

    if not is_local(place):
        document = _approve.in_cluster(common, place, cluster, ref, plan)
        _render.emit(document, _text.approval, common)
        return 0
    messages = _render.Messages(common)
    state = _inputs.state_directory(place)
    with _wiring.local_world(state, "required", _local.Progress(messages)) as world:
        owner = _lookup.one_resource(world, place, ref)
        namespace = owner["metadata"]["namespace"]
        person = Approver(username=_inputs.os_user() or "unknown")
        document = _approve.approve(
            world.ports.objects,
            owner,
            plan,
            messages,
            lambda made: _local.store_approval(world.ports, namespace, made, person),
        )
    _render.emit(document, _text.approval, common)
    return 0
