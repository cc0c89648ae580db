"""``ptahk status``: what is stored, what is owed, and the next step a person should take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    Reference,
    Timeout,
    grouped,
    is_local,
    parse_duration,
)

if TYPE_CHECKING:
    from ptahk.commands._wiring import World

NEEDS_A_PERSON = frozenset(
    {"AwaitingApproval", "Drifted", "Blocked", "Failed", "Unknown", "Frozen"}
)
"""Phases in which nothing goes on until somebody acts: exit code 1."""
WATCH_S = 5.0
"""Longest wait for a change before the clock and the signals are looked at again."""


@grouped
def status(
    ref: Reference = None,
    *,
    common: Common,
    place: Place,
    watch: Annotated[bool, typer.Option("--watch", help="Follow live, until Ctrl-C.")] = False,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Show phase, claims, what is owed and the next step. Exits 1 where a person is needed."""
    from ptahk.commands import _render, _text

    limit = None if timeout is None else parse_duration(timeout)
    if not is_local(place):
        from ptahk.commands import _cluster_status

        document = _cluster_status.statuses(
            place, cluster, ref, limit,
            lambda found: _render.emit(found, _text.status, common), watch=watch,
        )  # fmt: skip
        return int(any(_needs_a_person(item) for item in document["resources"]))
    from ptahk.commands import _inputs, _local, _wiring

    messages = _render.Messages(common)
    state = _inputs.state_directory(place)
    with _wiring.local_world(state, "unless absent", _local.Progress(messages)) as world:
        if world.state is None:
            messages.note(f"Nothing is kept: {world.why_not_durable}")
        document = read(world, place, ref)
        _render.emit(document, _text.status, common)
        clock = world.ports.clock
        end = None if limit is None else clock.monotonic() + limit
        while watch and (end is None or clock.monotonic() < end):
            left = WATCH_S if end is None else min(WATCH_S, max(0.0, end - clock.monotonic()))
            _wiring.wait_for_change(world, left)
            newer = read(world, place, ref)
            if newer != document:
                document = newer
                _render.emit(document, _text.status, common)
    return int(any(_needs_a_person(item) for item in document["resources"]))


def _needs_a_person(item: dict[str, Any]) -> bool:
    return item["phase"] in NEEDS_A_PERSON or item["abandoned"]


def read(world: World, place: Place, ref: str | None) -> dict[str, Any]:
    """The ``Status`` document as it stands."""
    from ptahk.commands import _documents, _local, _lookup, _render, _wiring
    from ptahk.commands._drive import read_status

    entries = []
    for owner in _lookup.resources(world, place, ref):
        found = read_status(owner)
        plans = _local.plans_of(world.ports.objects, owner)
        entry = _documents.status_entry(owner, found, plans[-1] if plans else None)
        begun = found.active_operation is not None or found.pending_observation is not None
        busy = _wiring.busy(world.state, owner["metadata"]["uid"])
        entry["abandoned"] = begun and not busy
        if entry["abandoned"]:
            entry["nextStep"] = (
                "No command is working on it: run the same command again; it goes on from here."
            )
        entries.append(entry)
    return _render.document("Status", resources=entries)
