"""Runs passes over one local resource until its request is answered.

The engine decides and remembers; this loop only calls it again, waits where it says to wait, and
stops where a person says so. Stopping loses nothing: the claim is stored, and the same command
goes on from it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from ptahk.engine.model import status as status_model
from ptahk.engine.model.resource import ACKNOWLEDGE, REQUEST, Request, RequestType, request_text
from ptahk.engine.model.status import Answer, Status
from ptahk.engine.ports import (
    AlreadyExists,
    Conflict,
    Document,
    Indeterminate,
    Key,
    NotFound,
    Objects,
    PortError,
    key_of,
)
from ptahk.errors import (
    InternalError,
    OperationFailed,
    OutcomeUnknown,
    PtahkError,
    Refused,
    Unreachable,
    UsageError,
)

if TYPE_CHECKING:
    from ptahk.commands._render import Messages
    from ptahk.commands._resource import Wanted
    from ptahk.commands._wiring import World
    from ptahk.engine import driver

WAIT_MAX_S = 30.0
"""Longest single wait: an upper bound, not a poll; the end of a Job wakes us."""
FAULTS_MAX = 5
"""Passes in a row that the store may fail before the command gives up: some ten seconds."""
WRITES_MAX = 10
"""Tries of one compare-and-swap; another process writes in milliseconds."""

CLASSES: dict[int, type[PtahkError]] = {
    2: UsageError,
    3: Refused,
    4: OutcomeUnknown,
    5: OperationFailed,
    6: Unreachable,
    70: InternalError,
}


class Interrupts:
    """Ctrl-C once asks for a clean stop; twice stops now."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.asked = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[Interrupts]:
        """Handle SIGINT while the block runs."""
        before = signal.signal(signal.SIGINT, self._arrived)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, before)

    @contextlib.contextmanager
    def immediate(self) -> Iterator[None]:
        """Let Ctrl-C end the block at once, as at a question."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._wake()


class Asks(Protocol):
    """What a command needs of the one resource that it works on, here or in a cluster."""

    interrupts: Interrupts

    def resource(self) -> Document | None:
        """The stored document, or None."""

    def status(self) -> Status:
        """The stored status; a fresh one where there is none."""

    def ask(
        self,
        wanted: Wanted,
        type_: RequestType,
        *,
        plan: str | None = None,
        declaration: bool = False,
        word: str | None = None,
        change: Mapping[str, str] | None = None,
    ) -> Answer:
        """Put a request on the resource and wait for its answer."""

    def until_answered(self, request_id: str) -> Answer:
        """Wait for the answer to the request with this id."""


class Drive:
    """One command's work on one local resource.

    :param deadline_s: on the world's monotonic clock; None: no bound.
    :param follow: the command that shows what is still running, for messages.
    """

    def __init__(
        self,
        world: World,
        key: Key,
        messages: Messages,
        interrupts: Interrupts,
        *,
        deadline_s: float | None,
        follow: str,
    ) -> None:
        self._world = world
        self._key = key
        self._messages = messages
        self.interrupts = interrupts
        self._deadline_s = deadline_s
        self._follow = follow

    def resource(self) -> Document | None:
        """The stored document, or None."""
        with store_faults():
            try:
                return self._world.ports.objects.get(self._key)
            except NotFound:
                return None

    def status(self) -> Status:
        """The stored status; a fresh one where there is none."""
        document = self.resource()
        if document is None:
            return Status("")
        return read_status(document)

    def ask(
        self,
        wanted: Wanted,
        type_: RequestType,
        *,
        plan: str | None = None,
        declaration: bool = False,
        word: str | None = None,
        change: Mapping[str, str] | None = None,
    ) -> Answer:
        """Store the resource with a new request, and run passes until it is answered.

        :param word: a person's acknowledgement, kept beside the request.
        :raises KeyboardInterrupt: Ctrl-C; what is still running was said.
        :raises PtahkError: the time is up, or the store failed.
        """
        id_ = self._world.ports.entropy.operation_id()
        request = Request(id_, type_, plan, declaration, change)
        self._store(wanted, request, {} if word is None else {ACKNOWLEDGE: word})
        return self.until_answered(request.id)

    def until_answered(self, request_id: str) -> Answer:
        """Run passes until the request with this id is answered."""
        from ptahk.engine import driver

        def answered(status: Status) -> bool:
            found = status.request
            done = found is not None and found.id == request_id and found.state == "Done"
            # TTL, clearing and release come after the answer.
            return done and driver.at_rest(status)

        answer = self.run_until(answered).request
        assert answer is not None, "the condition that was waited for"
        return answer

    def run_until(self, reached: Callable[[Status], bool]) -> Status:
        """Run passes until the status is as wanted."""
        # Imported late: a command on a cluster runs no pass.
        from ptahk.engine import driver

        while True:
            status = self.status()
            if reached(status):
                return status
            if self.interrupts.asked:
                self._say_what_runs(status)
                raise KeyboardInterrupt
            self._check_time(status)
            result = driver.run_pass(self._world.ports, self._key)
            self._check_fault(result)
            self._wait(result)

    def _wait(self, result: driver.PassResult) -> None:
        clock = self._world.ports.clock
        delay = WAIT_MAX_S
        if result.requeue is not None:
            delay = min(delay, result.requeue.at - clock.monotonic())
        if self._deadline_s is not None:
            delay = min(delay, self._deadline_s - clock.monotonic())
        if delay > 0 and not self.interrupts.asked:
            self._world.jobs.wait(delay)

    def _check_fault(self, result: driver.PassResult) -> None:
        """Give up where the store stays away, or nothing would ever go on."""
        if result.fault is not None:
            if self._world.ports.memory.faults.get(self._key, 0) >= FAULTS_MAX:
                with store_faults():
                    raise result.fault
            return
        if result.requeue is None:
            raise InternalError(f"the request is not answered and nothing goes on ({result.step})")
        if result.requeue.reason == "StatusUnreadable":
            raise Refused(result.requeue.message, reason="StatusUnreadable")

    def _check_time(self, status: Status) -> None:
        if self._deadline_s is None or self._world.ports.clock.monotonic() < self._deadline_s:
            return
        raise time_is_up(status, self._follow)

    def _say_what_runs(self, status: Status) -> None:
        self._messages.always(what_runs(status, self._follow))

    def _store(self, wanted: Wanted, request: Request, more: Mapping[str, str]) -> None:
        objects = self._world.ports.objects
        with store_faults():
            for _ in range(WRITES_MAX):
                try:
                    stored = self.resource() or objects.create(wanted.document)
                    if stored["metadata"]["uid"] != wanted.uid:
                        raise InternalError("a resource of that name has another UID")
                    create_once(objects, wanted.bundle)
                    metadata = dict(stored["metadata"])
                    metadata["annotations"] = {
                        **(metadata.get("annotations") or {}),
                        **more,
                        REQUEST: request_text(request),
                    }
                    objects.replace(
                        {**stored, "metadata": metadata, "spec": wanted.document["spec"]}
                    )
                    return
                except (Conflict, AlreadyExists, Indeterminate, NotFound):
                    continue  # the next look shows whether the write landed
        raise Unreachable("the store does not take the request", reason="StoreFault")


def create_once(objects: Objects, document: Document | None) -> Document | None:
    """Create an immutable document whose name comes from its content, or find that it is there.

    :returns: what is stored; None for None.
    """
    if document is None:
        return None
    try:
        return objects.create(document)
    except (AlreadyExists, Indeterminate):
        return objects.get(key_of(document))


def read_status(document: Document) -> Status:
    """A resource's status. :raises Refused: it is not one that this ptahk can read."""
    try:
        return status_model.parse(document.get("status"), document["metadata"]["uid"])
    except ValueError as error:
        raise Refused(
            f"stored status of {document['metadata']['name']} cannot be read: {error}",
            reason="StatusUnreadable",
            hint="Use the ptahk that wrote it; do not edit status by hand.",
        ) from None


