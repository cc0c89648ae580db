"""Puts a request on a resource of a cluster, and follows its status until the manager answers.

The manager alone works (C-14.1). Stopping here stops nothing there.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ptahk.commands import _wiring
from ptahk.commands._drive import (
    WRITES_MAX,
    Interrupts,
    read_status,
    store_faults,
    time_is_up,
    what_runs,
)
from ptahk.commands._manager import Manager
from ptahk.commands._render import Messages
from ptahk.commands._resource import Wanted
from ptahk.engine import leader
from ptahk.engine.lifecycle import answers
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.outcome import load
from ptahk.engine.model.resource import (
    ACKNOWLEDGE,
    ACKNOWLEDGED_BY,
    LEASE,
    REQUEST,
    Request,
    RequestType,
    parse_annotation,
    person_text,
    request_text,
)
from ptahk.engine.model.status import Answer, HistoryEntry, Status
from ptahk.engine.ports import Conflict, Document, Indeterminate, Key, NotFound
from ptahk.errors import Refused, Unreachable

WAIT_MAX_S = 30.0
"""Longest single wait: an upper bound, not a poll; a change wakes us."""
TROUBLE_MAX_S = 60.0
"""A cluster that did not answer for so long is given up."""


class ClusterDrive:
    """One command's work on one resource of a cluster.

    :param deadline_s: on the monotonic clock; None: no bound.
    :param follow: the command that shows what is still running, for messages.
    """

    def __init__(
        self,
        reader: _wiring.Reader,
        key: Key,
        coordination_namespace: str,
        messages: Messages,
        *,
        deadline_s: float | None,
        follow: str,
    ) -> None:
        self._reader = reader
        self._key = key
        self._manager = Manager(coordination_namespace)
        self._messages = messages
        self._deadline_s = deadline_s
        self._follow = follow
        self._events: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self._document: Document | None = None
        self._seen = False
        self._trouble_since_s: float | None = None
        self._approved: set[str] = set()
        self.interrupts = Interrupts(lambda: self._events.put(("wake", "", None)))

    @contextlib.contextmanager
    def following(self) -> Iterator[ClusterDrive]:
        """Follow the resource and the managers' Lease while the block runs."""
        namespace = self._manager.namespace
        followers = [
            self._reader.follow(
                self._key.kind, self._key.namespace, self._key.name,
                lambda what, told: self._events.put(("resource", what, told)),
            ),
            self._reader.follow(
                LEASE, namespace, leader.LEASE_NAME,
                lambda what, told: self._events.put(("manager", what, told)),
            ),
        ]  # fmt: skip
        try:
            with self.interrupts.listening():
                for follower in followers:
                    follower.start()
                yield self
        finally:
            for follower in followers:
                follower.close()

    def resource(self) -> Document | None:
        """The stored document now, or None."""
        with store_faults():
            try:
                return self._reader.objects.get(self._key)
            except NotFound:
                return None

    def status(self) -> Status:
        """The status now; a fresh one where there is none."""
        document = self.resource()
        return Status("") if document is None else read_status(document)

    def require_manager(self) -> None:
        """Wait until a manager is known to live. Nothing was written yet.

        :raises Unreachable: none does.
        """
        clock = self._reader.clock
        while not self._manager.live(clock.now()):
            if self.interrupts.asked:
                self._messages.always("Stopped. Nothing was asked for.")
                raise KeyboardInterrupt
            self._next()
            self._check_manager()
            if self._deadline_s is not None and self._now_s() >= self._deadline_s:
                raise time_is_up(Status(""), self._follow)

    def approved(self, uid: str) -> None:
        """An approval of this command, which the manager may use before it is asked to."""
        self._approved.add(uid)

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
        """Put a request on the resource, and wait until the manager has answered it.

        :param word: a person's acknowledgement, written beside the request.
        :raises KeyboardInterrupt: Ctrl-C; what is still running was said.
        :raises PtahkError: no manager, the time is up, or another request took its place.
        """
        self.require_manager()
        standing = self._standing()
        if standing is not None:
            self._messages.note(f"Waiting for the {standing.type} that was asked for before.")
            self.until(lambda document, status: _answered(status, standing.id) or None)
        id_ = self._reader.entropy.operation_id()
        request = Request(id_, type_, plan, declaration, change)
        more = {} if word is None else {ACKNOWLEDGE: word}
        self.annotate({**more, REQUEST: request_text(request)})
        try:
            answer = self.until_answered(request.id)
        except Unreachable as error:
            if error.reason == "NoManager":
                self._withdraw(request.id)
            raise
        return self._own_apply(answer, plan) if type_ == "apply" else answer

    def until_answered(self, request_id: str) -> Answer:
        """Wait until the request with this id is answered.

        :raises Refused: another one took its place.
        """

        def look(document: Document, status: Status) -> Answer | None:
            if _answered(status, request_id):
                return status.request
            now = _request(document)
            if now is None or now.id != request_id:
                raise Refused(
                    f"another request took this one's place (REF={self._key.name})",
                    reason="ResourceBusy",
                    hint=f"{self._follow} shows what runs.",
                )
            return None

        answer: Answer = self.until(look)
        return answer

    def until(self, look: Callable[[Document, Status], Any]) -> Any:
        """Wait until ``look`` finds what it looks for; its answer.

        :raises KeyboardInterrupt: Ctrl-C.
        :raises PtahkError: as ``ask``.
        """
        told: Status | None = None
        status = Status("")
        while True:
            if self._seen:
                if self._document is None:
                    raise Refused(f"the resource is gone (REF={self._key.name})", reason="Deleting")
                status = read_status(self._document)
                self._tell(told, status)
                told = status
                found = look(self._document, status)
                if found is not None:
                    return found
            if self.interrupts.asked:
                self._messages.always(what_runs(status, self._follow))
                raise KeyboardInterrupt
            self._check_manager()
            if self._deadline_s is not None and self._now_s() >= self._deadline_s:
                raise time_is_up(status, self._follow)
            self._next()

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Write annotations on the resource, and nothing else; with a word, whose it is."""
        with store_faults():
            if ACKNOWLEDGE in annotations:
                person = self._reader.person()
                whose = person_text(person.username, person.uid, person.groups)
                annotations = {**annotations, ACKNOWLEDGED_BY: whose}
            for _ in range(WRITES_MAX):
                stored = self.resource()
                if stored is None:
                    raise Refused(f"the resource is gone (REF={self._key.name})", reason="Deleting")
                metadata = dict(stored["metadata"])
                before = metadata.get("annotations") or {}
                if annotations.items() <= before.items():
                    return self._know(stored)
                metadata["annotations"] = {**before, **annotations}
                try:
                    changed = {**stored, "metadata": metadata}
                    return self._know(self._reader.objects.replace(changed))
                except (Conflict, Indeterminate):
                    continue  # the next look shows whether the write landed
        raise Unreachable("the cluster does not take the request", reason="StoreFault")

    def _know(self, document: Document | None) -> None:
        """What is stored now: events from before it say nothing any more."""
        self._document, self._seen = document, True

    def _withdraw(self, request_id: str) -> None:
        """Take back a request that no manager took up, so that none does behind our back."""
        stored = self.resource()
        request = None if stored is None else _request(stored)
        if stored is None or request is None or request.id != request_id:
            return
        status = read_status(stored)
        claim = status.active_operation
        if claim is not None and claim.request == request_id:
            self._messages.note("The manager took the request up before: it goes on with it later.")
            return
        metadata = dict(stored["metadata"])
        metadata["annotations"] = {
            name: text for name, text in metadata["annotations"].items() if name != REQUEST
        }
        with store_faults():
            try:
                self._reader.objects.replace({**stored, "metadata": metadata})
            except (Conflict, Indeterminate):
                self._messages.note("The request stands: a manager that comes back carries it out.")

    def _standing(self) -> Request | None:
        """A request that was not answered yet."""
        document = self.resource()
        request = None if document is None else _request(document)
        if document is None or request is None:
            return None
        return None if _answered(read_status(document), request.id) else request

    def _own_apply(self, answer: Answer, plan: str | None) -> Answer:
        """What became of this command's approval, where the manager used it before the request.

        It applies as soon as an approval is there; the request that follows it then finds the
        approval used up, and its answer would be a refusal of what in truth was done.
        """
        if answer.exit_code == 0 or plan is None:
            return answer
        status = self.status()
        used = {
            record.operation_id
            for record in status.consumed_approvals
            if record.uid in self._approved
        }
        for entry in reversed(status.history):
            if entry.type == "Apply" and entry.operation_id in used and entry.plan == plan:
                return _of_entry(answer, entry)
        return answer

    def _next(self) -> None:
        """Take the next event, or return when something else is to be looked at."""
        limit_s = WAIT_MAX_S
        now_s = self._now_s()
        look_s = self._manager.look_again_s(now_s)
        if look_s > 0:
            limit_s = min(limit_s, look_s)
        if self._deadline_s is not None:
            limit_s = min(limit_s, self._deadline_s - now_s)
        try:
            source, what, told = self._events.get(timeout=max(0.001, limit_s))
        except queue.Empty:
            return
        if source != "wake":
            self._take(source, what, told)

    def _take(self, source: str, what: str, told: Any) -> None:
        if what == "Trouble":
            self._in_trouble(told)
            return
        self._trouble_since_s = None
        document: Document | None = None if what == "Gone" else told
        if what == "Listed":
            document = told[0] if told else None
        if source == "manager":
            self._manager.saw(document, self._now_s())
        elif not (self._seen and _older(document, self._document)):
            self._know(document)

    def _in_trouble(self, error: Exception) -> None:
        now_s = self._now_s()
        if self._trouble_since_s is None:
            self._trouble_since_s = now_s
            self._messages.note(f"The cluster does not answer: {error}", "warning")
        if lasting(error, self._trouble_since_s, now_s):
            with store_faults():
                raise error

    def _check_manager(self) -> None:
        fault = self._manager.fault(self._now_s())
        if fault is not None:
            raise fault

    def _now_s(self) -> float:
        return self._reader.clock.monotonic()

    def _tell(self, before: Status | None, now: Status) -> None:
        for line in steps(before, now):
            self._messages.step(line)


def lasting(error: Exception, since_s: float, now_s: float) -> bool:
    """Whether it is of no use to wait longer for a cluster that fails since then."""
    # By name, for a backend's own errors are not for commands to import.
    permanent = type(error).__name__ in ("Forbidden", "NotServed", "Unauthenticated")
    return permanent or now_s - since_s > TROUBLE_MAX_S


def steps(before: Status | None, now: Status) -> Iterator[str]:
    """The durable steps between two readings of a status, in words."""
    if before is None:
        return
    old, claim = before.active_operation, now.active_operation
    if claim is not None:
        name = f"{claim.type} {claim.operation_id[:12]}"
        same = old is not None and old.operation_id == claim.operation_id
        was = old if same else None
        if was is None:
            yield f"{name}: claim stored"
        if claim.epoch is not None and (was is None or was.epoch != claim.epoch):
            yield f"{name}: realm held at epoch {claim.epoch}"
        for words, field in (
            ("surroundings stored", "snapshot_digest"),
            ("approval consumed", "approval"),
            ("dispatch marked", "dispatch_nonce"),
            ("Job confirmed", "job_uid"),
            ("outcome stored", "outcome"),
        ):
            if getattr(claim, field) is not None and (was is None or getattr(was, field) is None):
                yield f"{name}: {words}"
    elif old is not None:
        yield f"{old.type} {old.operation_id[:12]}: claim cleared"
    if before.pending_lock_release is not None and now.pending_lock_release is None:
        yield "realm released"


def _older(document: Document | None, known: Document | None) -> bool:
    """An event from before our own write."""
    if document is None or known is None:
        return False
    versions = [item["metadata"]["resourceVersion"] for item in (document, known)]
    same = document["metadata"]["uid"] == known["metadata"]["uid"]
    return same and all(v.isdigit() for v in versions) and int(versions[0]) < int(versions[1])


def _request(document: Document) -> Request | None:
    text = (document["metadata"].get("annotations") or {}).get(REQUEST)
    try:
        found: Request | None = None if not text else parse_annotation(Request, text, REQUEST)
    except FieldError:
        return None  # nobody answers it; a new one takes its place
    return found


def _answered(status: Status, request_id: str) -> bool:
    found = status.request
    return found is not None and found.id == request_id and found.state == "Done"


def _of_entry(answer: Answer, entry: HistoryEntry) -> Answer:
    """The end of an Apply in the words of an answer."""
    end = answers.end_of_apply(load(entry.settled or entry.outcome), entry.converged is not False)
    return Answer(
        id=answer.id,
        type=answer.type,
        state="Done",
        outcome=end.outcome,
        reason=end.reason,
        message=end.message,
        exit_code=end.exit_code,
        field=end.field,
        hint=end.hint,
        operation_id=entry.operation_id,
        plan=entry.plan,
        time=entry.finish_time,
    )
