"""A hostile world around the real ``run_pass``: one thread, one virtual clock, one seed.

``World`` is one database and the stores (``Site``) that use it; ``Manager`` is one process that
makes passes, with its own clock, memory and life. What goes wrong is drawn from one generator, so
that a seed repeats a run byte for byte. Between any two requests of a pass another actor may act.
"""

import contextlib
import hashlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from ptahk.engine import driver
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import API_VERSION, APPROVAL, SCHEMA
from ptahk.engine.model.status import Status
from ptahk.engine.ports import (
    Document,
    Indeterminate,
    Key,
    NotFound,
    Objects,
    PortError,
    Ports,
    Store,
    Unavailable,
    key_of,
)
from ptahk.migrations.history import Row
from tests.kit import fakesequence, toy
from tests.kit.auditor import _need
from tests.kit.fakedb import Execution, FakeDatabase
from tests.kit.faults import WRITES, Fate, Faults, FaultyJobs, FaultyObjects, Killed
from tests.kit.memory import (
    MemoryClock,
    MemoryRecorder,
    MemorySurroundings,
    SeededEntropy,
)
from tests.kit.scenario import FAMILIES
from tests.sim import points, sequence
from tests.sim.auditor import EffectAuditor, SimAuditor, SimJobs, SimObjects
from tests.sim.cluster import ApiServer, Cluster, Pod
from tests.sim.conduct import Conduct

T = TypeVar("T")

KEY = "taint-coordination-key/db"
"""Plain text that may stand in ``spec`` alone (invariant 30)."""
RESYNC_S = 600.0


class SimDatabase(FakeDatabase):
    """The kit's database with auditors at its door."""

    effects_seen: EffectAuditor
    world: "World"
    others: dict[str, tuple[list[str], dict[tuple[str, str], Row]]]
    """Server → what its copy holds of a sequence."""

    def before_effect(self, run: Execution, statement: str) -> None:
        self.effects_seen.effect(run, statement, run in self.world.sent_late)
        if run.order.spec.migration is not None:
            again = fakesequence.line_of(statement) in self.live
            _need(4, not again, f"{statement.strip()} took effect in two attempts")

    def move(self, identity: str) -> None:
        """The URL leads to another server. Of sequences it is an older copy, at first: without
        the runs that had not ended."""
        if self.world.kind == MIGRATION and identity != self.identity:
            self.others[self.identity] = (self.live, self.revisions)
            done = {key: row for key, row in self.revisions.items() if row.state == "applied"}
            names = {fakesequence.line_of_file(row.file) for row in done.values()}
            live = [line for line in self.live if line.strip("!") in names]
            self.live, self.revisions = self.others.get(identity, (live, done))
        self.identity = identity


@dataclass
class Rates:
    """How often things go wrong, drawn once a seed."""

    chaos: float = 0.0
    """Of a turn that something hostile happens in it."""
    kill: float = 0.0
    """Of a write that its process dies at it, before or after."""
    lost: float = 0.0
    """Of a write that its answer is lost: done, not done, or done later."""
    down: float = 0.0
    """Of a request that the store cannot be reached."""
    preempt: float = 0.0
    """Of a request that somebody else acts first."""
    gap: float = 0.0
    """Of a watch event that it is never seen."""
    crash: float = 0.0
    """Of an executor's step that it dies there."""
    targets: tuple[str, ...] = ()
    """Crash points that this seed strikes once each, as soon as they come."""


class SkewedClock:
    """A manager's own clocks."""

    def __init__(self, clock: MemoryClock, skew_s: float, offset_s: float) -> None:
        self.clock, self.skew_s, self.offset_s = clock, skew_s, offset_s

    def now(self) -> datetime:
        return self.clock.now() + timedelta(seconds=self.skew_s)

    def monotonic(self) -> float:
        return self.clock.monotonic() + self.offset_s


