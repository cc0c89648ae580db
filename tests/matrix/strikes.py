"""How the world of a bed is hit: strikes, what is under way, and ports that go through them."""

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ptahk.engine.ports import Indeterminate, JobOrder, JobView, Key, PortError
from tests.kit.auditor import _need
from tests.kit.fakedb import Execution, FakeDatabase
from tests.kit.faults import WRITES, Faults, FaultyJobs, Killed
from tests.matrix.doors import DoorObjects, MatrixAuditor
from tests.sim import points
from tests.sim.auditor import EffectAuditor

BEFORE, AFTER = "killed before", "killed after"
DONE, UNDONE, LATE = "answer lost, done", "answer lost, not done", "answer lost, done late"
LATE_KILLED = "killed, done late"
ENGINE_KINDS = (BEFORE, DONE, UNDONE, LATE, AFTER, LATE_KILLED)
"""How a durable write of the engine is hit. The process dies at three of them."""

DIES, LINGERS, COMMITS = "dies", "dies, its session lives on", "dies, what it had sent commits"
EXECUTOR_KINDS = (DIES, LINGERS, COMMITS)
"""How an executor ends. What it had sent can commit only where something was sent."""

LATE_S = 400.0


@dataclass(frozen=True, slots=True)
class Strike:
    """The n-th write of this turn's pass, or the n-th step of its executor, is hit."""

    index: int
    kind: str


@dataclass(frozen=True, slots=True)
class Late:
    """A request that is still under way."""

    name: str
    document: Any
    action: Callable[[], Any]
    lands_at: float


@dataclass(frozen=True, slots=True)
class Lingering:
    """The session of an executor that died."""

    run: Execution
    sent: str | None
    """The statement that commits when the session ends."""
    ends_at: float


class Struck(Protocol):
    """What strikes need of a bed."""

    late: tuple[Late, ...]
    hit: list[str]
    life: int
    objects: DoorObjects
    auditor: MatrixAuditor

    @property
    def now_s(self) -> float: ...


class Dice:
    """Random values that are counted, so that their state is one number."""

    def __init__(self) -> None:
        self.drawn = 0

    def _hex(self, digits: int) -> str:
        self.drawn += 1
        return hashlib.sha256(b"%d" % self.drawn).hexdigest()[:digits]

    def operation_id(self) -> str:
        return self._hex(32)

    def nonce(self) -> str:
        return self._hex(32)

    def epoch_bits(self) -> str:
        return self._hex(16)


class Deaf:
    """Keeps no event."""

    def event(self, key: Key, type: str, reason: str, text: str) -> None:
        """Nothing."""


class MatrixDatabase(FakeDatabase):
    """The kit's database with the simulator's auditor at its door."""

    effects_seen: EffectAuditor

    def before_effect(self, run: Execution, statement: str) -> None:
        self.effects_seen.effect(run, statement, False)


class Strikes(Faults):
    """Hits the write that is asked for; else everything is answered."""

    def __init__(self, bed: Struck) -> None:
        super().__init__()
        self.bed = bed
        self.strike: Strike | None = None
        self.must_read = False

    def run(self, verb: str, key: Key, action: Callable[[], Any], document: Any = None) -> Any:
        if verb not in WRITES:
            self.must_read = False
            return action()
        bed = self.bed
        before = bed.objects.read.get(key)
        name = points.name(verb, key, document, before)
        _need(22, not self.must_read, f"{name} was sent right after a lost answer")
        replaces = verb not in ("create", "create_job", "expire")
        _need(20, before is not None or not replaces, f"{name} was sent without a read")
        if name == "DispatchMark":
            nonce = document["status"]["activeOperation"]["dispatchNonce"]
            bed.auditor.writers[nonce] = bed.life
        bed.hit.append(name)
        strike = self.strike
        if strike is None or strike.index != len(bed.hit) - 1:
            return action()
        return self._struck(strike.kind, Late(name, document, action, bed.now_s + LATE_S))

    def _struck(self, kind: str, sent: Late) -> None:
        if kind in (AFTER, DONE):
            with contextlib.suppress(PortError):  # its answer is lost, whatever it was
                sent.action()
        if kind in (LATE, LATE_KILLED):
            self.bed.late = (*self.bed.late, sent)
        if kind in (BEFORE, AFTER, LATE_KILLED):
            raise Killed
        self.must_read = True
        raise Indeterminate(f"{sent.name}: the answer was lost")


class StruckJobs(FaultyJobs):
    """A create that says what it creates, for the state of what is under way."""

    def create(self, order: JobOrder) -> JobView:
        key = Key("Job", order.namespace, order.name)
        said = {"job": order.name, "annotations": dict(order.annotations)}
        action = lambda: self._inner.create(order)  # noqa: E731
        return self._faults.run("create_job", key, action, said)

    def expire(self, namespace: str, name: str, uid: str, ttl_s: int) -> None:
        key, said = Key("Job", namespace, name), {"job": name, "uid": uid, "ttl": ttl_s}
        action = lambda: self._inner.expire(namespace, name, uid, ttl_s)  # noqa: E731
        self._faults.run("expire", key, action, said)
