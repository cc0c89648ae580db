"""One resource, one database and the engine between them, driven pass by pass.

``Scenario`` is the world; ``Process`` is one process in it, with a memory of its own and faults
around its ports. Every step is one real ``run_pass``.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptahk.engine import driver
from ptahk.engine.family import Family
from ptahk.engine.model import plan as plans
from ptahk.engine.model import status as statuses
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import (
    API_VERSION,
    CONFIG_MAP,
    LEASE,
    PLAN,
    REQUEST,
    SCHEMA,
    Request,
    RequestType,
    request_text,
)
from ptahk.engine.model.status import Answer, Status
from ptahk.engine.ports import Key, Ports
from tests.kit import fakesequence, toy
from tests.kit.auditor import AuditedJobs, AuditedObjects, Auditor
from tests.kit.fakedb import FakeDatabase
from tests.kit.faults import Faults, FaultyJobs, FaultyObjects
from tests.kit.memory import MemoryWorld, memory_world

FAMILIES: Mapping[str, Family] = {**driver.FAMILIES, toy.KIND: toy.ToyFamily()}
PASSES_MAX = 400


class Stuck(AssertionError):
    """A world that does not come to rest."""


@dataclass
class Scenario:
    """The world of one resource."""

    world: MemoryWorld
    database: FakeDatabase
    key: Key
    auditor: Auditor
    passes: int = 0

    def process(self, faults: Faults | None = None) -> "Process":
        """A fresh process: it remembers nothing.

        The auditor stands at the documents, inside the faults, and before the Jobs, outside them:
        a status counts when it lands, a create when it is sent.
        """
        ports = self.world.ports()
        faults = faults or Faults()
        objects = AuditedObjects(ports.objects, self.auditor)
        jobs = FaultyJobs(ports.jobs, faults)
        ports = dataclasses.replace(
            ports,
            objects=FaultyObjects(objects, faults),
            jobs=AuditedJobs(jobs, self.auditor, self.status),
        )
        return Process(self, ports)

    def beside(self, name: str, **changes: Any) -> "Scenario":
        """Another resource of the same kind, database and world; ``changes`` go into its spec."""
        document = self.world.objects.get(self.key)
        created = self.world.objects.create(
            {
                "apiVersion": API_VERSION,
                "kind": self.key.kind,
                "metadata": {"namespace": self.key.namespace, "name": name},
                "spec": {**document["spec"], **changes},
            }
        )
        key = Key(self.key.kind, self.key.namespace, created["metadata"]["name"])
        return Scenario(self.world, self.database, key, self.auditor)

    def status(self) -> Status:
        document = self.world.objects.get(self.key)
        return statuses.parse(document.get("status"), document["metadata"]["uid"])

    def answer(self) -> Answer:
        answer = self.status().request
        assert answer is not None
        return answer

    def edit(self, **changes: Any) -> None:
        """Change fields of ``spec``."""
        document = self.world.objects.get(self.key)
        document["spec"] = {**document["spec"], **changes}
        self.world.objects.replace(document)

    def declare(self, *lines: str) -> None:
        """Declare these lines."""
        if self.key.kind == MIGRATION:
            self.put_files(fakesequence.files_of(lines))
            return
        self.edit(desired={"inline": "\n".join(lines)})

    def put_files(self, files: Mapping[str, str]) -> None:
        """The migration directory, as its ConfigMap."""
        key = Key(CONFIG_MAP, self.key.namespace, "files")
        document = self.world.objects.get(key)
        self.world.objects.replace({**document, "data": dict(files)})

    def ask(
        self, type_: RequestType, plan: str | None = None, change: dict[str, str] | None = None
    ) -> str:
        """Put a request on the resource; its id."""
        request = Request(self.world.entropy.operation_id(), type_, plan, change=change)
        document = self.world.objects.get(self.key)
        annotations = dict(document["metadata"].get("annotations") or {})
        annotations[REQUEST] = request_text(request)
        document["metadata"]["annotations"] = annotations
        self.world.objects.replace(document)
        return request.id

    def approve(self, fingerprint: str) -> None:
        """A person's approval of the published plan."""
        document = self.world.objects.get(
            Key(PLAN, self.key.namespace, plans.plan_name(fingerprint))
        )
        plan = plans.parse_plan(document)
        name = f"approval-{self.world.entropy.nonce()}"
        self.world.objects.create(
            plans.approval_document(self.key.namespace, name, plan, plans.Approver("ann"))
        )

    def lease(self) -> Any:
        """The realm's Lease as stored, or None."""
        found = self.world.objects.list(LEASE)
        assert len(found) <= 1
        return found[0] if found else None

    def holder(self) -> str | None:
        found = self.lease()
        return None if found is None else found["spec"].get("holderIdentity")


