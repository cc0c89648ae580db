"""Writes a person's word on a resource, and runs the engine until it is taken."""

from __future__ import annotations

import json
from typing import Any

from ptahk.commands import _documents, _inputs, _local, _lookup, _wiring
from ptahk.commands._drive import Drive, Interrupts, read_status, store_faults
from ptahk.commands._options import Common, Place, parse_duration
from ptahk.commands._render import Messages, document
from ptahk.engine.model.resource import ACKNOWLEDGE, SCHEMA
from ptahk.engine.ports import Conflict, Key
from ptahk.errors import Refused


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
    return document(
        "Acknowledgement",
        resource=_documents.resource(owner),
        what="frozen",
        reason=reason,
        person=person,
        nextStep=status.next_step or "Run the command again that was refused.",
    )
