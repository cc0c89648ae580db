"""Reads the database's own ledger for ``history`` and ``release-lock``, through a Job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ptahk.commands import _inputs, _job, _local, _wiring
from ptahk.commands._options import Place
from ptahk.commands._wiring import World
from ptahk.engine.ports import Document


@contextlib.contextmanager
def world_with_url(
    place: Place, recorder: _local.Progress, durability: _wiring.Durability = "preferred"
) -> Iterator[World]:
    """The world of a command whose Jobs reach the database.

    :raises UsageError: there is no URL, or it has no single meaning.
    """
    url, _ = _local.target(place, None)
    state = _inputs.state_directory(place)
    with _wiring.local_world(state, durability, recorder, url=url) as world:
        yield world


def rows(world: World, owner: Document) -> list[dict[str, Any]]:
    """The newest rows of the ledger behind the URL, newest first; empty where there is none.

    :raises PtahkError: the database cannot be read.
    """
    result = _job.run(world, owner, _job.spec_of(world, owner, "History"))
    found: list[dict[str, Any]] = result.get("rows", [])
    return found