@dataclass
class Process:
    """One process that makes passes."""

    scenario: Scenario
    ports: Ports

    def step(self) -> driver.PassResult:
        """One pass."""
        self.scenario.passes += 1
        return driver.run_pass(self.ports, self.scenario.key, families=FAMILIES)

    def settle(self, *, patience_s: float = 10_000.0, passes: int = PASSES_MAX) -> list[str]:
        """Passes until nothing is left to do; Jobs run, and time passes, whenever it waits.

        :returns: the steps taken.
        """
        steps: list[str] = []
        clock = self.scenario.world.clock
        for _ in range(passes):
            result = self.step()
            steps.append(result.step)
            if result.requeue is None:
                return steps
            if self.scenario.world.jobs.run_all():
                continue
            wait_s = result.requeue.at - clock.monotonic()
            if wait_s > 0:
                patience_s -= wait_s
                if patience_s < 0:
                    return steps
                clock.advance(wait_s)
        raise Stuck(steps[-40:])

    def until(self, *wanted: str, passes: int = PASSES_MAX) -> str:
        """Passes until one of these steps was taken; Jobs stay as they are.

        :returns: the step.
        """
        clock = self.scenario.world.clock
        steps: list[str] = []
        for _ in range(passes):
            result = self.step()
            steps.append(result.step)
            if result.step in wanted:
                return result.step
            if result.requeue is None:
                break
            clock.advance(max(0.0, result.requeue.at - clock.monotonic()))
        raise Stuck(steps[-40:])


def scenario(
    *lines: str, live: tuple[str, ...] = (), kind: str = SCHEMA, automatic: bool = False,
    certain: bool = True, policy: Mapping[str, Any] | None = None, seed: int = 0,
) -> Scenario:  # fmt: skip
    """A database with ``live`` lines and a resource that declares ``lines``."""
    holder: list[FakeDatabase] = []
    world = memory_world(
        lambda order, pod: holder[0].work(order, pod), seed=seed, certain=certain,
        automatic=automatic, kind="local" if certain else "cluster",
    )  # fmt: skip
    database = FakeDatabase(world.clock.now, live=list(live))
    holder.append(database)
    spec: dict[str, Any] = {
        "target": {
            "engine": "postgresql",
            "coordinationKey": "test/db",
            "urlFrom": {"name": "db"},
        },
        "interval": "10m" if automatic else "0",
    }
    if kind == SCHEMA:
        spec["desired"] = {"inline": "\n".join(lines)}
        spec["policy"] = dict(policy or {})
    elif kind == MIGRATION:
        metadata = {"namespace": "local", "name": "files"}
        files = {"kind": CONFIG_MAP, "apiVersion": "v1", "metadata": metadata,
                 "data": fakesequence.files_of(lines)}  # fmt: skip
        world.objects.create(files)
        spec["artifact"] = {"configMapRef": {"name": "files"}}
        spec["policy"] = dict(policy or {})
    else:
        spec.pop("interval")
        spec["mark"] = lines[0]
        database.names = toy.NAMES
        database.plans[toy.plan_digest(lines[0])] = tuple(f"create {line}" for line in lines)
    document = world.objects.create(
        {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {"namespace": "local", "name": "default"},
            "spec": spec,
        }
    )
    mutating = frozenset({"Touch"} if kind == toy.KIND else {"Apply"})
    key = Key(kind, "local", document["metadata"]["name"])
    return Scenario(world, database, key, Auditor(database, mutating))


def planned(s: Scenario, process: Process) -> str:
    """Plan and approve; the fingerprint."""
    s.ask("plan")
    process.settle()
    answer = s.answer()
    assert answer.exit_code == 0 and answer.plan is not None, answer
    s.approve(answer.plan)
    return answer.plan


def applied(s: Scenario, process: Process, plan: str) -> Answer:
    """Apply this plan; the answer."""
    s.ask("apply", plan)
    process.settle()
    return s.answer()


def command(s: Scenario, process: Process) -> Answer:
    """What a person's ``apply`` does: go on with what is there, plan, approve, apply."""
    process.settle()
    if s.key.kind != toy.KIND:
        s.ask("plan")
        process.settle()
        answer = s.answer()
        if answer.reason != "ChangesPending" or answer.plan is None:
            return answer
        s.approve(answer.plan)
        s.ask("apply", answer.plan)
    else:
        s.ask("plan")
    process.settle()
    return s.answer()
