"""Builds the document of a local resource from options, a manifest or a plan file. Pure.

The options are the fields of ``spec`` under the same names; where a manifest is given too, an
option that is set overrides its field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ptahk.commands._inputs import Files
from ptahk.commands._options import (
    Directory,
    Place,
    PolicyOptions,
    Source,
    parse_duration,
    resource_name,
    split_list,
    split_renames,
)
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.migration import MIGRATION, parse_migration_spec
from ptahk.engine.model.plan import bundle_document, source_name
from ptahk.engine.model.resource import (
    API_VERSION,
    IMPLICIT_KEY,
    SCHEMA,
    SOURCE_KEY,
    parse_spec,
)
from ptahk.engine.model.snapshot import CommonSpec
from ptahk.engine.model.source import base64_text, encode
from ptahk.engine.ports import Document, Key, object_reference
from ptahk.errors import UsageError
from ptahk.wire import digest
from ptahk.wire.binding import PlanBinding
from ptahk.wire.dsn import TargetIdentity
from ptahk.wire.planfile import PlanFile

DEFAULT_NAME = "default"
DEFAULT_ENGINE = "postgresql"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One resource as the command line wants it; in a cluster, as it is stored."""

    document: Document
    bundle: Document | None
    """The ConfigMap of the declaration, where it comes from files."""
    identity: TargetIdentity | None
    """None in a cluster, where only the operation's Pod has the URL."""
    spec: CommonSpec

    @property
    def kind(self) -> str:
        kind: str = self.document["kind"]
        return kind

    @property
    def key(self) -> Key:
        metadata = self.document["metadata"]
        return Key(self.kind, metadata["namespace"], metadata["name"])

    @property
    def reference(self) -> Document:
        """``{apiVersion, kind, name, uid}``, as owner references hold it."""
        return object_reference(self.document)

    @property
    def uid(self) -> str:
        uid: str = self.document["metadata"]["uid"]
        return uid


def wanted(
    place: Place,
    source: Source,
    policy: PolicyOptions,
    *,
    ref: str | None,
    identity: TargetIdentity,
    files: Files | None,
    manifest: Mapping[str, Any] | None = None,
    engine: str | None = None,
) -> Wanted:
    """The resource that a command line means.

    :param manifest: a PtahSchema document as the codec read it.
    :param engine: what stands where neither the options nor the manifest name one.
    :raises UsageError: a field is not valid; it is named as the option or the manifest's path.
    """
    spec = _targeted(place, source, identity, manifest, engine)
    spec.get("dev", {}).pop("urlFrom", None)
    _apply_policy(spec, policy, source)
    name = resource_name(ref, place.name) or (manifest or {}).get("metadata", {}).get("name")
    return _assemble(spec, name or DEFAULT_NAME, identity, files)


