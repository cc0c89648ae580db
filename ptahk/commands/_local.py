"""One local command's session: what it was told, its world, and the drive over one resource."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from ptahk.commands import _directory, _inputs, _resource, _wiring
from ptahk.commands._drive import (
    Asks,
    Drive,
    Interrupts,
    create_once,
    failure,
    store_faults,
)
from ptahk.commands._options import (
    Common,
    Directory,
    Place,
    PolicyOptions,
    Source,
    parse_duration,
    reference,
    resource_kind,
    resource_name,
)
from ptahk.commands._render import Messages
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.plan import (
    PLAN_RAW_BYTES_MAX,
    Approver,
    Plan,
    approval_document,
    parse_plan,
    plan_name,
)
from ptahk.engine.model.resource import CONFIG_MAP, PLAN, PLAN_KEY, RESOURCE_UID
from ptahk.engine.model.source import unbase64, unpack
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document, Entropy, Key, NotFound, Objects
from ptahk.errors import Refused, UsageError
from ptahk.wire import dsn
from ptahk.wire.dsn import TargetIdentity


@dataclass(frozen=True, slots=True)
class Told:
    """The option groups of one command line."""

    common: Common
    place: Place
    source: Source
    policy: PolicyOptions
    ref: str | None = None
    timeout: str | None = None
    directory: Directory = field(default_factory=Directory)
    change: Mapping[str, str] = field(default_factory=dict)
    """What a migration's plan is asked for: how far to run, or what to record."""
    scratch: bool = False
    """Of a migration too, a development server is of use."""

    @property
    def timeout_s(self) -> float | None:
        return None if self.timeout is None else parse_duration(self.timeout)


class Approving(Protocol):
    """What storing an approval needs of a world."""

    @property
    def objects(self) -> Objects: ...
    @property
    def entropy(self) -> Entropy: ...


@dataclass(frozen=True, slots=True)
class Session:
    """The resource that the command is about, here or in a cluster."""

    told: Told
    wanted: _resource.Wanted
    objects: Objects
    drive: Asks
    messages: Messages
    approve: Callable[[Plan], object]
    """Stores this person's approval of exactly this plan."""


@dataclass(frozen=True, slots=True)
class Made:
    """A published plan with its raw bytes."""

    plan: Plan
    data: bytes


STEPS: Mapping[str, str] = {
    "AddFinalizer": "resource guarded",
    "WriteClaim": "claim stored",
    "DiscardClaim": "claim dropped",
    "AcquireLease": "realm held",
    "CopyEpoch": "epoch stored in the claim",
    "PersistSnapshot": "surroundings stored",
    "ConsumeApproval": "approval consumed",
    "DispatchMark": "dispatch marked",
    "DispatchJob": "process started",
    "ConfirmJob": "process confirmed",
    "Settle": "outcome stored",
    "LatchUnknown": "outcome stored as unknown",
    "ClearClaim": "claim cleared",
    "OweRelease": "release owed",
    "ReleaseLease": "realm released",
    "ClearRelease": "release settled",
    "Publish": "published",
    "Thaw": "realm thawed",
}
"""Durable step → words. Steps that only repeat or tidy up are shown with ``--verbose``."""


class Progress:
    """The engine's recorder: each durable step as a line on standard error.

    :param every: show the steps; False: only with ``--verbose``.
    """

    def __init__(self, messages: Messages, *, every: bool = False) -> None:
        self._messages = messages
        self._every = every

    def event(self, key: Key, type: Literal["Normal", "Warning"], reason: str, text: str) -> None:
        words = STEPS.get(reason, reason)
        line = f"{words}: {text}" if text else words
        if type == "Warning":
            self._messages.note(line, "warning")
        elif self._every and reason in STEPS:
            self._messages.step(line)
        else:
            self._messages.detail(line)


def target(place: Place, engine: str | None) -> tuple[str, TargetIdentity]:
    """The database URL and the identity of its target.

    :param engine: None: the one that the URL's scheme names.
    :raises UsageError: there is none, or it has no single meaning. Nothing quotes it.
    """
    url = _inputs.read_url(place)
    identity = dsn.identify(
        url, engine=engine or _resource.engine_of_url(url), os_user=_inputs.os_user()
    )
    return url, identity


