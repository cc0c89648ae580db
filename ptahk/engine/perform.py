"""Intent → one port call. Acts, never judges."""

from typing import Any, Final, assert_never

from ptahk.engine.model.fields import cut
from ptahk.engine.model.intent import (
    AcquireLease,
    DispatchJob,
    EditFinalizers,
    Intent,
    Prune,
    Publish,
    ReleaseLease,
    RenewLease,
    SetJobTtl,
    WriteStatus,
)
from ptahk.engine.model.status import Status, render
from ptahk.engine.ports import (
    AlreadyExists,
    Document,
    Indeterminate,
    Key,
    NotFound,
    PortError,
    Ports,
    key_of,
)

CAUSE_MAX: Final = 400
"""Of what a create said, as a condition repeats it."""


def perform(ports: Ports, document: Document, intent: Intent) -> str:
    """Carry one intent out; the name of the step that is now durable.

    :param document: the resource as the decision saw it: its resourceVersion is the precondition.
    :raises PortError: nothing may be concluded from it; the next pass looks.
    """
    key = key_of(document)
    match intent:
        case WriteStatus():
            _write_status(ports, document, intent.status)
            _tell(ports, key, intent.step, intent.message)
            return intent.step
        case AcquireLease():
            _store(ports, intent.document)
            return _tell(ports, key, "AcquireLease", "")
        case RenewLease():
            ports.objects.replace(intent.document)
            return "RenewLease"
        case ReleaseLease():
            ports.objects.replace(intent.document)
            return _tell(ports, key, "ReleaseLease", f"epoch {intent.record.epoch}")
        case DispatchJob():
            return _dispatch(ports, document, intent)
        case Publish():
            _publish(ports, intent.document)
            return _tell(ports, key, "Publish", intent.document["metadata"]["name"])
        case SetJobTtl():
            return _expire(ports, intent)
        case EditFinalizers():
            ports.objects.replace(intent.document)
            return intent.step
        case Prune():
            return _prune(ports, intent.document)
        case _:
            assert_never(intent)


def _tell(ports: Ports, key: Key, step: str, message: str) -> str:
    ports.recorder.event(key, "Normal", step, message)
    return step


def _write_status(ports: Ports, document: Document, status: Status) -> Document:
    stored = ports.objects.replace_status(document | {"status": render(status)})
    claim = status.active_operation
    if claim is not None and claim.outcome is not None:
        ports.memory.refused.pop(claim.job_name, None)
        if claim.job_uid is not None:
            ports.memory.results.pop(claim.job_uid, None)
    return stored


def _store(ports: Ports, document: Document) -> None:
    if document["metadata"].get("resourceVersion"):
        ports.objects.replace(document)
    else:
        ports.objects.create(document)


def _publish(ports: Ports, document: Document) -> None:
    """The name comes from the content, so what stands there is as good; bytes are checked again
    before anything is dispatched with them."""
    key = key_of(document)
    try:
        ports.objects.create(document)
    except AlreadyExists:
        ports.objects.get(key)
    ports.memory.published.add(str(key))


def _dispatch(ports: Ports, document: Document, intent: DispatchJob) -> str:
    """The mark, then the one create, by this process alone (steps 5 and 6).

    A mark whose answer is lost is looked for once: our own nonce there means that it landed.
    Anything else means that nothing may be created, now or later.
    """
    try:
        _write_status(ports, document, intent.status)
    except Indeterminate:
        if not _marked(ports, document, intent.nonce):
            raise
    key = key_of(document)
    _tell(ports, key, "DispatchMark", intent.order.name)
    try:
        ports.jobs.create(intent.order)
    except PortError as error:
        # An uncertain outcome, not a retry: the next pass reads what is there (step 6).
        text = f"{intent.order.name}: {type(error).__name__}: {error}"
        ports.recorder.event(key, "Warning", "CreateUncertain", text)
        ports.memory.refused[intent.order.name] = cut(str(error), CAUSE_MAX)
        return "CreateUncertain"
    return _tell(ports, key, "DispatchJob", intent.order.name)


def _marked(ports: Ports, document: Document, nonce: str) -> bool:
    found: Any = ports.objects.get(key_of(document)).get("status") or {}
    claim = found.get("activeOperation") or {}
    return claim.get("dispatchStarted") is True and claim.get("dispatchNonce") == nonce


def _expire(ports: Ports, intent: SetJobTtl) -> str:
    try:
        ports.jobs.expire(intent.namespace, intent.name, intent.uid, intent.ttl_s)
    except NotFound:
        return "JobGone"
    return "SetJobTtl"


def _prune(ports: Ports, document: Document) -> str:
    ports.memory.published.discard(str(key_of(document)))
    try:
        ports.objects.delete(document)
    except NotFound:
        return "Pruned"
    return "Prune"