def time_is_up(status: Status, follow: str) -> PtahkError:
    """How a command ends whose ``--timeout`` is over.

    :param follow: the command that shows what goes on.
    """
    claim = status.active_operation
    owed = status.pending_observation
    mutates = claim is not None and claim.type == "Apply" and claim.dispatch_started
    if claim is not None and mutates:
        return OutcomeUnknown(
            f"time is up (--timeout) while Apply {claim.operation_id} is running",
            reason="TimedOut",
            hint=f"{follow} shows it; the same command goes on with it.",
        )
    if owed is not None:
        return OutcomeUnknown(
            f"time is up (--timeout) before Apply {owed.operation_id} was proved",
            reason="TimedOut",
            hint="The same command goes on with the proof.",
        )
    return OperationFailed(
        "time is up (--timeout): nothing was changed",
        reason="TimedOut",
        hint="Run the same command again, with more time.",
    )


def what_runs(status: Status, follow: str) -> str:
    """What a command says that Ctrl-C ends."""
    claim = status.active_operation
    if claim is not None and claim.dispatch_started and claim.outcome is None:
        return (
            f"Stopped. {claim.type} {claim.operation_id} is still running (job "
            f"{claim.job_name}); follow it with: {follow}. The same command goes on."
        )
    if status.pending_observation is not None:
        proof = status.pending_observation
        return (
            f"Stopped. The proof of Apply {proof.operation_id} is owed; the same command "
            f"goes on with it, and {follow} shows it."
        )
    return "Stopped. Nothing is running; the same command goes on."


@contextlib.contextmanager
def store_faults() -> Iterator[None]:
    """The port's errors as what a person is told."""
    try:
        yield
    except PortError as error:
        if isinstance(error.__cause__, PtahkError):
            raise error.__cause__ from None
        raise Unreachable(
            f"the store failed ({type(error).__name__}): {error}", reason="StoreFault"
        ) from error


def failure(answer: Answer) -> PtahkError:
    """An answer that is no success, as the error that a command ends with."""
    kind = CLASSES.get(answer.exit_code, OperationFailed)
    message = answer.message or answer.reason
    if answer.exit_code == OutcomeUnknown.exit_code and answer.operation_id:
        message += f" (operation={answer.operation_id})"
    return kind(message, reason=answer.reason or None, field=answer.field, hint=answer.hint)