def _targeted(
    place: Place, source: Source, identity: TargetIdentity, manifest: Mapping[str, Any] | None,
    engine: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The manifest's spec with the target of this command line."""
    spec: dict[str, Any] = json.loads(json.dumps((manifest or {}).get("spec", {})))
    target = spec.setdefault("target", {})
    # Locally the URL is in this command's memory, and no Secret is read (C-8.2).
    target.pop("urlFrom", None)
    if source.engine or "engine" not in target:
        target["engine"] = source.engine or engine or DEFAULT_ENGINE
    digest.engine_family(target["engine"])
    if place.key is not None or "coordinationKey" not in target:
        target["coordinationKey"] = coordination_key(place, identity)
    return spec


def wanted_migration(
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    *,
    ref: str | None,
    identity: TargetIdentity,
    files: Files | None,
    manifest: Mapping[str, Any] | None = None,
    engine: str | None = None,
) -> Wanted:
    """The PtahMigration that a command line means.

    :raises UsageError: a field is not valid, or an option is the other family's.
    """
    spec = _targeted(place, source, identity, manifest, engine)
    _sequence_policy(spec, policy, source)
    for name, value in (
        ("format", directory.layout),
        ("stream", directory.stream),
        ("historyTable", directory.history_table),
        ("placeholders", placeholders(directory.placeholder, off=directory.placeholders_off)),
    ):
        if value is not None:
            spec[name] = value
    if directory.ahead is not None:
        spec.setdefault("policy", {})["ahead"] = directory.ahead
    name = resource_name(ref, place.name) or (manifest or {}).get("metadata", {}).get("name")
    return _assemble(spec, name or DEFAULT_NAME, identity, files, kind=MIGRATION)


_SHARED = ("lock_timeout", "coordination_timeout", "transaction_mode", "deadline")


def _sequence_policy(spec: dict[str, Any], policy: PolicyOptions, source: Source) -> None:
    other = [
        item.name for item in fields(policy)
        if item.name not in _SHARED and getattr(policy, item.name)
    ]  # fmt: skip
    other += [name for name in ("schema", "schema_dir", "dev_url_env", "dev_template")
              if getattr(source, name)]  # fmt: skip
    if other:
        option = other[0].replace("_", "-")
        raise UsageError(
            f"--{option} is for a declared schema, and this is a migration directory", field=option
        )
    _apply_policy(spec, policy, source)


def placeholders(given: Sequence[str] | None, *, off: bool) -> Mapping[str, str] | str | None:
    """The values of ``--placeholder``, or ``off``.

    :raises UsageError: a value has no name, or both options are given.
    """
    if off and given:
        raise UsageError("both --placeholder and --placeholders-off given", field="placeholder")
    if off:
        return "off"
    values: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not name or not equals:
            raise UsageError(
                f"not a placeholder (placeholder={name!r}): write NAME=VALUE", field="placeholder"
            )
        values[name] = value
    return values or None


def coordination_key(place: Place, identity: TargetIdentity) -> str:
    """``--key``, or the key of a run that names no realm (C-14.5)."""
    if place.key is None:
        return identity.local_key
    if place.key.startswith(IMPLICIT_KEY) or not place.key:
        raise UsageError(
            f"not a coordination key (key={place.key!r}): it is empty or begins with "
            f"{IMPLICIT_KEY!r}",
            reason="InvalidCoordinationKey",
            field="key",
        )
    return place.key


def of_plan(
    place: Place,
    source: Source,
    options: PolicyOptions,
    name: str,
    identity: TargetIdentity,
    saved: PlanFile,
    files: Files | None = None,
) -> Wanted:
    """The resource that a plan file is of: policy and declaration are the plan's.

    :param options: only those that no plan binds.
    :param files: the migration directory as it is now; None: as it was planned.
    """
    target = {"engine": saved.engine, "coordinationKey": coordination_key(place, identity)}
    binding = saved.binding
    if isinstance(binding, PlanBinding):
        spec: dict[str, Any] = {"target": target, "policy": binding.policy.document()}
        _apply_policy(spec, options, source)
        return _assemble(spec, name, identity, saved.files, saved.source_gzip)
    spec = {"target": target, **_of_sequence(binding.policy)}
    _sequence_policy(spec, options, source)
    return _assemble(
        spec, name, identity, files or saved.files, None if files else saved.source_gzip,
        kind=MIGRATION,
    )  # fmt: skip


def _of_sequence(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The spec that a plan of a sequence was made under."""
    spec: dict[str, Any] = {
        "policy": {key: policy[key] for key in ("apply", "transactionMode", "ahead")},
        "stream": policy["stream"],
    }
    values = "off" if policy["placeholdersOff"] else policy["placeholders"] or None
    for name, value in (
        ("format", policy["format"]),
        ("placeholders", values),
        ("historyTable", policy["historyTable"]),
    ):
        if value is not None:
            spec[name] = value
    if not policy["foreignKeyChecks"]:
        spec["session"] = {"foreignKeyChecks": False}
    return spec


def engine_of_url(url: str) -> str:
    """The engine that a URL's scheme names; PostgreSQL where it names none that is known."""
    scheme = url.partition("://")[0]
    return scheme if scheme in ("mysql", "mariadb") else DEFAULT_ENGINE


def _apply_policy(spec: dict[str, Any], options: PolicyOptions, source: Source) -> None:
    policy = spec.setdefault("policy", {})
    if options.allow_destructive:
        policy["allowDestructive"] = True
    for name, values in (
        ("protectedTables", split_list(options.protect)),
        ("exclude", split_list(options.exclude)),
        ("schemas", split_list(options.schemas)),
    ):
        if values:
            policy[name] = list(values)
    for name, text in (
        ("lockTimeout", options.lock_timeout),
        ("coordinationTimeout", options.coordination_timeout),
    ):
        if text is not None:
            policy[name] = duration(parse_duration(text))
    for name, choice in (
        ("privileges", options.privileges),
        ("partitions", options.partitions),
        ("transactionMode", options.transaction_mode),
    ):
        if choice is not None:
            policy[name] = choice
    if options.rename:
        pairs = split_renames(options.rename)
        policy["renames"] = [{"from": old, "to": new} for old, new in pairs]
    if options.deadline is not None:
        spec.setdefault("execution", {})["activeDeadlineSeconds"] = options.deadline
    if source.dev_template is not None:
        spec.setdefault("dev", {})["template"] = source.dev_template


def duration(seconds: float) -> str:
    """A duration as a spec holds it, exact to the millisecond."""
    return f"{round(seconds * 1000)}ms"


def _assemble(
    spec: dict[str, Any],
    name: str,
    identity: TargetIdentity,
    files: Files | None,
    data: bytes | None = None,
    *,
    kind: str = SCHEMA,
) -> Wanted:
    realm = digest.coordination_digest(spec["target"]["engine"], spec["target"]["coordinationKey"])
    uid = digest.local_resource_uid(realm, kind, name)
    namespace = namespace_of(realm)
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "spec": spec,
    }
    bundle = None
    if files is not None:
        owner = object_reference(document)
        bundle = bundle_of(namespace, owner, data or encode(files), digest.source_digest(files))
        field = "artifact" if kind == MIGRATION else "desired"
        spec[field] = {"configMapRef": {"name": bundle["metadata"]["name"]}}
    return Wanted(document, bundle, identity, checked(document))


def bundle_of(namespace: str, owner: Document, data: bytes, source_digest: str) -> Document:
    """The immutable ConfigMap of one declaration."""
    name = source_name(source_digest)
    return bundle_document(namespace, name, SOURCE_KEY, base64_text(data), owner)


def namespace_of(realm: str) -> str:
    """Local resources of one realm share a namespace, so that a name is unique in its realm."""
    return f"local-{realm.removeprefix('sha256:')[:16]}"


def checked(owner: Document) -> CommonSpec:
    """The spec as the engine reads it. :raises UsageError: names the field and its rule."""
    parse = parse_migration_spec if owner["kind"] == MIGRATION else parse_spec
    try:
        return parse(dict(owner["spec"]))
    except FieldError as error:
        raise UsageError(
            f"not valid ({error.path.lstrip('.')}): {error.rule}",
            reason="InvalidSpec",
            field=error.path.lstrip("."),
        ) from None
