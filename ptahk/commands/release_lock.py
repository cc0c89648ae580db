"""``ptahk release-lock``: manual recovery of a realm whose holder will not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    Reference,
    grouped,
)
from ptahk.errors import PtahkError, Refused, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from ptahk.commands._release import Known, Side
    from ptahk.commands._render import Messages
    from ptahk.wire.digest import CoordinationDigest


class Word(NamedTuple):
    """Who forces a release, and why."""

    person: str
    reason: str


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
    import contextlib

    from ptahk.commands import _cluster, _release, _render, _text

    if force and not (reason and operation):
        raise UsageError(
            "--force needs --reason TEXT and the claim's operation id (--operation ID)",
            field="force",
            hint="Without --force the report names the operation.",
        )
    messages = _render.Messages(common)
    with contextlib.ExitStack() as stack:
        if _cluster.wanted_here(place, cluster):
            side, named, person = _here(stack, place, ref, realm, messages)
        else:
            side, named, person = _there(stack, place, cluster, ref, realm, messages)
        known = _release.look(side, named)
        if dry_run:
            document = _would(known)
        elif force:
            assert reason is not None and operation is not None, "checked above"
            document = _forced(side, place, known, operation, Word(person(), reason), messages)
        else:
            document = _release_safely(side, place, known)
    _render.emit(document, _text.lock_report, common)
    return Refused.exit_code if document["verdict"] == "Refused" else 0


Found = tuple["Side", "CoordinationDigest", "Callable[[], str]"]
"""Where the realm is, its digest, and who asks."""


def _here(
    stack: ExitStack, place: Place, ref: str | None, realm: str | None, messages: Messages
) -> Found:
    from ptahk.commands import _inputs, _ledger, _local, _lookup, _release, _wiring

    progress = _local.Progress(messages)
    opened = (
        _ledger.world_with_url(place, progress, "required")
        if place.url_env or place.url_file
        else _wiring.local_world(_inputs.state_directory(place), "required", progress)
    )
    world = stack.enter_context(opened)
    named = _realm(ref, realm, lambda: _lookup.one_resource(world, place, ref))
    return _release.local_side(world), named, lambda: _inputs.os_user() or "unknown"


def _there(
    stack: ExitStack,
    place: Place,
    cluster: Cluster,
    ref: str | None,
    realm: str | None,
    messages: Messages,
) -> Found:
    from ptahk.commands import _cluster, _cluster_release, _wiring

    _cluster.check_options(place, None, None)
    reader = stack.enter_context(_wiring.cluster_reader(cluster.kubeconfig, cluster.context))
    named = _realm(ref, realm, lambda: _cluster.one_resource(reader, cluster, place, ref))
    side = _cluster_release.side(reader, cluster, place, messages)
    return side, named, lambda: reader.person().username


def _realm(ref: str | None, realm: str | None, owner: Callable[[], Any]) -> CoordinationDigest:
    from ptahk.commands import _resource
    from ptahk.wire import digest

    if realm is None:
        return _resource.checked(owner()).target.coordination_digest
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


def _release_safely(side: Side, place: Place, known: Known) -> dict[str, Any]:
    from ptahk.commands import _release

    would = _would(known)
    if would["verdict"] != "WouldRelease":
        return would
    row = None
    if _release.needs_fence(known):
        _require_url(place)
        row = _release.fence(side, known)
    _release.release(side, known)
    return _release.report(known, row, "Released", _after(known))


def _forced(
    side: Side, place: Place, known: Known, operation: str, word: Word, messages: Messages
) -> dict[str, Any]:
    from ptahk.commands import _release

    if _free(known):
        return _release.report(known, None, "Free", "nobody holds this realm")
    if known.attempt is None or known.attempt.operation_id != operation:
        raise Refused(
            "the operation id is not the holder's (operation)",
            reason="RealmHeld",
            field="operation",
            hint="Run without --force: the report names it.",
        )
    person, reason = word
    _release.recorded(side, known, person, reason)
    row = None
    if _release.needs_fence(known):
        _require_url(place)
        try:
            row = _release.fence(side, known, f"{person}: {reason}")
        except PtahkError as error:
            messages.note(f"Not fenced: {error.message}", "warning")
    _release.release(side, known)
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
