"""``status`` and ``history`` of a cluster: what is stored there, read without a manager."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ptahk.commands import _cluster, _documents, _render, _wiring
from ptahk.commands._drive import Interrupts, read_status, store_faults
from ptahk.commands._options import Cluster, Place, reference, resource_kind, resource_name
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Clock, Document
from ptahk.errors import Refused, UsageError

if TYPE_CHECKING:
    from ptahk.commands import _local

WAIT_MAX_S = 30.0
"""Longest single wait; a change wakes us."""


def statuses(
    place: Place, cluster: Cluster, ref: str | None, limit_s: float | None,
    emit: Callable[[dict[str, Any]], None], *, watch: bool,
) -> dict[str, Any]:  # fmt: skip
    """Show the ``Status`` document, and with ``watch`` each later one. :returns: the last one.

    :raises UsageError: a resource was named that does not exist.
    """
    _cluster.check_options(place, None, None)
    with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader:
        namespace, name = _meant(reader, cluster, place, ref)
        kind = resource_kind(ref)
        if not watch:
            with store_faults():
                kinds = (SCHEMA, MIGRATION) if kind is None else (kind,)
                found = [item for each in kinds for item in reader.objects.list(each, namespace)]
            document = _document(item for item in found if name in (None, _name(item)))
            _require(document, kind, name, namespace)
            emit(document)
            return document
        return _watched(reader, kind or SCHEMA, namespace, name, limit_s, emit)


def _meant(
    reader: _wiring.Reader, cluster: Cluster, place: Place, ref: str | None
) -> tuple[str | None, str | None]:
    """Namespace and name; None: all."""
    name = resource_name(ref, None)
    namespace = _cluster.namespace_of(reader, cluster)
    if place.manifest is not None:
        from ptahk.commands import _manifests

        manifest, _ = _manifests.one_resource(place.manifest, name, resource_kind(ref))
        metadata = manifest["metadata"]
        name = metadata["name"]
        namespace = cluster.namespace or metadata.get("namespace") or namespace
    if not cluster.all_namespaces:
        return namespace, name
    if name is not None or cluster.namespace is not None:
        raise UsageError(
            "--all-namespaces given beside a name or a namespace: use one", field="all-namespaces"
        )
    return None, None


def _name(item: Document) -> str:
    return str(item["metadata"]["name"])


def _require(
    document: dict[str, Any], kind: str | None, name: str | None, namespace: str | None
) -> None:
    if name is not None and not document["resources"]:
        raise UsageError(
            f"no such resource (REF={reference(kind or SCHEMA, name)}): namespace "
            f"{namespace} has none",
            reason="UnknownResource",
            field="ref",
        )


def _document(items: Iterator[Document]) -> dict[str, Any]:
    entries = []
    for owner in items:
        try:
            entry = _documents.status_entry(owner, read_status(owner), None)
        except Refused as error:
            entry = _documents.unreadable_entry(owner, error.message)
        entry["abandoned"] = False
        entries.append(entry)
    entries.sort(key=lambda entry: (entry["namespace"], entry["name"]))
    return _render.document("Status", resources=entries)


def _watched(
    reader: _wiring.Reader, kind: str, namespace: str | None, name: str | None,
    limit_s: float | None, emit: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:  # fmt: skip
    events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    interrupts = Interrupts(lambda: events.put(("wake", None)))
    end_s = None if limit_s is None else reader.clock.monotonic() + limit_s
    follower = reader.follow(kind, namespace, name, lambda what, told: events.put((what, told)))
    known: dict[str, Document] = {}
    shown: dict[str, Any] | None = None
    patience = _Patience(reader.clock)
    try:
        with interrupts.listening():
            follower.start()
            while not interrupts.asked:
                left_s = WAIT_MAX_S if end_s is None else end_s - reader.clock.monotonic()
                if left_s <= 0:
                    break
                try:
                    what, told = events.get(timeout=min(WAIT_MAX_S, left_s))
                except queue.Empty:
                    continue
                patience.check(what, told, started=shown is not None)
                if not _taken(known, what, told) or not events.empty():
                    continue
                document = _document(iter(known.values()))
                if shown is None:
                    _require(document, kind, name, namespace)
                if document != shown:
                    shown = document
                    emit(document)
    finally:
        follower.close()
    if interrupts.asked:
        raise KeyboardInterrupt
    return shown or _render.document("Status", resources=[])


class _Patience:
    """With a cluster that stops answering for a while: a watch that breaks is begun again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s: float | None = None

    def check(self, what: str, told: Any, *, started: bool) -> None:
        """:raises PtahkError: nothing was shown yet, or waiting longer is of no use."""
        from ptahk.commands._follow import lasting

        if what != "Trouble":
            self._since_s = self._since_s if what == "wake" else None
            return
        now_s = self._clock.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        if not started or lasting(told, self._since_s, now_s):
            with store_faults():
                raise told


def _taken(known: dict[str, Document], what: str, told: Any) -> bool:
    """Note one event. :returns: something is known that was not."""
    if what == "Listed":
        known.clear()
        known.update((item["metadata"]["uid"], item) for item in told)
    elif what == "Changed":
        known[told["metadata"]["uid"]] = told
    elif what == "Gone":
        known.pop(told["metadata"]["uid"], None)
    else:
        return False
    return True


def history(
    place: Place, cluster: Cluster, ref: str | None, progress: _local.Progress | None
) -> dict[str, Any]:
    """The ``History`` document.

    :param progress: with it, the database's own ledger is read too, by a child of this command.
    """
    from ptahk.commands import _ledger, _local

    _cluster.check_options(place, None, None)
    with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader:
        owner = _cluster.one_resource(reader, cluster, place, ref)
        plans = _local.plans_of(reader.objects, owner)
        rows = None
        if progress is not None:
            url, _ = _local.target(place, None)
            namespace = cluster.coordination_namespace
            with _wiring.fencing_world(reader, namespace, url, progress) as world:
                rows = _ledger.rows(world, owner)
    return _documents.history(owner, read_status(owner), plans, rows)