class Chaos(Faults):
    """The fate of each request of one manager; draws it from the world's generator."""

    def __init__(self, manager: "Manager") -> None:
        super().__init__()
        self.manager = manager
        self.must_read = False

    def run(self, verb: str, key: Key, action: Callable[[], Any], document: Any = None) -> Any:
        world, manager = self.manager.world, self.manager
        life = manager.life
        writes = verb in WRITES
        name = ""
        if writes:
            name = points.name(verb, key, document, manager.objects.read.get(key))
            _need(22, not self.must_read, f"{name} was sent right after a lost answer")
            replaces = verb not in ("create", "create_job")
            about = manager.site.keys[-1] if verb in ("create_job", "expire") else key
            seen = about in manager.objects.read or not replaces
            _need(20, seen, f"{name} was sent without a read in the same pass")
            if name == "DispatchMark":
                nonce = document["status"]["activeOperation"].get("dispatchNonce")
                manager.site.auditor.writers[nonce] = life
            if document is not None and replaces:
                manager.conduct.sends(key, document)
        else:
            self.must_read = False
        world.interfere(manager)
        if name == "AcquireLease" and world.orphans(manager, manager.site.keys[-1]):
            world.late.append((world.now_s + 30.0, action))
            self.must_read = True
            raise Indeterminate(f"{verb} {key}: the answer was lost")
        lost = name == "CreateJob" and world.creates_lost(manager, manager.site.keys[-1])
        if lost:
            self.must_read = True
            if world.rng.random() < 0.5:
                world.late.append((world.now_s + world.rng.choice((30, 400)), action))
            raise Indeterminate(f"{verb} {key}: the answer was lost")
        if name == "AcquireLease":
            world.raced(manager, manager.site.keys[-1])
        if name == "DispatchMark" and world.outdone(manager, key):
            self.must_read = True
            raise Indeterminate(f"{verb} {key}: the answer was lost")
        fate = world.fate(manager, name, verb) or Fate()
        if fate.before is not None:
            self.must_read = isinstance(fate.before, Indeterminate)
            raise fate.before
        if fate.late:
            self.must_read = True
            world.late.append((world.now_s + world.rng.choice((1, 5, 60, 400)), action))
            raise Indeterminate(f"{verb} {key}: the answer was lost")
        answer = action()
        if fate.after is not None:
            self.must_read = isinstance(fate.after, Indeterminate)
            raise fate.after
        return answer


class SimFaultyObjects(FaultyObjects):
    """The kit's; what is sent is not copied while documents are shared."""

    def __init__(self, inner: Objects, faults: Faults, api: ApiServer) -> None:
        super().__init__(inner, faults)
        self._api = api

    def _write(self, verb: str, document: Document, action: Callable[[Document], T]) -> T:
        if not self._api.shared:
            return super()._write(verb, document, action)
        return self._faults.run(verb, key_of(document), lambda: action(document), document)


@dataclass(eq=False)
class Manager:
    """One process that makes passes."""

    world: "World"
    site: "Site"
    name: str
    clock: SkewedClock
    due: dict[Key, float] = field(default_factory=dict)
    reads: dict[Key, Any] = field(default_factory=dict)
    """Results that a reader is to fetch."""
    life: int = 0
    busy: bool = False
    ports: Ports = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new life: it remembers nothing."""
        self.life = self.world.new_life()
        self.chaos = Chaos(self)
        self.conduct = Conduct(self)
        self.objects = SimObjects(self.site.api, self.site.auditor)
        self.objects.saw = self.conduct.saw
        jobs = SimJobs(
            FaultyJobs(self.site.jobs, self.chaos), self.site.auditor, lambda: self.site.working
        )
        jobs.life, jobs.conduct, jobs.cluster = self.life, self.conduct, self.site.jobs
        self.ports = Ports(
            store=self.site.store,
            objects=SimFaultyObjects(self.objects, self.chaos, self.site.api),
            jobs=jobs,
            surroundings=self.site.surroundings,
            clock=self.clock,
            entropy=self.world.entropy,
            recorder=self.world.recorder,
        )
        self.reads.clear()

    def step(self, key: Key) -> None:
        """One pass, and when to make the next."""
        world = self.world
        self.due.pop(key, None)
        self.busy = True
        self.objects.begin()
        self.site.keys.append(key)
        fetch = driver.collect if self.site.local else None
        try:
            result = driver.run_pass(self.ports, key, families=FAMILIES, fetch=fetch)
        except Killed:
            world.say("killed", self.name)
            self.start()
            pause = world.rng.choice((0.1, 2.0, 20.0, 200.0))
            for known in self.site.resources():
                self.due[known] = world.now_s + pause
            return
        finally:
            self.busy = False
            self.site.keys.pop()
        world.passes += 1
        world.say(self.name, key.name, result.step)
        if result.need is not None:
            self.reads[key] = result.need
            self.due.setdefault(key, world.now_s + world.rng.choice((0.0, 0.2, 3.0)))
        elif result.requeue is not None:
            self.due[key] = max(world.now_s, result.requeue.at - self.clock.offset_s)
            world.steps[result.step] += 1

    def look(self, key: Key) -> None:
        """What is due: a reader's fetch, or a pass."""
        need = self.reads.pop(key, None)
        if need is None:
            self.step(key)
            return
        self.due[key] = self.world.now_s
        try:
            driver.collect(self.ports, need)
        except (PortError, Killed):
            return

    def wake(self, key: Key, after_s: float) -> None:
        at = self.world.now_s + after_s
        self.due[key] = min(at, self.due.get(key, at))


