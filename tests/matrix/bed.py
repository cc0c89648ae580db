"""One world of the crash matrix: a store, a database, one process of the engine, and people.

Everything in it can be saved and put back, so that many crashes start from one moment. What happens
next follows from the state alone; ``turn`` makes it happen, and a ``Strike`` says where in that
turn the engine's process or an executor is hit.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol

from ptahk.engine import driver
from ptahk.engine.model import status as statuses
from ptahk.engine.model.resource import LEASE
from ptahk.engine.model.status import Status
from ptahk.engine.ports import (
    Document,
    Key,
    NotFound,
    PortError,
    Ports,
    Store,
    key_of,
)
from tests.kit.auditor import _need
from tests.kit.fakedb import Execution
from tests.kit.faults import FaultyObjects, Killed
from tests.kit.memory import MemoryClock, MemoryJob, MemoryJobs, MemorySurroundings
from tests.kit.scenario import FAMILIES
from tests.matrix.doors import DoorJobs, DoorObjects, MatrixAuditor
from tests.matrix.strikes import (
    COMMITS,
    DIES,
    Deaf,
    Dice,
    Late,
    Lingering,
    MatrixDatabase,
    Strike,
    Strikes,
    StruckJobs,
)
from tests.sim.auditor import EffectAuditor
from tests.sim.cluster import ApiServer

LINGER_S = 30.0
SLOW_S = 400.0
"""How long a slow Job runs: past a third of its Lease."""
TURNS_MAX = 600
CLOCK_MAX_S = 48 * 3600.0


class Stuck(AssertionError):
    """A world that does not come to its end."""


class Story(Protocol):
    """What people do in a world, and how it should end."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def mutation(self) -> str: ...
    @property
    def local(self) -> bool: ...
    @property
    def automatic(self) -> bool: ...
    @property
    def slow(self) -> bool: ...
    def set_up(self, bed: "Bed") -> Document: ...
    def starts(self, bed: "Bed") -> bool: ...
    def stops(self, bed: "Bed") -> bool: ...
    def act(self, bed: "Bed") -> tuple[str, Callable[[], None]] | None: ...
    def ended(self, bed: "Bed") -> bool: ...
    def check(self, bed: "Bed") -> None: ...


