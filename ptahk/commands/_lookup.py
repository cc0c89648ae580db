"""Finds the local resources that a command without a declaration means."""

from __future__ import annotations

from ptahk.commands import _local, _resource
from ptahk.commands._drive import store_faults
from ptahk.commands._options import Place, reference, resource_kind, resource_name
from ptahk.commands._wiring import World
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.engine.ports import Document
from ptahk.errors import UsageError
from ptahk.wire import digest


def resources(world: World, place: Place, ref: str | None) -> list[Document]:
    """The stored resources that REF, ``--name``, ``--key`` and the URL leave, by name.

    :raises UsageError: a name or a key was given and nothing of it is kept.
    """
    name = resource_name(ref, place.name)
    kind = resource_kind(ref)
    with store_faults():
        kinds = (SCHEMA, MIGRATION) if kind is None else (kind,)
        found = [item for each in kinds for item in world.ports.objects.list(each)]
    if name is not None:
        found = [item for item in found if item["metadata"]["name"] == name]
    if place.key is not None:
        found = _of_key(found, place.key)
    elif place.url_env or place.url_file:
        _, identity = _local.target(place, None)
        # A resource with a key of its own may lie behind this URL as well.
        found = _of_key(found, identity.local_key) or found
    if not found and (name is not None or place.key is not None):
        raise UsageError(
            f"no such resource (REF={reference(kind or SCHEMA, name or '*')}): this state "
            "directory does not hold it",
            reason="UnknownResource",
            field="ref",
            hint="ptahk status --local lists what it holds; --state names another directory.",
        )
    return sorted(found, key=lambda item: (item["metadata"]["name"], item["metadata"]["namespace"]))


def _of_key(found: list[Document], key: str) -> list[Document]:
    # A key means another realm in either family of engines.
    realms = (digest.coordination_digest(engine, key) for engine in ("postgresql", "mysql"))
    namespaces = {_resource.namespace_of(realm) for realm in realms}
    return [item for item in found if item["metadata"]["namespace"] in namespaces]


def one_resource(world: World, place: Place, ref: str | None) -> Document:
    """Exactly one stored resource; ``schema/default`` where none is named.

    :raises UsageError: there is none, or several databases have one of that name.
    """
    name = resource_name(ref, place.name) or _resource.DEFAULT_NAME
    kind = resource_kind(ref)
    found = resources(world, place, reference(kind, name) if kind else name)
    if kind is None:
        # A schema is meant where nothing else is said and there is one.
        found = [item for item in found if item["kind"] == SCHEMA] or found
    if len(found) > 1:
        raise UsageError(
            "several databases have a resource of that name "
            f"(REF={reference(found[0]['kind'], name)})",
            reason="AmbiguousResource",
            field="ref",
            hint="Say which database: --key KEY, or its URL with --url-env NAME.",
        )
    return found[0]
