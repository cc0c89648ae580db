"""The cluster side of the commands: which resource is meant, and a session on it (C-14.1)."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ptahk.commands import _wiring
from ptahk.commands._drive import store_faults
from ptahk.commands._options import (
    Cluster,
    Directory,
    Place,
    PolicyOptions,
    Source,
    is_local,
    reference,
    resource_kind,
    resource_name,
)
from ptahk.commands._render import Messages
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Document, Key, NotFound
from ptahk.errors import Refused, UsageError

if TYPE_CHECKING:
    from ptahk.commands._follow import ClusterDrive
    from ptahk.commands._local import Session, Told
    from ptahk.engine.model.plan import Plan

LOCAL_ONLY = ("state", "name", "key")
"""Options of a place that mean nothing in a cluster."""


def wanted_here(place: Place, cluster: Cluster, source: Source | None = None) -> bool:
    """Whether ``history`` and ``release-lock`` run here: their URL is for the ledger alone, so
    with one, a cluster that is named outright is what they are about."""
    if place.local or not is_local(place, source):
        return is_local(place, source)
    return not (cluster.context or cluster.kubeconfig or cluster.namespace)


def check_options(
    place: Place, source: Source | Directory | None, policy: PolicyOptions | None
) -> None:
    """Refuse what only a local run reads: in a cluster it stands in the resource.

    :raises UsageError: names the first such option.
    """
    given = [name for name in LOCAL_ONLY if getattr(place, name)]
    for group in (source, policy):
        if group is not None:
            given += [item.name for item in fields(group) if getattr(group, item.name)]
    if given:
        option = given[0].replace("_", "-")
        raise UsageError(
            f"--{option} is for a local run (add --local, --schema or --url-env): in a cluster it "
            "stands in the resource",
            field=option,
        )


def coordination_namespace(cluster: Cluster) -> str:
    """Where the realm Leases and the managers' Lease are."""
    return cluster.coordination_namespace


def namespace_of(reader: _wiring.Reader, cluster: Cluster) -> str:
    """``--namespace``, else the context's."""
    return cluster.namespace or reader.namespace


def one_resource(
    reader: _wiring.Reader, cluster: Cluster, place: Place, ref: str | None
) -> Document:
    """The resource that REF or ``-f`` names, as it is stored.

    :raises UsageError: none is named, or it does not exist.
    :raises Refused: the manifest of ``-f`` is not what is stored: the cluster was not given it.
    """
    manifest = _manifest(place, ref)
    namespace = namespace_of(reader, cluster)
    kind = resource_kind(ref) or (manifest or {}).get("kind") or SCHEMA
    if manifest is not None:
        name = manifest["metadata"]["name"]
        namespace = cluster.namespace or manifest["metadata"].get("namespace") or namespace
    else:
        found = resource_name(ref, None)
        if found is None:
            raise UsageError(
                "no resource named (REF): name one as schema/NAME or migration/NAME, or give "
                "its manifest with -f",
                field="ref",
                hint="Without a cluster, add --local, --schema FILE, --schema-dir DIR, "
                "--url-env NAME or --url-file FILE.",
            )
        name = found
    with store_faults():
        try:
            stored = reader.objects.get(Key(kind, namespace, name))
        except NotFound:
            raise UsageError(
                f"no such resource (REF={reference(kind, name)}): namespace {namespace} has none",
                reason="UnknownResource",
                field="ref",
                hint="Apply its manifest with kubectl first, or name another --namespace.",
            ) from None
    if manifest is not None and stored.get("spec") != manifest["spec"]:
        raise Refused(
            f"the cluster holds another spec of {reference(kind, name)} than the manifest "
            f"(filename={place.manifest})",
            reason="ManifestNotApplied",
            field="filename",
            hint=f"Run kubectl apply -f {place.manifest} first: ptahk changes no resource.",
        )
    return stored


def _manifest(place: Place, ref: str | None) -> Any:
    if place.manifest is None:
        return None
    from ptahk.commands import _manifests

    found, _ = _manifests.one_resource(place.manifest, resource_name(ref, None), resource_kind(ref))
    return found


def follow_command(cluster: Cluster, stored: Document) -> str:
    """The command that shows what is still running."""
    metadata = stored["metadata"]
    named = reference(stored["kind"], metadata["name"])
    words = ["ptahk", "status", named, "-n", metadata["namespace"]]
    if cluster.context:
        words += ["--context", cluster.context]
    return shlex.join([*words, "--watch"])


@contextlib.contextmanager
def opened(
    told: Told, cluster: Cluster, durability: _wiring.Durability, *, declared: bool = True
) -> Iterator[Session]:
    """A session here or in the cluster, as the command line says (C-14.2).

    :param declared: a local run needs a declaration.
    """
    if not is_local(told.place, told.source, told.directory):
        with session(told, cluster) as found:
            yield found
        return
    from ptahk.commands import _local

    wanted, url = _local.interpret(told)
    if declared:
        _local.require_source(wanted)
    with _local.session(told, wanted, url, durability) as found:
        yield found


@contextlib.contextmanager
def session(told: Told, cluster: Cluster) -> Iterator[Session]:
    """A session on the resource that the command line names, once a manager is known to live.

    :raises PtahkError: there is no such resource, or no live manager; nothing was written.
    """
    from ptahk.commands._local import Session
    from ptahk.commands._resource import Wanted, checked

    check_options(told.place, told.source, told.policy)
    check_options(told.place, told.directory, None)
    if told.change and "action" not in told.change:
        raise UsageError("--to and --limit are for a local run", field="to")
    messages = Messages(told.common)
    with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader:
        stored = one_resource(reader, cluster, told.place, told.ref)
        wanted = Wanted(stored, None, None, checked(stored))
        with driving(reader, cluster, stored, messages, told.timeout_s) as drive:
            drive.require_manager()
            yield Session(
                told,
                wanted,
                reader.objects,
                drive,
                messages,
                lambda plan: approve(reader, drive, stored, plan),
            )


@contextlib.contextmanager
def driving(
    reader: _wiring.Reader,
    cluster: Cluster,
    stored: Document,
    messages: Messages,
    timeout_s: float | None,
) -> Iterator[ClusterDrive]:
    """Follow one stored resource."""
    from ptahk.commands._follow import ClusterDrive

    metadata = stored["metadata"]
    drive = ClusterDrive(
        reader,
        Key(stored["kind"], metadata["namespace"], metadata["name"]),
        coordination_namespace(cluster),
        messages,
        deadline_s=None if timeout_s is None else reader.clock.monotonic() + timeout_s,
        follow=follow_command(cluster, stored),
    )
    with drive.following():
        yield drive


def approve(
    reader: _wiring.Reader, drive: ClusterDrive | None, stored: Document, plan: Plan
) -> None:
    """Store an approval of exactly this plan by whom the cluster says that we are."""
    from ptahk.commands import _local

    with store_faults():
        person = reader.person()
    namespace = stored["metadata"]["namespace"]
    made = _local.store_approval(reader, namespace, plan, person)
    if drive is not None:
        drive.approved(made["metadata"]["uid"])
