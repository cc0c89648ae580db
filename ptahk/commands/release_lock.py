"""``ptahk release-lock``: manual recovery of a realm whose holder will not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    Reference,
    grouped,
    require_local,
)
from ptahk.errors import PtahkError, Refused, UsageError

if TYPE_CHECKING:
    from ptahk.commands._release import Known
    from ptahk.commands._render import Messages
    from ptahk.commands._wiring import World


@grouped
def release_lock(
    ref: Reference = None,
    *,
    realm: Annotated[
        str | None,
        typer.Option("--realm", metavar="DIGEST", help="The realm, where no resource names it."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Release although something may still write.")
    ] = False,
    operation: Annotated[
        str | None,
        typer.Option("--operation", metavar="ID", help="With --force: the claim's operation id."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="With --force: why.")
    ] = None,
    common: Common,
    place: Place,
    cluster: Cluster,
) -> int:
    """Show who holds a realm; fence the claim and release exactly that holder and epoch.

    Refuses while anything may still write. The fence needs the database: --url-env or --url-file.
    """
    from ptahk.commands import _inputs, _ledger, _local, _release, _render, _text, _wiring

    require_local(place)
    if force and not (reason and operation):
        raise UsageError(
            "--force needs --reason TEXT and the claim's operation id (--operation ID)",
            field="force",
            hint="Without --force the report names the operation.",
        )
    messages = _render.Messages(common)
    progress = _local.Progress(messages)
    state = _inputs.state_directory(place)
    opened = (
        _ledger.world_with_url(place, progress, "required")
        if place.url_env or place.url_file
        else _wiring.local_world(state, "required", progress)
    )
    with opened as world:
        known = _release.look(world, _realm(world, place, ref, realm))
        if dry_run:
            document = _would(known)
        elif force:
            assert reason is not None and operation is not None, "checked above"
            document = _forced(world, place, known, operation, reason, messages)
        else:
            document = _release_safely(world, place, known)
    _render.emit(document, _text.lock_report, common)
    return Refused.exit_code if document["verdict"] == "Refused" else 0


def _realm(world: World, place: Place, ref: str | None, realm: str | None) -> Any:
    from ptahk.commands import _lookup, _resource
    from ptahk.wire import digest

    if realm is None:
        owner = _lookup.one_resource(world, place, ref)
        return _resource.checked(owner["spec"]).target.coordination_digest
    if ref is not None:
        raise UsageError("REF and --realm given: use one", field="realm")
    if not digest.is_digest(realm):
        raise UsageError("not a digest (realm): write sha256: and 64 hex digits", field="realm")
    return digest.CoordinationDigest(realm)


def _free(known: Known) -> bool:
    return known.lease is None or known.lease.identity is None


def _would(known: Known) -> dict[str, Any]:
    from ptahk.commands import _release

    if _free(known):
        return _release.report(known, None, "Free", "nobody holds this realm")
    objection = _release.objection(known)
    if objection is not None:
        return _release.report(known, None, "Refused", objection)
    how = "fence the claim, then release" if _release.needs_fence(known) else "release"
    return _release.report(known, None, "WouldRelease", f"would {how} this holder and epoch")


def _release_safely(world: World, place: Place, known: Known) -> dict[str, Any]:
    from ptahk.commands import _release

    would = _would(known)
    if would["verdict"] != "WouldRelease":
        return would
    row = None
    if _release.needs_fence(known):
        _require_url(place)
        row = _release.fence(world, known)
    _release.release(world, known)
    return _release.report(known, row, "Released", _after(known))


def _forced(
    world: World, place: Place, known: Known, operation: str, reason: str, messages: Messages
) -> dict[str, Any]:
    from ptahk.commands import _inputs, _release

    if _free(known):
        return _release.report(known, None, "Free", "nobody holds this realm")
    if known.attempt is None or known.attempt.operation_id != operation:
        raise Refused(
            "the operation id is not the holder's (operation)",
            reason="RealmHeld",
            field="operation",
            hint="Run without --force: the report names it.",
        )
    person = _inputs.os_user() or "unknown"
    _release.recorded(world, known, person, reason)
    row = None
    if _release.needs_fence(known):
        _require_url(place)
        try:
            row = _release.fence(world, known, f"{person}: {reason}")
        except PtahkError as error:
            messages.note(f"Not fenced: {error.message}", "warning")
    _release.release(world, known)
    return _release.report(known, row, "Released", f"forced by {person}: {reason}")


def _require_url(place: Place) -> None:
    if not (place.url_env or place.url_file):
        raise UsageError(
            "no database URL given (url-env): the claim was dispatched, so it is fenced first",
            reason="NoDatabaseURL",
            field="url-env",
        )


def _after(known: Known) -> str:
    if known.attempt is None or not known.attempt.dispatched:
        return "released"
    return (
        "released; the resource still owes its proof: run its apply again, which goes on from here"
    )
