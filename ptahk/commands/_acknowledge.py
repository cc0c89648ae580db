"""Writes a person's word on a resource, and runs the engine until it is taken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ptahk.commands import _cluster, _documents, _inputs, _local, _lookup, _resource, _wiring
from ptahk.commands._drive import Drive, Interrupts, failure, read_status, store_faults
from ptahk.commands._options import (
    Cluster,
    Common,
    Place,
    PolicyOptions,
    Source,
    parse_duration,
    reference,
)
from ptahk.commands._render import Messages, document
from ptahk.engine.model.resource import ACKNOWLEDGE
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Conflict, Document, Key
from ptahk.errors import Refused, UsageError


def thaw(
    common: Common, place: Place, ref: str | None, reason: str, timeout: str | None
) -> dict[str, Any]:
    """Acknowledge the ledger number that a realm was frozen over (C-6.14).

    :raises Refused: nothing is frozen.
    """
    messages = Messages(common)
    state = _inputs.state_directory(place)
    person = _inputs.os_user() or "unknown"
    with _wiring.local_world(state, "required", _local.Progress(messages)) as world:
        owner = _lookup.one_resource(world, place, ref)
        metadata = owner["metadata"]
        frozen = read_status(owner).frozen
        if frozen is None:
            raise _nothing(owner)
        word = _word(reason, person, frozen.number)
        interrupts = Interrupts(world.jobs.wake)
        with (
            _wiring.one_command_at_a_time(
                world.state, metadata["uid"], reference(owner["kind"], metadata["name"])
            ),
            interrupts.listening(),
        ):
            annotations = {**(metadata.get("annotations") or {}), ACKNOWLEDGE: word}
            changed = {**owner, "metadata": {**metadata, "annotations": annotations}}
            with store_faults():
                try:
                    world.ports.objects.replace(changed)
                except Conflict:
                    raise Refused(
                        "the resource changed meanwhile: nothing was acknowledged",
                        reason="ResourceBusy",
                        hint="Run the command again.",
                    ) from None
            limit = None if timeout is None else parse_duration(timeout)
            now = world.ports.clock.monotonic()
            drive = Drive(
                world,
                Key(owner["kind"], metadata["namespace"], metadata["name"]),
                messages,
                interrupts,
                deadline_s=None if limit is None else now + limit,
                follow=_local.follow_command(place, reference(owner["kind"], metadata["name"])),
            )
            status = drive.run_until(lambda status: status.frozen is None)
    return _document(owner, "frozen", reason, person, status.next_step)


def in_cluster(
    common: Common,
    place: Place,
    cluster: Cluster,
    ref: str | None,
    reason: str,
    timeout: str | None,
    *,
    frozen: bool,
) -> dict[str, Any]:
    """Acknowledge in a cluster: annotate, and wait until the manager has taken it.

    :raises PtahkError: nothing is frozen, no manager lives, or the Apply was refused or failed.
    """
    told = _local.Told(common, place, Source(), PolicyOptions(), ref, timeout)
    _cluster.check_options(place, None, None)
    messages = Messages(common)
    with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader:
        stored = _cluster.one_resource(reader, cluster, place, ref)
        found = read_status(stored).frozen
        if frozen and found is None:
            raise _nothing(stored)
        with _cluster.driving(reader, cluster, stored, messages, told.timeout_s) as drive:
            drive.require_manager()
            with store_faults():
                person = reader.person().username
            if found is not None and frozen:
                drive.annotate({ACKNOWLEDGE: _word(reason, person, found.number)})
                done: Status = drive.until(
                    lambda _, status: status if status.frozen is None else None
                )
                return _document(stored, "frozen", reason, person, done.next_step)
            wanted = _resource.Wanted(stored, None, None, _resource.checked(stored))
            answer = drive.ask(wanted, "rebind", word=_word(reason, person))
            if answer.exit_code != 0:
                raise failure(answer)
    return _document(stored, "rebind", reason, person, "Run the command again that was refused.")


def _word(reason: str, person: str, frozen: int | None = None) -> str:
    """The annotation's text."""
    value: dict[str, Any] = {"reason": reason, "user": person}
    if frozen is not None:
        value["frozen"] = frozen
    return json.dumps(value, sort_keys=True)


def _nothing(owner: Document) -> Refused:
    named = reference(owner["kind"], owner["metadata"]["name"])
    return Refused(
        f"nothing to acknowledge (REF={named}): its realm is not frozen",
        reason="NothingToAcknowledge",
    )


def rebind(
    common: Common, place: Place, ref: str | None, reason: str, timeout: str | None
) -> dict[str, Any]:
    """Bind the database to the resource's coordination key (C-6.15): an Apply of that one row.

    The person's command is the approval (C-11.17).

    :raises PtahkError: the resource names no realm, or the Apply was refused or failed.
    """
    told = _local.Told(common, place, Source(), PolicyOptions(), ref, timeout)
    person = _inputs.os_user() or "unknown"
    found, url = _local.interpret(told)
    with _local.session(told, found, url, "required") as session:
        stored = session.drive.resource()
        if stored is not None:
            # What it declares stays as it is: only the binding is changed.
            spec = _resource.checked(stored)
            found = replace(found, document={**found.document, "spec": stored["spec"]}, spec=spec)
        if not found.spec.target.explicit_key:
            raise UsageError(
                "no coordination key given (key): a run without one names no realm",
                field="key",
                hint="Give the --key that the database is to be bound to.",
            )
        word = _word(reason, person)
        answer = session.drive.ask(found, "rebind", word=word)
        if answer.exit_code != 0:
            raise failure(answer)
        return _document(
            found.document, "rebind", reason, person, "Run the command again that was refused."
        )


def _document(
    owner: Document, what: str, reason: str, person: str, next_step: str
) -> dict[str, Any]:
    return document(
        "Acknowledgement",
        resource=_documents.resource(owner),
        what=what,
        reason=reason,
        person=person,
        nextStep=next_step or "Run the command again that was refused.",
    )
