"""The whole paths that are crashed, by family: what people do, and how it has to end.

A story is resolved when its person's command ended well (or the resource converged by itself, or
is gone), nothing is owed, no attempt is open, and the realm is free.
"""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ptahk.commands import _drive
from ptahk.engine import driver
from ptahk.engine.model import plan as plans
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import (
    ACKNOWLEDGE,
    API_VERSION,
    CONFIG_MAP,
    PLAN,
    REQUEST,
    RESOURCE_UID,
    SCHEMA,
    Request,
    request_text,
)
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Document, Key
from tests.kit import fakesequence, toy
from tests.kit.fakedb import SERVER
from tests.matrix.bed import Bed, Stuck

Act = tuple[str, Callable[[], None]]
Script = tuple[tuple[str, Callable[[Bed], bool], Callable[[Bed], None]], ...]
"""What people do beside the command: (name, when, what), in order."""

COMMANDS_MAX = 8
"""How often the same command may have to be run."""


@dataclass(frozen=True)
class PlainStory:
    """A resource of one family, its person, and what happens to them."""

    name: str
    kind: str = SCHEMA
    mutation: str = "Apply"
    local: bool = True
    automatic: bool = False
    slow: bool = False
    lines: tuple[str, ...] = ("a", "!b")
    policy: str = "OnApproval"
    script: Script = ()
    prepare: Callable[[Bed, Document], None] = lambda bed, document: None
    ask: str = ""
    """Type of the request of the command; empty: plan, approve, apply."""
    imports: bool = False
    """Its command is ``apply PLANFILE``: the plan was made elsewhere."""
    goes: bool = False
    """The resource is deleted in it."""
    starts: Callable[[Bed], bool] = lambda bed: True
    """From when on its steps are hit; what comes before is hit in another story."""
    stops: Callable[[Bed], bool] = lambda bed: False
    """From when on a first crash is one of another story too."""
    forced: bool = False
    """Somebody edits a Lease by hand, which some invariants do not survive."""

    # -- the world ----------------------------------------------------------------------------

    def set_up(self, bed: Bed) -> Document:
        spec: dict[str, Any] = {
            "target": {
                "engine": "postgresql",
                "coordinationKey": "test/db",
                "urlFrom": {"name": "db"},
            }
        }
        if self.kind == SCHEMA:
            spec["desired"] = {"inline": "\n".join(self.lines)}
            spec["interval"] = "0"
            spec["policy"] = {"apply": self.policy, "allowDestructive": True}
        elif self.kind == MIGRATION:
            files = {"kind": CONFIG_MAP, "apiVersion": "v1",
                     "metadata": {"namespace": "local", "name": "files"},
                     "data": fakesequence.files_of(self.lines)}  # fmt: skip
            bed.api.create(files)
            spec["artifact"] = {"configMapRef": {"name": "files"}}
            spec["interval"] = "0"
            spec["policy"] = {"apply": self.policy}
        else:
            spec["mark"] = self.lines[0]
            bed.database.names = toy.NAMES
            statements = tuple(f"create {line}" for line in self.lines)
            bed.database.plans[toy.plan_digest(self.lines[0])] = statements
        metadata = {"namespace": "local", "name": "default"}
        document = bed.api.create(
            {"apiVersion": API_VERSION, "kind": self.kind, "metadata": metadata, "spec": spec}
        )
        self.prepare(bed, document)
        bed.auditor.forced = self.forced
        return bed.api.get(Key(self.kind, "local", "default"))

    # -- its people ---------------------------------------------------------------------------

    def act(self, bed: Bed) -> Act | None:
        """What a person does now: the story's own part first, then the command."""
        if bed.phase < len(self.script):
            name, when, what = self.script[bed.phase]
            if when(bed):
                return name, lambda: self._next(bed, what)
        if self.automatic or not bed.resting or bed.document() is None:
            return None
        return self._command(bed)

    def _next(self, bed: Bed, what: Callable[[Bed], None]) -> None:
        what(bed)
        bed.phase += 1

    def _command(self, bed: Bed) -> Act | None:
        status = bed.status()
        assert status is not None
        if "deletionTimestamp" in (bed.document() or {})["metadata"]:
            return None
        answer, asked = status.request, request_of(bed)
        if asked is None or answer is None or answer.id != asked.id:
            if asked is not None:
                raise Stuck(f"a request stays without an answer: {bed.shown()}")
            return "a command", lambda: self._begin(bed)
        if answer.reason == "ChangesPending" and answer.plan is not None:
            plan = answer.plan
            return "approval", lambda: approve_and_apply(bed, plan)
        if self._good(bed):
            return None
        return "the command again", lambda: self._begin(bed)

    def _begin(self, bed: Bed) -> None:
        bed.asked += 1
        if bed.asked > COMMANDS_MAX:
            raise Stuck(f"the same command does not end well: {bed.shown()}")
        if self.imports and request_of(bed) is None:
            approve_and_apply(bed, import_plan(bed))
        else:
            ask(bed, self.ask or "plan")

    def _good(self, bed: Bed) -> bool:
        """The last request ended well, and what it was for is there."""
        status = bed.status()
        assert status is not None
        answer = status.request
        if answer is None or answer.exit_code != 0:
            return False
        return self.ask == "rebind" or set(bed.database.live) >= set(self.lines)

    # -- its end ------------------------------------------------------------------------------

    def ended(self, bed: Bed) -> bool:
        """People are content, and nothing is owed."""
        if bed.phase < len(self.script):
            return False
        status = bed.status()
        if status is None:
            return self.goes
        if self.goes or not settled(status):
            return False
        if not self.automatic:
            return bed.due is None and self._good(bed)
        return self._converged(bed, status)

    def _converged(self, bed: Bed, status: Status) -> bool:
        if set(bed.database.live) != set(self.lines):
            return False
        if self.kind == toy.KIND:
            return True
        if self.kind == MIGRATION:
            seen = status.last_observation
            return seen is not None and seen["verdict"] == "nothingPending"
        last = status.last_plan
        return last is not None and not last["statements"]

    def check(self, bed: Bed) -> None:
        """The end: everything resolved, everything once, nothing held."""
        problems = list(problems_at_end(self, bed))
        if problems:
            raise Stuck("; ".join(problems))


