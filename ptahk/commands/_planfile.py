"""Self-contained plan files: ``plan --out`` writes one, ``apply --plan`` reads it (C-7.3)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ptahk.commands import _apply, _directory, _inputs, _local, _resource
from ptahk.commands._drive import create_once, store_faults
from ptahk.commands._local import Made, Session, Told
from ptahk.commands._options import PolicyOptions, resource_name
from ptahk.engine.model.fields import parse_time, write
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.plan import (
    PlanSpec,
    ResourceRef,
    SourceRef,
    bundle_document,
    plan_document,
    plan_name,
    source_name,
)
from ptahk.engine.model.resource import CONFIG_MAP, PLAN_KEY, SCHEMA, SOURCE_KEY
from ptahk.engine.ports import Key
from ptahk.errors import Refused, UsageError
from ptahk.wire import planfile
from ptahk.wire.binding import read_binding
from ptahk.wire.planfile import PlanFile

_OPTIONAL = PolicyOptions.__dataclass_fields__.keys() - {
    "lock_timeout",
    "coordination_timeout",
    "deadline",
}
"""Policy that a plan binds: it cannot be given again beside a plan file."""


def save(session: Session, made: Made, out: str) -> None:
    """Write the plan to ``out``, whole or not at all. :raises UsageError: it cannot be written."""
    spec = made.plan.spec
    namespace = session.wanted.key.namespace
    with store_faults():
        objects = session.objects
        plan = objects.get(Key(CONFIG_MAP, namespace, made.plan.name))
        source = objects.get(Key(CONFIG_MAP, namespace, spec.source.config_map))
    file = PlanFile(
        engine=spec.engine,
        resource_kind=spec.resource.kind,
        resource_name=spec.resource.name,
        server_identity=spec.server_identity,
        operation_id=spec.operation_id,
        time=str(write(spec.time)),
        binding=read_binding(dict(spec.binding)),
        summary=spec.summary,
        plan_gzip=base64.b64decode(plan["binaryData"][PLAN_KEY]),
        source_gzip=base64.b64decode(source["binaryData"][SOURCE_KEY]),
    )
    _inputs.write_atomically(out, planfile.encode(file))


def interpret(told: Told, path: str) -> tuple[PlanFile, _resource.Wanted, str]:
    """The plan of a file, the resource that it is of, and the URL for child processes.

    :raises UsageError: the file was edited or is none, or an option contradicts it.
    :raises Refused: the URL, the key or the name is not the plan's; nothing is claimed (C-14.6).
    """
    given = [name for name in sorted(_OPTIONAL) if getattr(told.policy, name)]
    if given:
        option = "--" + given[0].replace("_", "-")
        raise UsageError(
            f"{option} and --plan given: the plan file holds the policy that it was made under",
            field=given[0].replace("_", "-"),
        )
    saved = planfile.decode(_inputs.read_bytes(path, "plan", planfile.FILE_BYTES_MAX))
    if saved.resource_kind not in (SCHEMA, MIGRATION):
        raise UsageError(
            f"plan of another family (kind={saved.resource_kind})", reason="UnknownFamily"
        )
    files = _directory_now(told, saved)
    url, identity = _local.target(told.place, saved.engine)
    if identity.digest != saved.binding.target_identity_digest:
        raise Refused(
            "the database URL describes another database, role or route than was planned",
            reason="TargetMismatch",
            field="url-env",
            hint="Use the URL that the plan was made with, or plan again with this one.",
        )
    name = resource_name(told.ref, told.place.name) or saved.resource_name
    found = _resource.of_plan(told.place, told.source, told.policy, name, identity, saved, files)
    if found.uid != saved.binding.resource_uid:
        raise Refused(
            f"the plan is of another resource or realm (name={name}): its coordination key or "
            "name is not this one",
            reason="CoordinationMismatch",
            field="key",
            hint="Give the --key and --name that the plan was made with.",
        )
    return saved, found, url


def _directory_now(told: Told, saved: PlanFile) -> _inputs.Files | None:
    """The directory given beside the plan, which must be the one that was planned (C-11.2).

    :raises Refused: names the first file that was added, changed or removed; nothing is claimed.
    """
    if told.directory.migrations is None:
        return None
    if saved.resource_kind != MIGRATION:
        raise UsageError("the plan is of a declared schema (migrations)", field="migrations")
    files = _directory.files_of(told.directory.migrations)
    refuse_changed(dict(saved.files), dict(files))
    return files


def refuse_changed(approved: Mapping[str, str], here: Mapping[str, str]) -> None:
    """:raises Refused: ``SequenceChanged``, naming the first file that differs."""
    named = _apply.first_difference(approved, here)
    if named is not None:
        raise Refused(
            f"the directory is not the one that was approved: {named}: nothing ran",
            reason="SequenceChanged",
            field="migrations",
            hint="Plan again and approve what is there now, or put the file back.",
        )


def apply(session: Session, saved: PlanFile, consent: _apply.Consent) -> dict[str, Any]:
    """Go on with a begun apply of this plan, or import it and apply it."""
    begun = _apply.resume_saved(session, saved.fingerprint)
    if begun is not None:
        return begun
    _import(session, saved)
    made = _local.stored_plan(session.objects, session.wanted.key.namespace, saved.fingerprint)
    return _apply.apply_plan(session, made, consent)


def apply_published(session: Session, path: str, consent: _apply.Consent) -> dict[str, Any]:
    """Apply in a cluster the plan of a file, which the cluster itself must have made.

    Only the engine writes plans there (contract, section 2), so the file says which one is meant.

    :raises Refused: it is another resource's plan, or no longer kept.
    """
    saved = planfile.decode(_inputs.read_bytes(path, "plan", planfile.FILE_BYTES_MAX))
    if saved.binding.resource_uid != session.wanted.uid:
        raise Refused(
            f"the plan is of another resource (plan={path}): a cluster applies the plans that it "
            "made of this one",
            reason="CoordinationMismatch",
            field="plan",
            hint="Use a file of ptahk plan --out of this resource in this cluster.",
        )
    begun = _apply.resume_saved(session, saved.fingerprint)
    if begun is not None:
        return begun
    namespace = session.wanted.key.namespace
    made = _local.stored_plan(session.objects, namespace, saved.fingerprint)
    return _apply.apply_plan(session, made, consent)


def _import(session: Session, saved: PlanFile) -> None:
    """Store the plan as if it had been made here. Names come from content, so twice is once."""
    namespace = session.wanted.key.namespace
    name = plan_name(saved.fingerprint)
    reference = session.wanted.reference
    spec = PlanSpec(
        resource=ResourceRef(saved.resource_kind, reference["name"], reference["uid"]),
        fingerprint=saved.fingerprint,
        digest=saved.binding.plan_digest,
        binding=saved.binding.document(),
        summary=saved.summary,
        engine=saved.engine,
        server_identity=saved.server_identity,
        source=SourceRef(source_name(saved.binding.source_digest), saved.binding.source_digest),
        statements=_local.statement_count(saved.plan_bytes),
        destructive=bool(saved.summary.get("destructive", True)),
        privileges=bool(saved.summary.get("privileges", True)),
        operation_id=saved.operation_id,
        time=parse_time(saved.time),
    )
    data = base64.b64encode(saved.plan_gzip).decode("ascii")
    with store_faults():
        create_once(session.objects, session.wanted.bundle)
        create_once(session.objects, bundle_document(namespace, name, PLAN_KEY, data, reference))
        create_once(session.objects, plan_document(namespace, spec, reference))