def read_manifest(told: Told) -> tuple[Mapping[str, Any] | None, _inputs.Files | None]:
    """The resource of ``-f``, and the files beside it where it names a ConfigMap."""
    if told.place.manifest is None:
        return None, None
    from ptahk.commands import _manifests

    kind = MIGRATION if told.directory.migrations else resource_kind(told.ref)
    return _manifests.one_resource(told.place.manifest, told.place.name, kind)


def interpret(told: Told) -> tuple[_resource.Wanted, str]:
    """What the command line means: the resource, and the URL for child processes.

    :raises UsageError: it is no local run, or something in it is not valid.
    """
    resource_name(told.ref, told.place.name)
    manifest, declared = read_manifest(told)
    engine = told.source.engine or _engine_of(manifest)
    url, identity = target(told.place, engine)
    if is_migration(told, manifest):
        directory = told.directory.migrations
        source = replace(told.source, dev_url_env=None) if told.scratch else told.source
        files = declared if directory is None else _directory.files_of(directory)
        found = _resource.wanted_migration(
            told.place,
            source,
            told.policy,
            told.directory,
            ref=told.ref,
            identity=identity,
            files=files,
            manifest=manifest,
            engine=engine or _resource.engine_of_url(url),
        )
        if files is not None:
            _directory.refuse_names(files, found.document["spec"])
        return found, url
    files = _inputs.read_files(told.source)
    found = _resource.wanted(
        told.place,
        told.source,
        told.policy,
        ref=told.ref,
        identity=identity,
        files=declared if files is None else files,
        manifest=manifest,
        engine=engine or _resource.engine_of_url(url),
    )
    return found, url


def is_migration(told: Told, manifest: Mapping[str, Any] | None = None) -> bool:
    """Which family the command line is about."""
    named = (manifest or {}).get("kind") or resource_kind(told.ref)
    return bool(told.directory.migrations) or named == MIGRATION


def _engine_of(manifest: Mapping[str, Any] | None) -> str | None:
    spec = (manifest or {}).get("spec", {})
    named = spec.get("target", {}).get("engine")
    return None if named is None else str(named)


@contextlib.contextmanager
def session(
    told: Told,
    found: _resource.Wanted,
    url: str,
    durability: _wiring.Durability,
) -> Iterator[Session]:
    """Open the world and hold the resource against a second command.

    :raises PtahkError: the store cannot be used, the resource is held, or a stored claim was made
        with another URL (C-14.6).
    """
    messages = Messages(told.common)
    dev_url = None
    if told.source.dev_url_env is not None:
        dev_url = _inputs.url_of_environment(told.source.dev_url_env, "dev-url-env")
        engine = found.document["spec"]["target"]["engine"]
        dsn.identify(dev_url, engine=engine, os_user=_inputs.os_user())
    state = _inputs.state_directory(told.place)
    progress = Progress(messages, every=durability == "required")
    opened = _wiring.local_world(state, durability, progress, url=url, dev_url=dev_url)
    with opened as world:
        if world.state is None:
            messages.note(f"Nothing is kept: {world.why_not_durable}")
        name = found.document["metadata"]["name"]
        interrupts = Interrupts(world.jobs.wake)
        with (
            _wiring.one_command_at_a_time(world.state, found.uid, reference(found.kind, name)),
            interrupts.listening(),
        ):
            now = world.ports.clock.monotonic()
            limit = told.timeout_s
            drive = Drive(
                world,
                found.key,
                messages,
                interrupts,
                deadline_s=None if limit is None else now + limit,
                follow=follow_command(told.place, reference(found.kind, name)),
            )
            assert found.identity is not None, "a local run has its URL"
            check_same_target(drive.status(), found.identity)
            person = Approver(username=_inputs.os_user() or "unknown")
            yield Session(
                told,
                found,
                world.ports.objects,
                drive,
                messages,
                lambda plan: store_approval(world.ports, found.key.namespace, plan, person),
            )