class Site:
    """One store: its documents, Jobs, managers and users."""

    def __init__(self, world: "World", name: str, local: bool, automatic: bool) -> None:
        self.world, self.name, self.local = world, name, local
        self.api = ApiServer(world.clock, first_uid=1000 * len(world.sites))
        self.jobs = Cluster(world.database, world.clock, name, local)
        mutating = frozenset({"Touch"} if world.kind == toy.KIND else {"Apply"})
        self.auditor = SimAuditor(world.database, mutating, api=self.api, jobs=self.jobs)
        self.surroundings = MemorySurroundings()
        self.store = Store(
            uid=f"00000000-0000-4000-b000-{len(world.sites) + 1:012d}",
            kind="local" if local else "cluster",
            coordination_namespace="local" if local else "ptahk-system",
            automatic=automatic,
        )
        self.keys: list[Key] = []
        self.managers: list[Manager] = []
        self.saved: dict[Key, Document] | None = None
        self.api.changed = self._changed
        self.api.removed = self.auditor.vanished

    @property
    def working(self) -> Status:
        """The status of the resource whose pass runs now."""
        return self.status(self.keys[-1])

    def status(self, key: Key) -> Status:
        document = self.api.find(key)
        if document is None:
            raise NotFound(str(key))
        return self.auditor.status_of(document)

    def resources(self) -> list[Key]:
        return [key_of(item) for item in self.api.list(self.world.kind)]

    def _changed(self, old: Document | None, new: Document | None) -> None:
        """A watch tells every manager, late, or not at all."""
        document = new or old
        assert document is not None
        kind = document["kind"]
        if kind == self.world.kind:
            keys = [key_of(document)]
        elif kind == APPROVAL or key_of(document) == sequence.FILES:
            keys = self.resources()
        else:
            return
        rng = self.world.rng
        for manager in self.managers:
            for key in keys:
                if rng.random() >= self.world.rates.gap:
                    manager.wake(key, rng.choice((0.0, 0.0, 0.5, 2.0)))


