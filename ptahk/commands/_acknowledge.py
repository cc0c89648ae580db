"""Writes a person's word on a resource, and runs the engine until it is taken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ptahk.commands import _documents, _inputs, _local, _lookup, _resource, _wiring
from ptahk.commands._drive import Drive, Interrupts, failure, read_status, store_faults
from ptahk.commands._options import Common, Place, PolicyOptions, Source, parse_duration
from ptahk.commands._render import Messages, document
from ptahk.engine.model.resource import ACKNOWLEDGE, SCHEMA
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
            raise Refused(
                f"nothing to acknowledge (REF=schema/{metadata['name']}): its realm is not frozen",
                reason="NothingToAcknowledge",
            )
        word = json.dumps(
            {"frozen": frozen.number, "reason": reason, "user": person}, sort_keys=True
        )
        interrupts = Interrupts(world.jobs.wake)
        with (
            _wiring.one_command_at_a_time(world.state, metadata["uid"], metadata["name"]),
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
                Key(SCHEMA, metadata["namespace"], metadata["name"]),
                messages,
                interrupts,
                deadline_s=None if limit is None else now + limit,
                follow=_local.follow_command(place, metadata["name"]),
            )
            status = drive.run_until(lambda status: status.frozen is None)
    return _document(owner, "frozen", reason, person, status.next_step)


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
            spec = _resource.checked(stored["spec"])
            found = replace(found, document={**found.document, "spec": stored["spec"]}, spec=spec)
        if not found.spec.target.explicit_key:
            raise UsageError(
                "no coordination key given (key): a run without one names no realm",
                field="key",
                hint="Give the --key that the database is to be bound to.",
            )
        word = json.dumps({"reason": reason, "user": person}, sort_keys=True)
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