def follow_command(place: Place, ref: str) -> str:
    """The command that shows what is still running."""
    words = ["ptahk", "status", ref, "--local", "--watch"]
    if place.state:
        words += ["--state", str(Path(place.state))]
    return shlex.join(words)


def check_same_target(status: Status, identity: TargetIdentity) -> None:
    """Refuse to go on with a claim that was made with another URL (C-14.6).

    :raises Refused: names the operation.
    """
    claim, owed = status.active_operation, status.pending_observation
    for operation_id, inputs in (
        (claim and claim.operation_id, claim and claim.inputs),
        (owed and owed.operation_id, owed and owed.inputs),
    ):
        stored = (inputs or {}).get("targetIdentity")
        if stored is not None and stored != identity.digest:
            raise Refused(
                f"operation {operation_id} was started with another database URL: this one "
                "describes another database, role or route",
                reason="TargetMismatch",
                field="url-env",
                hint="Run the command again with the URL that the operation was started with.",
            )


def make_plan(session: Session) -> Made:
    """Ask for a plan. :raises PtahkError: it was refused, or could not be made."""
    change = session.told.change or None
    answer = session.drive.ask(session.wanted, "plan", change=change)
    if answer.exit_code != 0 or answer.plan is None:
        raise failure(answer)
    return stored_plan(session.objects, session.wanted.key.namespace, answer.plan)


def store_approval(ports: Approving, namespace: str, plan: Plan, person: Approver) -> Document:
    """Store a person's approval of exactly this plan. :returns: the document."""
    name = f"ptahk-approval-{ports.entropy.operation_id()}"
    made = approval_document(namespace, name, plan, person)
    with store_faults():
        return create_once(ports.objects, made) or made


def stored_plan(objects: Objects, namespace: str, fingerprint: str) -> Made:
    """A published plan and its raw bytes.

    :raises Refused: it is not kept here, or its bytes cannot be read.
    """
    name = plan_name(fingerprint)
    try:
        with store_faults():
            try:
                plan = parse_plan(objects.get(Key(PLAN, namespace, name)))
                bundle = objects.get(Key(CONFIG_MAP, namespace, name))
            except NotFound:
                raise Refused(
                    f"no such plan (plan={fingerprint})", reason="PlanMissing", hint="Plan again."
                ) from None
        return Made(plan, unpack(unbase64(bundle["binaryData"][PLAN_KEY]), PLAN_RAW_BYTES_MAX))
    except (ValueError, KeyError) as error:
        raise Refused(
            f"plan cannot be read (plan={fingerprint}): {error}",
            reason="PlanDamaged",
            hint="Plan again.",
        ) from None


def statement_count(data: bytes) -> int:
    """Statements of raw plan bytes. :raises UsageError: they are no plan."""
    try:
        return len(json.loads(data)["statements"])
    except (ValueError, KeyError, TypeError):
        raise UsageError("plan bytes are no plan (plan)", reason="InvalidPlanFile") from None


def plans_of(objects: Objects, owner: Document) -> list[Plan]:
    """The kept plans of a resource, oldest first; one that cannot be read is left out."""
    metadata = owner["metadata"]
    with store_faults():
        documents = objects.list(PLAN, metadata["namespace"], {RESOURCE_UID: metadata["uid"]})
    found = []
    for document in documents:
        with contextlib.suppress(ValueError):
            found.append(parse_plan(document))
    return sorted(found, key=lambda plan: (plan.spec.time, plan.name))


def require_source(found: _resource.Wanted) -> None:
    """:raises UsageError: nothing is declared."""
    if found.spec.declared is None:
        if found.kind == MIGRATION:
            raise UsageError(
                "there is no migration directory",
                reason="SourceMissing",
                field="migrations",
                hint="Give --migrations DIR, or a manifest with -f.",
            )
        raise UsageError(
            "nothing is declared",
            reason="SourceMissing",
            field="schema",
            hint="Give --schema FILE, --schema-dir DIR, or a manifest with -f.",
        )
