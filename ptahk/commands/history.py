"""``ptahk history``: the account of operations, the kept plans, and the database's own ledger."""

from __future__ import annotations

from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    Reference,
    grouped,
)


@grouped
def history(
    ref: Reference = None,
    *,
    common: Common,
    place: Place,
    cluster: Cluster,
) -> int:
    """Show what was done, by whom, and how it ended; with --url-env also the ledger's rows."""
    import contextlib

    from ptahk.commands import (
        _cluster,
        _documents,
        _inputs,
        _ledger,
        _local,
        _lookup,
        _render,
        _text,
        _wiring,
    )
    from ptahk.commands._drive import read_status

    messages = _render.Messages(common)
    progress = _local.Progress(messages)
    reads = bool(place.url_env or place.url_file)
    if not _cluster.wanted_here(place, cluster):
        from ptahk.commands import _cluster_status

        document = _cluster_status.history(place, cluster, ref, progress if reads else None)
        _render.emit(document, _text.history, common)
        return 0
    with contextlib.ExitStack() as stack:
        if reads:
            world = stack.enter_context(_ledger.world_with_url(place, progress, "unless absent"))
        else:
            state = _inputs.state_directory(place)
            world = stack.enter_context(_wiring.local_world(state, "unless absent", progress))
        if world.state is None:
            messages.note(f"Nothing is kept: {world.why_not_durable}")
        owner = _lookup.one_resource(world, place, ref)
        plans = _local.plans_of(world.ports.objects, owner)
        rows = _ledger.rows(world, owner) if reads else None
    document = _documents.history(owner, read_status(owner), plans, rows)
    _render.emit(document, _text.history, common)
    return 0
