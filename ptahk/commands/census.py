"""``ptahk census``: every realm with its claimants, conflicts first."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ptahk.commands._options import Cluster, Common, grouped


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
    unsettled: Annotated[
        bool,
        typer.Option(
            "--unsettled",
            help="Show only what runs or is owed; exit 1 while there is any (before an uninstall).",
        ),
    ] = False,
    common: Common,
    cluster: Cluster,
) -> int:
    """Show who claims which database: in the cluster, or in manifests before they are deployed.

    Exits 1 when there is a conflict.
    """
    from ptahk.commands import _render, _text

    if filename:
        from ptahk.commands import _census, _manifests

        document = _census.of_manifests(_manifests.read_all(filename), conflicts_only=conflicts)
    else:
        from ptahk.commands import _cluster_census

        document = _cluster_census.of_cluster(cluster, conflicts_only=conflicts)
    if unsettled:
        document["realms"] = [realm for realm in document["realms"] if busy(realm)]
    _render.emit(document, _text.census, common)
    if unsettled:
        return int(bool(document["realms"]))
    return int(document["summary"]["conflicts"] > 0)


def busy(realm: dict[str, Any]) -> bool:
    """An Apply may still run or a proof is owed, or somebody holds the realm."""
    return realm["lease"] is not None or any(
        claimant["activeOperation"] == "Apply" or claimant["pendingObservation"]
        for claimant in realm["claimants"]
    )
