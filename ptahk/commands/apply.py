"""``ptahk apply``: plan or take a plan, get the approval, apply exactly once, prove, release."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Directory,
    Extent,
    Place,
    PolicyOptions,
    Reference,
    Source,
    Timeout,
    grouped,
    is_local,
)
from ptahk.errors import UsageError


@grouped
def apply(
    ref: Reference = None,
    *,
    common: Common,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    extent: Extent,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="FILE", help="Apply this plan of `plan --out`."),
    ] = None,
    approve: Annotated[
        str | None,
        typer.Option("--approve", metavar="FINGERPRINT", help="Approve exactly this plan."),
    ] = None,
    auto_approve: Annotated[
        bool, typer.Option("--auto-approve", help="Approve whatever the plan is.")
    ] = False,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Change the database exactly once, by an approved plan, and prove the result."""
    from ptahk.commands import _apply, _cluster, _local, _planfile, _render, _text

    if approve is not None and auto_approve:
        raise UsageError("--approve and --auto-approve given: use one", field="approve")
    declared = source.schema or source.schema_dir
    if plan is not None and (declared or (place.manifest and is_local(place, source, directory))):
        raise UsageError(
            "--plan and a declaration given: the plan file holds its own", field="plan"
        )
    told = _local.Told(common, place, source, policy, ref, timeout, directory, extent.change)
    consent = _apply.Consent(approve, auto_approve)
    if plan is None:
        with _cluster.opened(told, cluster, "required") as session:
            document = _apply.converge(session, consent)
    elif not is_local(place, source, directory):
        with _cluster.session(told, cluster) as session:
            document = _planfile.apply_published(session, plan, consent)
    else:
        saved, found, url = _planfile.interpret(told, plan)
        with _local.session(told, found, url, "required") as session:
            document = _planfile.apply(session, saved, consent)
    _render.emit(document, _text.apply_result, common)
    return 0