def problems_at_end(story: PlainStory, bed: Bed) -> list[str]:
    """What is wrong with this end."""
    found, db, status = [], bed.database, bed.status()
    for lease in bed.leases():
        holder = lease["spec"].get("holderIdentity")
        # An acquisition that landed after its resource's end, undispatched: the next claim takes
        # it over once it was watched (invariant 33).
        late = status is None and holder not in bed.auditor.dispatched
        if holder is not None and not late:
            found.append("the realm is still held")
    if status is not None and not settled(status):
        found.append(f"something is still owed: {bed.shown()}")
    if db.session is not None or bed.running():
        found.append("an executor or its session is left")
    for operation in bed.auditor.dispatched.values():
        row = db.rows.get(operation)
        if row is None or row["state"] == "started":
            found.append(f"attempt {operation[:12]} is still open")
    # A toy touches whenever it is asked; a declaration leaves nothing to do a second time.
    found += [f"the Job of {job.order.spec.operation} is never cleaned up"
              for job in bed.jobs.jobs.values()
              if job.present and job.ttl_s is None and status is not None]  # fmt: skip
    once: list[Any] = [item if story.kind == toy.KIND else item[1] for item in db.effects]
    if len(once) != len(set(once)):
        found.append(f"a statement took effect twice: {once}")
    if not story.goes and story.ask != "rebind" and set(db.live) != set(story.lines):
        found.append(f"live is {db.live}")
    for entry in () if status is None else status.history:
        if entry.type == story.mutation and entry.settled is None:
            found.append("an Apply was never settled")
    return found


def settled(status: Status) -> bool:
    """Nothing is owed and nothing is frozen."""
    return driver.at_rest(status) and status.pending_observation is None and status.frozen is None


# -- what people do ---------------------------------------------------------------------------


def request_of(bed: Bed) -> Request | None:
    """The request on the resource."""
    document = bed.document()
    text = ((document or {}).get("metadata") or {}).get("annotations", {}).get(REQUEST)
    if not text:
        return None
    found = json.loads(text)
    return Request(found["id"], found["type"], found.get("plan"))


