"""Resources that are brought to a step of their operation each, and stand there.

The managers are the two replicas of the release that Helm installed, behind the fault proxy. It
holds the leader's write of that step, and lets the leader write nothing more for that resource but
renewals of its Lease. What happens to leader, Pod or node then happens at exactly that step. Reads
go on: the leader answers admission too.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptahk.engine.model.job import OPERATION_ID
from tests.kit import podbed, podreplica
from tests.kit.apifaults import Hang, Refuse, Rule, Seen
from tests.kit.apiproxy import ApiProxy
from tests.kit.clusters import PodCluster
from tests.kit.podbed import Bed
from tests.kit.podreplica import Replica
from tests.kit.rawapi import RawApi
from tests.kit.waiting import until
from tests.kit.wiresteps import WRITES, WireSteps

BEFORE = "CREATE TABLE app.orders (id int);"
AFTER = "CREATE SCHEMA app; CREATE TABLE app.orders (id int, more int);"
STATEMENT = "Apply statement"
"""No write of a manager: the Apply's statement runs."""
RENEWAL = "Apply RenewLease"
APPROVAL = "Apply ConsumeApproval"
LEASE = "12s"
"""Of the leader: a busy machine may not cost it the lead."""
NEXT_S = 240
"""For a replica to be ready: the kubelet waits longer before each new life."""
ENDS = {"killed": {137}, "stopped": {6, 137}, "apart": {6}}
"""Fault → exit codes: by the signal; by the lost lead. Who is stopped for long fails its liveness
probe, and may be killed for it before it can go on."""
DEADLINE_S = 60
ARRIVAL_S = 240
STEPS = Path(__file__).resolve().parents[1] / "cluster" / "steps.txt"
"""The durable steps of an Apply and its proof; ``test_leader_faults`` records them."""


def kept() -> list[str]:
    """Those steps."""
    return STEPS.read_text().splitlines()


@dataclass
class Standing:
    """A resource on its way to its step, or there."""

    step: str
    bed: Bed
    done: bool
    """The write of the step is carried out; else it is on its way."""
    locks: ExitStack
    hold: Rule | None = None
    """None: its statement waits for a lock, and no write is held."""
    version: str = ""
    """Of the resource as it stood there."""

    def release(self) -> None:
        """Let it go on: the held write, and everything after it."""
        if self.hold is not None:
            self.hold.release()

    def wake(self) -> None:
        """Have the manager look at it now, however long it wanted to wait."""
        self.bed.kubectl("annotate", "ptahschema", "db", "--overwrite", "tests/look=now")