class World:
    """Everything of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.clock = MemoryClock()
        self.entropy = SeededEntropy(seed)
        self.recorder = MemoryRecorder()
        self.rates = Rates()
        self.kind = SCHEMA
        self.database = SimDatabase(self.clock.now)
        self.database.effects_seen = EffectAuditor()
        self.database.world = self
        self.database.others = {}
        self.sites: list[Site] = []
        self.late: list[tuple[float, Callable[[], Any]]] = []
        self.lingering: list[tuple[float, Execution, bool]] = []
        self.sent_late: set[Execution] = set()
        self.slow: dict[Pod, float] = {}
        """A run that does not move before this time."""
        self.passes = 0
        self.turns = 0
        self.steps: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self.acts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.depth = 0
        self.interloper: Callable[[Manager], None] = lambda manager: None
        self.orphans: Callable[[Manager, Key], bool] = lambda manager, key: False
        self.outdone: Callable[[Manager, Key], bool] = lambda manager, key: False
        self.creates_lost: Callable[[Manager, Key], bool] = lambda manager, key: False
        self.raced: Callable[[Manager, Key], None] = lambda manager, key: None
        self.neglected: dict[Key, float] = {}
        """Resources that nobody passes over before this time."""
        self.later: list[tuple[float, Callable[[], None]]] = []
        """What people do later."""
        self._lives = 0

    @property
    def now_s(self) -> float:
        return self.clock.monotonic()

    def new_life(self) -> int:
        self._lives += 1
        return self._lives

    def say(self, *words: object) -> None:
        self.trace.append(f"{self.now_s:.3f} " + " ".join(map(str, words)))

    def interfere(self, manager: Manager) -> None:
        """Somebody else acts between two requests of a pass."""
        if self.depth or self.rates.preempt == 0 or self.rng.random() >= self.rates.preempt:
            return
        self.depth += 1
        try:
            self.interloper(manager)
        finally:
            self.depth -= 1

    def fate(self, manager: Manager, name: str, verb: str) -> Fate | None:
        rates, rng = self.rates, self.rng
        if name:
            found = self._struck(name)
            if found is not None:
                return found
            if rates.kill and rng.random() < rates.kill:
                after = rng.random() < 0.5
                self.hits[f"{name}:{'after' if after else 'before'}"] += 1
                self.say("strike", name, after)
                return Fate(after=Killed()) if after else Fate(before=Killed())
            if rates.lost and rng.random() < rates.lost:
                return self._lost(manager, name, verb)
        if rates.down and rng.random() < rates.down:
            return Fate(before=Unavailable("down"))
        return None

    def _struck(self, name: str) -> Fate | None:
        for side in ("before", "after"):
            point = f"{name}:{side}"
            if point in self.rates.targets:
                self.rates.targets = tuple(item for item in self.rates.targets if item != point)
                self.hits[point] += 1
                self.say("strike", point)
                return Fate(after=Killed()) if side == "after" else Fate(before=Killed())
        return None

    def _lost(self, manager: Manager, name: str, verb: str) -> Fate:
        how = self.rng.choice(("done", "not done", "later"))
        if verb == "create_job" and manager.site.local and how == "later":
            how = "done"  # a fork is there or it is not (C-6.9)
        self.say("lost", name, how)
        self.acts[f"answer lost, {how}"] += 1
        if how == "later":
            return Fate(late=True)
        error = Indeterminate("lost")
        return Fate(after=error) if how == "done" else Fate(before=error)

    # -- what happens by itself -------------------------------------------------------------

    def settle_time(self) -> None:
        """Everything whose time has come: late requests, dead sessions, TTLs."""
        due = [item for item in self.late if item[0] <= self.now_s]
        if due:
            self.late = [item for item in self.late if item[0] > self.now_s]
            for _, action in due:
                self.say("a late request lands")
                with contextlib.suppress(PortError):
                    action()
        for item in [item for item in self.later if item[0] <= self.now_s]:
            self.later.remove(item)
            item[1]()
        for item in [item for item in self.lingering if item[0] <= self.now_s]:
            self.lingering.remove(item)
            _, run, lands = item
            if lands and self.database.session is run and run.in_flight:
                self.say("a dead client's statement commits")
                self.acts["committed after its client died"] += 1
                run.land()
            run.end_session()
        for site in self.sites:
            for job in site.jobs.expired():
                self.say("ttl", job.order.name)
                self.remove_job(site, job.order.name, pods=True)

    def kill_pod(self, site: Site, pod: Pod) -> None:
        """The client dies; its session may live on, and what it had sent may commit."""
        if site.jobs.kill(pod):
            wait_s = self.rng.choice((0.0, 1.0, 10.0, 300.0))
            self.lingering.append((self.now_s + wait_s, pod.run, self.rng.random() < 0.6))
            self.say("a session lingers", wait_s)

    def remove_job(self, site: Site, name: str, *, pods: bool) -> None:
        job = site.jobs.gone("local", name)
        if pods:
            for pod in job.runs:
                if not pod.ended:
                    self.kill_pod(site, pod)
        site.jobs.remove(name, pods=pods)

    def step_pod(self, site: Site, pod: Pod) -> None:
        """One step of an executor, which may die right after it."""
        rows = len(self.database.rows)
        begun = pod.run.mutation_started
        name = site.jobs.step(pod)
        operation = pod.job.order.spec.operation
        if pod.run.mutation_started and not begun and len(self.database.rows) > rows:
            site.auditor.begins(pod.run)
            self.database.effects_seen.begins(pod.run)
        if name == "sent":
            row = self.database.rows[pod.job.order.spec.operation_id]
            late = self.database.time() >= _time(row["notAfter"])
            if late:
                self.sent_late.add(pod.run)
        self.say("executor", pod.uid, operation, name)
        if name == "end":
            self.say("frame", hashlib.sha256(pod.run.log).hexdigest()[:12])
            return
        target = f"executor {name}"
        struck = target in self.rates.targets
        if struck or (self.rates.crash and self.rng.random() < self.rates.crash):
            self.rates.targets = tuple(item for item in self.rates.targets if item != target)
            self.hits[target] += 1
            self.say("executor dies", name)
            self.kill_pod(site, pod)

    def pods(self) -> list[tuple[Site, Pod]]:
        """Runs that may move now."""
        return [
            (site, pod) for site in self.sites for pod in site.jobs.active()
            if self.slow.get(pod, 0.0) <= self.now_s
        ]  # fmt: skip

    def due(self) -> list[tuple[Manager, Key]]:
        return [
            (manager, key) for site in self.sites for manager in site.managers
            if not manager.busy for key, at in manager.due.items()
            if at <= self.now_s and self.neglected.get(key, 0.0) <= self.now_s
        ]  # fmt: skip

    def next_time(self) -> float | None:
        """When something happens by itself."""
        times = [at for site in self.sites for m in site.managers for at in m.due.values()]
        times += [item[0] for item in (*self.late, *self.later)]
        times += [item[0] for item in self.lingering]
        times += self.neglected.values()
        times += [self.slow[pod] for site in self.sites for pod in site.jobs.active()
                  if pod in self.slow]  # fmt: skip
        later = [at for at in times if at > self.now_s]
        return min(later, default=None)

    def turn(self) -> bool:
        """Something that is due happens; False: nothing is, now or later."""
        self.turns += 1
        self.settle_time()
        pods, due = self.pods(), self.due()
        total = len(pods) + len(due)
        if total == 0:
            at = self.next_time()
            if at is None:
                return False
            self.clock.advance(at - self.now_s + 0.001)
            self.settle_time()
            return True
        chosen = self.rng.randrange(total)
        if chosen < len(pods):
            self.step_pod(*pods[chosen])
        else:
            manager, key = due[chosen - len(pods)]
            manager.look(key)
        self.clock.advance(self.rng.choice((0.0, 0.01, 0.3)))
        return True

    def digest(self) -> str:
        """Of everything that happened: equal runs have equal digests."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def new_resource(site: Site, name: str, spec: dict[str, Any]) -> Key:
    """A person creates a resource."""
    site.api.create(
        {
            "apiVersion": API_VERSION,
            "kind": site.world.kind,
            "metadata": {"namespace": "local", "name": name},
            "spec": spec,
        }
    )
    key = Key(site.world.kind, "local", name)
    for manager in site.managers:
        manager.due[key] = site.world.now_s
    return key


def add_site(world: World, name: str, *, local: bool, automatic: bool, managers: int,
             skew_s: float) -> Site:  # fmt: skip
    """A store with its managers."""
    site = Site(world, name, local, automatic)
    for number in range(managers):
        skew = world.rng.uniform(-skew_s, skew_s)
        clock = SkewedClock(world.clock, skew, 1000.0 * number)
        site.managers.append(Manager(world, site, f"{name}-m{number}", clock))
    world.sites.append(site)
    return site


def toy_plan(world: World, mark: str) -> None:
    """Toy Jobs have no plan file: the database knows what each mark means."""
    world.database.names = toy.NAMES
    world.database.plans[toy.plan_digest(mark)] = (f"create {mark}",)


__all__ = ["Chaos", "Manager", "Rates", "Site", "World", "add_site", "new_resource", "toy_plan"]