def annotate(bed: Bed, name: str, text: str) -> None:
    document = bed.document()
    assert document is not None
    metadata = dict(document["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: text}
    bed.api.replace(document | {"metadata": metadata})


def ask(bed: Bed, type_: str, plan: str | None = None) -> None:
    request = Request(bed.dice.operation_id(), type_, plan)  # type: ignore[arg-type]
    annotate(bed, REQUEST, request_text(request))


def approve_and_apply(bed: Bed, plan: str) -> None:
    found = bed.api.find(Key(PLAN, "local", plans.plan_name(plan)))
    assert found is not None
    name = f"approval-{bed.dice.nonce()}"
    approver = plans.Approver("ann")
    bed.api.create(plans.approval_document("local", name, plans.parse_plan(found), approver))
    ask(bed, "apply", plan)


@functools.cache
def made_elsewhere() -> tuple[Document, ...]:
    """Bundle, plan bytes and plan, as another store's engine published them."""
    bed = Bed(PlainStory("elsewhere", lines=_ONE))
    while not (bed.api.list(PLAN) and bed.resting):
        bed.turn()
    documents = (*bed.api.list(CONFIG_MAP), *bed.api.list(PLAN))
    kept = ("namespace", "name", "labels", "ownerReferences")
    return tuple(
        {name: part for name, part in document.items() if name != "metadata"}
        | {"metadata": {name: document["metadata"][name] for name in kept}}
        for document in sorted(documents, key=lambda item: str(item["metadata"]["uid"]))
    )


def import_plan(bed: Bed) -> str:
    """What ``apply PLANFILE`` stores before it asks; the fingerprint."""
    for document in made_elsewhere():
        _drive.create_once(bed.ports.objects, document)
    return str(made_elsewhere()[-1]["spec"]["fingerprint"])


def edit(bed: Bed, **changes: Any) -> None:
    document = bed.document()
    assert document is not None
    bed.api.replace(document | {"spec": {**document["spec"], **changes}})


def delete(bed: Bed) -> None:
    document = bed.document()
    if document is not None:
        bed.api.delete(document)


def claims(mutation: str, *, dispatched: bool) -> Callable[[Bed], bool]:
    """The mutation is claimed: ready to be dispatched, or dispatched and not ended."""

    def when(bed: Bed) -> bool:
        status = bed.status()
        claim = None if status is None else status.active_operation
        if claim is None or claim.type != mutation or claim.outcome is not None:
            return False
        return claim.dispatch_started if dispatched else claim.snapshot is not None

    return when


def owes_proof(bed: Bed) -> bool:
    """The mutation has ended, and its proof is claimed."""
    status = bed.status()
    claim = None if status is None else status.active_operation
    return claim is not None and claim.type == "Prove" and claim.dispatch_started


def rests(bed: Bed) -> bool:
    return bed.resting


def claimed(mutation: str) -> Callable[[Bed], bool]:
    """The mutation's claim was just written."""

    def when(bed: Bed) -> bool:
        status = bed.status()
        claim = None if status is None else status.active_operation
        return claim is not None and claim.type == mutation

    return when


def acknowledge(bed: Bed) -> None:
    """A person looks at the frozen number, and says that it is known."""
    status = bed.status()
    assert status is not None and status.frozen is not None
    text = f'{{"reason":"known","frozen":{status.frozen.number}}}'
    annotate(bed, ACKNOWLEDGE, text)


def is_frozen(bed: Bed) -> bool:
    status = bed.status()
    return bed.resting and status is not None and status.frozen is not None


def from_a_restored_store(bed: Bed, document: Document) -> None:
    """The ledger knows an attempt of this store that the store does not know."""
    bed.database.rows["f" * 32] = {
        "operationId": "f" * 32, "storeUid": bed.store.uid, "storeKind": bed.store.kind,
        "serverIdentity": SERVER, "coordinationDigest": "", "sharedRealm": False, "number": 7,
        "epoch": "7." + "0" * 16, "startNonce": "f" * 32, "planDigest": None,
        "notAfter": "2026-01-01T00:00:00Z", "state": "finished", "statementsTotal": 0,
        "statementsDone": 0, "statementRunning": None, "outcome": "applied",
    }  # fmt: skip


def bound_elsewhere(bed: Bed, document: Document) -> None:
    """The database belongs to another realm, by its ledger's binding row."""
    bed.database.binding = "sha256:" + "5" * 64


def fails_at(line: str) -> Callable[[Bed, Document], None]:
    def prepare(bed: Bed, document: Document) -> None:
        bed.database.failing.add(line)

    return prepare


def mended(bed: Bed) -> None:
    bed.database.failing.clear()


def has_failed(bed: Bed) -> bool:
    status = bed.status()
    answer = None if status is None else status.request
    asked = request_of(bed)
    return (
        bed.resting and answer is not None and asked is not None and answer.id == asked.id
        and answer.reason not in ("ChangesPending", "Converged") and answer.exit_code != 0
        and bool(bed.database.rows)
    )  # fmt: skip


def was_answered(bed: Bed) -> bool:
    status = bed.status()
    return bed.resting and status is not None and status.request is not None


def old_plans(bed: Bed, document: Document) -> None:
    """Ten plans of earlier declarations."""
    uid = document["metadata"]["uid"]
    for number in range(plans.PLANS_KEPT):
        metadata = {
            "namespace": "local", "name": f"ptahk-plan-{number:032x}",
            "labels": {RESOURCE_UID: uid},
        }  # fmt: skip
        head = {"apiVersion": API_VERSION, "metadata": metadata}
        bed.api.create({**head, "kind": PLAN, "spec": {"time": "2025-01-01T00:00:00Z"}})
        bed.api.create({**head, "kind": CONFIG_MAP, "immutable": True, "binaryData": {}})


def another_pod(bed: Bed) -> None:
    """The Job controller made a second Pod, and it is seen late."""
    status = bed.status()
    owed = None if status is None else status.pending_observation
    assert owed is not None
    job = bed.jobs.jobs.get(("local", owed.job_name))
    if job is not None:
        job.pods.append("late-pod")


def give_lease_away(bed: Bed) -> None:
    """Somebody clears the Lease by hand."""
    for document in bed.leases():
        if document["spec"].get("holderIdentity"):
            spec = {**document["spec"], "holderIdentity": None}
            bed.api.replace(document | {"spec": spec})


def acquiring(bed: Bed) -> bool:
    """The Apply's claim waits for its mark, or its acquisition is under way."""
    return UNDISPATCHED(bed) or any(item.name == "AcquireLease" for item in bed.late)


def all_done(count: int) -> Callable[[Bed], bool]:
    """People have done so many things of their story, and the engine rests again."""
    return lambda bed: bed.phase >= count and bed.resting


def suspend(bed: Bed) -> None:
    edit(bed, suspend=True)


def resume(bed: Bed) -> None:
    edit(bed, suspend=False)


def suspended_from_the_start(bed: Bed, document: Document) -> None:
    bed.api.replace(document | {"spec": {**document["spec"], "suspend": True}})


UNDISPATCHED = claims("Apply", dispatched=False)
DISPATCHED = claims("Apply", dispatched=True)
TOUCHED = claims("Touch", dispatched=True)
_APPLY = claimed("Apply")
_ONE = ("a",)
_MANAGED: dict[str, Any] = {"lines": _ONE, "local": False, "automatic": True, "policy": "Always"}
_TOY: dict[str, Any] = {"kind": toy.KIND, "mutation": "Touch", "lines": _ONE}

STORIES: dict[str, PlainStory] = {
    story.name: story
    for story in (
        PlainStory("apply"),
        PlainStory("failed", lines=("a", "c"), prepare=fails_at("c"), starts=_APPLY,
                   script=(("mended", has_failed, mended),), stops=all_done(1)),
        PlainStory("refused", lines=_ONE, prepare=suspended_from_the_start,
                   script=(("resume", was_answered, resume),), stops=all_done(1)),
        PlainStory("suspended-before", lines=_ONE, starts=_APPLY, stops=all_done(2),
                   script=(("suspend", acquiring, suspend), ("resume", rests, resume))),
        PlainStory("suspended-after", lines=_ONE, starts=DISPATCHED,
                   script=(("suspend", DISPATCHED, suspend), ("resume", rests, resume))),
        PlainStory("imported", lines=_ONE, imports=True, stops=claimed("Apply")),
        PlainStory("deleted-before", **_MANAGED, starts=_APPLY, goes=True,
                   script=(("delete", acquiring, delete),)),
        PlainStory("deleted-after", **_MANAGED, starts=DISPATCHED, goes=True,
                   script=(("delete", DISPATCHED, delete),)),
        PlainStory("frozen", lines=_ONE, prepare=from_a_restored_store, stops=all_done(1),
                   script=(("acknowledge", is_frozen, acknowledge),)),
        PlainStory("rebind", ask="rebind", prepare=bound_elsewhere),
        PlainStory("prune", lines=_ONE, prepare=old_plans, stops=was_answered,
                   starts=claimed("Plan")),
        PlainStory("late-pod", lines=_ONE, starts=owes_proof,
                   script=(("a late Pod", owes_proof, another_pod),)),
        PlainStory("lease-lost", lines=_ONE, starts=DISPATCHED, forced=True,
                   script=(("the Lease is cleared", DISPATCHED, give_lease_away),)),
        PlainStory("cluster", **_MANAGED, slow=True, starts=_APPLY),
        PlainStory("sequence", kind=MIGRATION, lines=_ONE),
        PlainStory("sequence-cluster", **_MANAGED, kind=MIGRATION, slow=True, starts=_APPLY),
        PlainStory("touch", **_TOY),
        PlainStory("touch-cluster", **_TOY, local=False, slow=True, starts=claimed("Touch")),
        PlainStory("touch-deleted", **_TOY, goes=True, starts=TOUCHED,
                   script=(("delete", TOUCHED, delete),)),
    )
}  # fmt: skip
"""Every story, by name."""