@dataclass(eq=False)
class Bed:
    """The world of one story."""

    story: Story
    clock: MemoryClock = field(default_factory=MemoryClock)
    dice: Dice = field(default_factory=Dice)
    late: tuple[Late, ...] = ()
    lingering: Lingering | None = None
    due: float | None = 0.0
    """When the engine looks again; None: not before something changes."""
    idle: bool = False
    """The last pass found nothing that could be done now."""
    life: int = 0
    phase: int = 0
    """How many things of its own the story has let people do."""
    asked: int = 0
    """How often the same command was run."""
    waited: frozenset[str] = frozenset()
    """Slow Jobs that have run their time."""
    turns: int = 0
    choices: tuple[str, ...] = ()
    hit: list[str] = field(default_factory=list)
    """The durable writes of this turn, or its executor's steps, by name."""
    event: str = ""
    """What this turn was."""

    def __post_init__(self) -> None:
        story = self.story
        self.database = MatrixDatabase(self.clock.now)
        self.database.effects_seen = EffectAuditor()
        self.api = ApiServer(self.clock)
        self.jobs = MemoryJobs(certain=story.local)
        self.auditor = MatrixAuditor(
            self.database,
            frozenset({story.mutation}),
            api=self.api,
            jobs=self.jobs,  # type: ignore[arg-type]
        )
        self.api.removed = self.auditor.vanished
        self.surroundings = MemorySurroundings()
        self.strikes = Strikes(self)
        self.objects = DoorObjects(self.api, self.auditor)
        self.store = Store(
            uid="00000000-0000-4000-b000-000000000001",
            kind="local" if story.local else "cluster",
            coordination_namespace="local" if story.local else "ptahk-system",
            automatic=story.automatic,
        )
        self.door = DoorJobs(StruckJobs(self.jobs, self.strikes), self.auditor, self._working)
        self.ports = Ports(
            store=self.store,
            objects=FaultyObjects(self.objects, self.strikes),
            jobs=self.door,
            surroundings=self.surroundings,
            clock=self.clock,
            entropy=self.dice,
            recorder=Deaf(),
        )
        self.frames: dict[bytes, Any] = {}
        self.begun_s = self.now_s
        document = story.set_up(self)
        metadata = document["metadata"]
        self.key = Key(document["kind"], metadata["namespace"], metadata["name"])
        self.uid = metadata["uid"]
        self._new_life()

    # -- what is there ------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return self.clock.monotonic()

    def document(self) -> Document | None:
        """The resource as stored; None: it is gone."""
        return self.api.find(self.key)

    def status(self) -> Status | None:
        document = self.document()
        return None if document is None else self.auditor.status_of(document)

    def _working(self) -> Status:
        status = self.status()
        if status is None:
            raise NotFound(str(self.key))
        return status

    def leases(self) -> tuple[Document, ...]:
        return self.api.list(LEASE)

    def running(self) -> list[MemoryJob]:
        return self.jobs.running()

    @property
    def resting(self) -> bool:
        """Nothing moves until somebody does something."""
        return self.due is None and not self.running()

    # -- one turn -----------------------------------------------------------------------------

    def turn(self, strike: Strike | None = None) -> bool:
        """The next thing happens. False: the story is over.

        :raises Violation: an invariant does not hold. :raises Stuck: nothing leads to the end.
        """
        self.hit = []
        self.turns += 1
        self.late = tuple(item for item in self.late if self._may_land(item))
        if self.turns > TURNS_MAX or self.now_s - self.begun_s > CLOCK_MAX_S:
            raise Stuck(f"not at its end after {self.turns} turns: {self.shown()}")
        act = self.story.act(self)
        if act is not None:
            return self._act(*act, strike)
        job = self._moving()
        if job is not None:
            return self._work(job, strike)
        still = not (self.running() or self.late or self.lingering)
        if self.idle and still and self.story.ended(self):
            self.event = "end"
            return False
        if self.due is None or self.due > self.now_s:
            return self._pass_time()
        return self._pass(strike)

    def _act(self, name: str, do: Callable[[], None], strike: Strike | None) -> bool:
        """People act; a command's own writes can be hit like the engine's."""
        self.event = name
        self.strikes.strike = strike
        self.objects.read.clear()
        self.due, self.idle = self.now_s, False
        try:
            do()
        except Killed:
            self._new_life()
        except PortError:
            pass  # the command ends and says so; it is run again
        return True

    def _pass(self, strike: Strike | None) -> bool:
        self.event = "pass"
        self.strikes.strike, self.strikes.must_read = strike, False
        self.objects.read.clear()
        self.idle = False
        try:
            result = driver.run_pass(self.ports, self.key, families=FAMILIES)
        except Killed:
            self._new_life()
            self.due = self.now_s
            return True
        self.event = result.step
        if result.requeue is None:
            self.due, self.idle = None, True
        elif result.step == "Fault":
            _need(31, result.fault is not None, "a fault without its error")
            self.due = self.now_s  # how long it backs off is not what is looked at here
        else:
            self.due = max(self.now_s, result.requeue.at)
            self.idle = result.step == "Wait"
        return True

    def _moving(self) -> MemoryJob | None:
        """The Job whose executor runs now."""
        jobs = self.running()
        if not jobs:
            return None
        if not self.story.slow:
            return jobs[0]
        waits = self.idle and (self.due is None or self.due > self.now_s)
        return next((job for job in jobs if job.uid in self.waited), None) if waits else None

    def _work(self, job: MemoryJob, strike: Strike | None) -> bool:
        """One process of a Job, to its end or to where it is struck."""
        self.event = f"executor of {job.order.spec.operation}"
        self.due, self.idle = self.now_s, False
        run = self.database.start(job.order, job.pods[0])
        steps = run.steps()
        if strike is not None and strike.index == 0:
            self._died(job, run, DIES)
            return True
        begun = False
        for name in steps:
            self.hit.append(name)
            if run.mutation_started and not begun:
                begun = True
                self.auditor.begins(run)
                self.database.effects_seen.begins(run)
            if strike is not None and strike.index == len(self.hit):
                steps.close()  # type: ignore[attr-defined]
                self._died(job, run, strike.kind)
                return True
        run.end_session()
        job.output = run.log
        return True

    def _died(self, job: MemoryJob, run: Execution, kind: str) -> None:
        job.output = b"noise of a process that ended\n"
        if kind == DIES or self.database.session is not run:
            run.end_session()
            return
        sent = run.in_flight if kind == COMMITS else None
        self.lingering = Lingering(run, sent, self.now_s + LINGER_S)

    def _pass_time(self) -> bool:
        """Nothing can be done now: time passes, or what was under way comes."""
        jobs = [job for job in self.running() if job.uid not in self.waited]
        if self.story.slow and jobs and self.idle:
            self.event = "a slow Job runs"
            self.waited |= {jobs[0].uid}
            self.clock.advance(SLOW_S)
            self.due, self.idle = self.now_s, False
            return True
        if self.late and (self.due is None or self.late[0].lands_at <= self.due):
            self._until(self.late[0].lands_at)
            return self.land(0)
        if self.lingering and (self.due is None or self.lingering.ends_at <= self.due):
            self._until(self.lingering.ends_at)
            return self.end_session()
        if self.due is None:
            raise Stuck(f"nothing moves any more: {self.shown()}")
        self.event = "time passes"
        self._until(self.due)
        return True

    def _until(self, at: float) -> None:
        self.clock.advance(max(0.0, at - self.now_s))

    def arrive(self, number: int) -> None:
        """What is under way comes: the n-th late request, or (-1) a dead client's end."""
        if number < 0:
            self.end_session()
        else:
            self.land(number)

    def land(self, number: int) -> bool:
        """A late request arrives."""
        item = self.late[number]
        self.event = f"{item.name} lands"
        self.late = self.late[:number] + self.late[number + 1 :]
        self.objects.read.clear()
        with contextlib.suppress(PortError):  # too late: the store refuses it
            item.action()
        self.due = self.now_s if self.due is None else min(self.due, self.now_s)
        self.idle = False
        return True

    def _may_land(self, item: Late) -> bool:
        """False: the store refuses it whenever it comes: versions and names never return."""
        document = item.document
        if item.name == "CreateJob":
            return ("local", document["job"]) not in self.jobs.jobs
        if item.name == "SetJobTtl":
            job = self.jobs.jobs.get(("local", document["job"]))
            return job is not None and job.present and job.ttl_s is None
        stored = self.api.find(key_of(document))
        version = document["metadata"].get("resourceVersion")
        if stored is None or version is None:
            return (stored is None) == (version is None)
        return bool(stored["metadata"]["resourceVersion"] == version)

    def end_session(self) -> bool:
        """The server notices that its client is gone; what was sent commits first."""
        assert self.lingering is not None
        run, sent = self.lingering.run, self.lingering.sent
        self.event = "a dead client's session ends"
        self.lingering = None
        refused = sent is not None and sent.partition(" ")[2] in self.database.failing
        if sent is not None and not refused:
            run.in_flight = sent
            run.land()
        run.end_session()
        self.due = self.now_s if self.due is None else min(self.due, self.now_s)
        return True

    def _new_life(self) -> None:
        """A new process of the engine: it remembers nothing."""
        self.life += 1
        self.door.life = self.life
        for item in fields(self.ports.memory):
            getattr(self.ports.memory, item.name).clear()
        self.strikes.must_read = False

    def shown(self) -> str:
        """For a person who has to find out why."""
        status = self.status()
        if status is None:
            return "the resource is gone"
        ready = next((c for c in status.conditions if c.type == "Ready"), None)
        return f"{status.phase}, {ready and ready.reason}, {statuses.render(status).get('request')}"

    # -- saving and putting back --------------------------------------------------------------

    def save(self) -> "Saved":
        db, jobs, auditor, memory = self.database, self.jobs, self.auditor, self.ports.memory
        return Saved(
            clock=(self.clock._now, self.clock._monotonic),
            api=(dict(self.api._stored), self.api._rv, self.api._uids),
            jobs={key: dataclasses.replace(job, pods=list(job.pods))
                  for key, job in jobs.jobs.items()},
            created=(jobs._count, len(jobs.created)),
            database=(list(db.live), {key: dict(row) for key, row in db.rows.items()},
                      list(db.effects), db.binding, db.starts, db.session, set(db.failing),
                      dict(db.revisions)),
            auditor=(_copied(vars(auditor)), _copied(vars(db.effects_seen))),
            memory={item.name: copy.copy(getattr(memory, item.name)) for item in fields(memory)},
            own=tuple(getattr(self, name) for name in _OWN),
            drawn=self.dice.drawn,
        )  # fmt: skip

    def restore(self, saved: "Saved") -> None:
        db, jobs, auditor, memory = self.database, self.jobs, self.auditor, self.ports.memory
        self.clock._now, self.clock._monotonic = saved.clock
        stored, self.api._rv, self.api._uids = saved.api
        self.api._stored = dict(stored)
        jobs.jobs = {key: dataclasses.replace(job, pods=list(job.pods))
                     for key, job in saved.jobs.items()}  # fmt: skip
        jobs._count, length = saved.created
        del jobs.created[length:]
        live, rows, effects, db.binding, db.starts, db.session, failing, kept = saved.database
        db.revisions = dict(kept)
        db.live, db.effects, db.failing = list(live), list(effects), set(failing)
        db.rows = {key: dict(row) for key, row in rows.items()}
        vars(auditor).update(_copied(saved.auditor[0]))
        vars(db.effects_seen).update(_copied(saved.auditor[1]))
        for name, value in saved.memory.items():
            setattr(memory, name, copy.copy(value))
        for name, value in zip(_OWN, saved.own, strict=True):
            setattr(self, name, value)
        self.door.life = self.life
        self.dice.drawn = saved.drawn
        self.strikes.strike, self.strikes.must_read = None, False


_OWN = (
    "late", "lingering", "due", "idle", "life", "phase", "asked", "waited", "turns",
    "choices", "begun_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Saved:
    """One moment of a world. Stored documents are never changed in place, so they are shared."""

    clock: tuple[datetime, float]
    api: tuple[dict[Key, Document], int, int]
    jobs: dict[tuple[str, str], MemoryJob]
    created: tuple[int, int]
    database: Any
    auditor: tuple[dict[str, Any], dict[str, Any]]
    memory: Any
    own: tuple[Any, ...]
    drawn: int


def _copied(given: dict[str, Any]) -> dict[str, Any]:
    """The auditors' own memory, whatever they keep: containers copied, the world left out."""
    return {
        name: dict(value) if type(value) is dict else value
        for name, value in given.items()
        if type(value) in (dict, bool, int) and not name.startswith("_")
    }


__all__ = ["Bed", "Late", "Lingering", "Saved", "Story", "Strike", "Stuck"]