@dataclass
class Theatre:
    """Replicas behind the proxy, and the resources that they work on."""

    town: PodCluster
    proxy: ApiProxy
    beds: Callable[[], Bed]
    every: ExitStack
    person: podbed.Person
    api: RawApi = field(init=False)
    steps: WireSteps = field(init=False)
    replicas: list[Replica] = field(default_factory=list)
    """Who leads, and who is to lead next, each in one life: a Pod may come more than once."""
    _waiting: dict[str, ExitStack] = field(default_factory=dict)
    """Namespace → the lock that keeps its statement waiting until its Lease is renewed."""

    def __post_init__(self) -> None:
        self.api = RawApi(self.town.plane)
        self.steps = WireSteps(self.api)
        self.proxy.rule(Refuse(), when=self._spied)
        self.replicas.append(until(self._leader, "a replica to lead", NEXT_S))

    def _leader(self) -> Replica | None:
        return next((found for found in self._ready() if found.leads()), None)

    def _ready(self) -> list[Replica]:
        return podreplica.ready(self.town, self.api)

    def _spied(self, seen: Seen) -> bool:
        """Name every step; a statement that only waited for a renewal waits no longer."""
        found = self.steps.of(seen)
        if found is not None and found[1] == RENEWAL and found[0] in self._waiting:
            self._waiting.pop(found[0]).close()
        return False

    def standby(self) -> Replica:
        """The other replica, once it is ready: it answers admission, and is to lead next."""
        address = self.replicas[-1].address

        def other() -> Replica | None:
            return next((found for found in self._ready() if found.address != address), None)

        return until(other, "the other replica to be ready", NEXT_S)

    def replica(self) -> None:
        """Who is to lead next, once it is ready."""
        self.replicas.append(self.standby())

    def enter(
        self, step: str, *, done: bool = True, hold: bool = True, locked: bool = False,
        renewed: bool = False, deadline_s: int = DEADLINE_S,
    ) -> Standing:  # fmt: skip
        """A resource that the latest replica brings as far as this step.

        :param done: see ``Standing``.
        :param hold: it stops there.
        :param locked: a lock keeps its statement waiting; else only where the step needs one.
        :param renewed: that lock goes once the Lease is renewed; so does a lock that the step
            alone needed.
        """
        bed, locks = self.beds(), self.every.enter_context(ExitStack())
        bed.database.run(BEFORE, bed.role)
        made = Standing(step, bed, done, locks)
        if locked or step in (STATEMENT, RENEWAL):
            holding = locks.enter_context(bed.database.connect())
            locks.enter_context(holding.transaction())
            holding.execute("LOCK TABLE app.orders IN ACCESS SHARE MODE")
        if renewed or (step == RENEWAL and not locked):
            self._waiting[bed.namespace] = locks
        if hold and step != STATEMENT:
            self._hold(made, self.replicas[-1].address)
        policy = {"apply": "OnApproval" if step == APPROVAL else "Always", "lockTimeout": "10m"}
        execution = {"activeDeadlineSeconds": deadline_s, "failureRetryInterval": "5s"}
        bed.make(text=AFTER, interval="0", policy=policy, execution=execution)
        return made

    def onward(self, made: Standing, step: str) -> Standing:
        """Let one that stands go on to a later step of its, where it stands again."""
        after = Standing(step, made.bed, True, made.locks)
        self._hold(after, self.replicas[-1].address)
        made.release()
        made.wake()
        return after

    def _hold(self, made: Standing, client: str) -> None:
        namespace = made.bed.namespace
        wanted = (namespace, made.step)

        def stands(seen: Seen) -> bool:
            if made.hold is None or not made.hold.hits or made.hold.released:
                return False
            step = self.steps.of(seen)
            if step is None:
                return f"/namespaces/{namespace}/" in seen.path
            return step[0] == namespace and not step[1].endswith("RenewLease")

        self.proxy.rule(Refuse(), method="|".join(WRITES), client=client, when=stands)
        made.hold = self.proxy.rule(
            Hang(done=made.done, outlives=True), client=client, times=1,
            when=lambda seen: self.steps.of(seen) == wanted,
        )  # fmt: skip

    def arrived(self, made: Standing) -> bool:
        """Whether it stands at its step."""
        if made.hold is None:
            return made.bed.waits()
        return bool(made.hold.done if made.done else made.hold.hits)

    def arrive(self, made: Standing) -> None:
        """Wait until it stands at its step."""
        if made.step == APPROVAL:
            self.approve(made.bed)
        if made.hold is None:
            until(made.bed.waits, f"the statement in {made.bed.namespace}", ARRIVAL_S)
        else:
            wait = made.hold.wait_done if made.done else made.hold.wait_hit
            try:
                wait(timeout_s=ARRIVAL_S)
            except AssertionError:
                seen = self.steps.seen_of(made.bed.namespace)
                raise AssertionError(f"no {made.step}: {seen}, {made.bed.status()}") from None
        made.version = made.bed.stored()["metadata"]["resourceVersion"]

    def approve(self, bed: Bed) -> None:
        """As a person does, once there is something to approve."""
        until(lambda: bed.status().get("phase") == "AwaitingApproval", "the plan", ARRIVAL_S)
        answer = self.person.run("approve", "schema/db", "-n", bed.namespace)
        assert answer.code == 0, answer

    def strike(self, fault: str) -> None:
        """Of the leader: ``killed``, ``stopped`` or ``apart``. Returns once the next one leads."""
        leader, following = self.replicas[-2:]
        if fault == "killed":
            leader.signal(signal.SIGKILL)
        elif fault == "stopped":
            leader.signal(signal.SIGSTOP)
        else:
            self.proxy.partition(leader.address)
        if fault != "stopped":
            # A lead that cannot be kept is given up before anybody else can have it.
            assert leader.wait() in ENDS[fault]
        until(following.leads, "the next to lead", 120)

    def heal(self, fault: str) -> None:
        """Let the old leader go on, which has to end, and to write nothing more of its steps."""
        leader = self.replicas[-2]
        if fault == "stopped":
            # What it had checked and not yet sent is sent now, and refused: it was overtaken.
            with contextlib.suppress(RuntimeError):
                leader.signal(signal.SIGCONT)
            assert leader.wait() in ENDS[fault]
        elif fault == "apart":
            before = self._written(leader)
            self.proxy.heal(leader.address)
            assert self._written(leader) == before, "it wrote though it led no more"

    def _written(self, replica: Replica) -> list[Seen]:
        """Durable steps that were sent from its address: its next life leads no more than it."""
        seen = self.proxy.seen(method="|".join(WRITES), client=replica.address)
        return [item for item in seen if self.steps.of(item) is not None]


def accounted(bed: Bed, what: Any) -> list[dict[str, Any]]:
    """It converged, one Job a claim, the statement took effect once, nothing is owed.

    :returns: the Applies of its history, oldest first.
    """
    bed.ready()
    until(lambda: bed.lease() is None and not bed.claim(), f"rest: {what}", 60)
    status, told = bed.status(), (what, bed.ledger(), bed.history())
    assert "pendingObservation" not in status and "pendingLockRelease" not in status, told
    states = [state for _, state in bed.ledger()]
    assert {"finished", "fenced"}.issuperset(states), told
    assert len(bed.ledger()) == len({operation for operation, _ in bed.ledger()}), told
    applies = [entry for entry in bed.history() if entry["type"] == "Apply"]
    settled = [entry["settled"]["type"] for entry in applies]
    assert settled.count("Succeeded") == 1, told
    assert {"Succeeded", "NotStarted", "Failed"}.issuperset(settled), told
    # What a lock of the test keeps waiting past its deadline ends too, with nothing changed.
    assert 1 <= states.count("finished") <= 1 + settled.count("Failed"), told
    assert bed.jobs().count("apply") <= len(applies), f"one Job a claim: {told}"
    rows = bed.database.rows(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'app.orders'::regclass AND attnum > 0"
    )
    assert sorted(rows) == [("id",), ("more",)], told
    return applies


def jobs_of(bed: Bed, operation: str) -> list[dict[str, Any]]:
    """The Jobs of one kind of operation that are stored, such as ``apply``."""
    path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs"
    items: list[dict[str, Any]] = bed.api.call("GET", path).document["items"]
    return [item for item in items if item["metadata"]["name"].split("-")[2] == operation]


def one_job_a_claim(bed: Bed, applies: list[dict[str, Any]], what: Any) -> None:
    """No Apply of its history had two Jobs, and none had one that is not in it."""
    made = [item["metadata"]["annotations"][OPERATION_ID] for item in jobs_of(bed, "apply")]
    assert len(made) == len(set(made)), what
    assert set(made) <= {entry["operationId"] for entry in applies}, what
