"""Random hostile worlds, two processes at once; then healed, and everything must resolve.

Declarations only grow, so no statement may ever take effect twice. The auditor checks the
invariants after every write that lands.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptahk.engine import driver
from ptahk.engine.ports import Indeterminate, Unavailable
from tests.kit.fakedb import Died
from tests.kit.faults import Call, Fate, Faults, Killed
from tests.kit.scenario import Process, Scenario, command, scenario

FATES: tuple[Callable[[], Fate], ...] = (
    lambda: Fate(before=Killed()),
    lambda: Fate(after=Killed()),
    lambda: Fate(after=Indeterminate("lost")),
    lambda: Fate(before=Indeterminate("lost")),
    lambda: Fate(before=Unavailable("down")),
    lambda: Fate(late=True),
)
STEPS = ("start", "started", "running", "statement", "finished", "fenced")
LINES = ("a", "!b", "c", "!d", "e")

ACTIONS = st.one_of(
    st.tuples(st.just("passes"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("fault"), st.integers(0, 5), st.integers(1, 3)),
    st.tuples(st.just("run"), st.just(0), st.just(0)),
    st.tuples(st.just("die"), st.integers(0, len(STEPS) - 1), st.just(0)),
    st.tuples(st.just("land"), st.just(0), st.just(0)),
    st.tuples(st.just("plan"), st.just(0), st.just(0)),
    st.tuples(st.just("apply"), st.just(0), st.just(0)),
    st.tuples(st.just("declare"), st.integers(1, len(LINES)), st.just(0)),
    st.tuples(st.just("suspend"), st.booleans(), st.just(0)),
    st.tuples(st.just("advance"), st.integers(1, 2000), st.just(0)),
    st.tuples(st.just("remove job"), st.booleans(), st.just(0)),
    st.tuples(st.just("twin"), st.just(0), st.just(0)),
    st.tuples(st.just("lock"), st.booleans(), st.just(0)),
    st.tuples(st.just("down"), st.booleans(), st.just(0)),
)


class Hostile:
    """The world and the two processes in it."""

    def __init__(self, s: Scenario) -> None:
        self.s = s
        self.faults = (Faults(), Faults())
        self.processes = [s.process(faults) for faults in self.faults]
        self.declared = 1

    def act(self, name: str, first: Any, second: Any) -> None:
        getattr(self, name.replace(" ", "_"))(first, second)

    def passes(self, count: int, which: bool) -> None:
        for _ in range(count):
            self._pass(int(which))

    def _pass(self, which: int) -> None:
        try:
            self.processes[which].step()
        except Killed:
            self.processes[which] = Process(self.s, self.s.process(self.faults[which]).ports)

    def fault(self, kind: int, after: int) -> None:
        """The n-th write from here is lost in some way."""
        faults, left = self.faults[kind % 2], [after]

        def fate(call: Call) -> Fate | None:
            left[0] -= call.writes
            if not call.writes or left[0]:
                return None
            faults.fate = lambda call: None
            return FATES[kind]()

        faults.fate = fate

    def run(self, *_: Any) -> None:
        self.s.world.jobs.run_all()

    def die(self, index: int, _: Any) -> None:
        def step(order: Any, name: str) -> None:
            if name == STEPS[index]:
                self.s.database.step = lambda order, name: None
                raise Died

        self.s.database.step = step

    def land(self, *_: Any) -> None:
        for faults in self.faults:
            faults.settle()

    def plan(self, *_: Any) -> None:
        self.s.ask("plan")

    def apply(self, *_: Any) -> None:
        last = self.s.status().last_plan
        if last is not None and last["statements"]:
            self.s.approve(last["fingerprint"])
            self.s.ask("apply", last["fingerprint"])

    def declare(self, count: int, _: Any) -> None:
        self.declared = max(self.declared, count)
        self.s.declare(*LINES[: self.declared])

    def suspend(self, value: bool, _: Any) -> None:
        self.s.edit(suspend=value)

    def advance(self, seconds: int, _: Any) -> None:
        self.s.world.clock.advance(seconds)

    def remove_job(self, pods: bool, _: Any) -> None:
        claim = self.s.status().active_operation
        if claim is not None and ("local", claim.job_name) in self.s.world.jobs.jobs:
            self.s.world.jobs.remove(claim.job_name, pods=pods)

    def twin(self, *_: Any) -> None:
        """The Job controller makes a second Pod, and it runs."""
        jobs = list(self.s.world.jobs.jobs.values())
        if jobs:
            pod = f"twin-{len(jobs)}-{len(jobs[-1].pods)}"
            jobs[-1].pods.append(pod)
            self.s.database.work(jobs[-1].order, pod)

    def lock(self, held: bool, _: Any) -> None:
        self.s.database.lock_holder = "another" if held else None

    def down(self, value: bool, _: Any) -> None:
        self.s.database.down = value

    def heal(self) -> None:
        for faults in self.faults:
            faults.fate = lambda call: None
        self.land()
        database = self.s.database
        database.lock_holder, database.down = None, False
        database.step = lambda order, name: None
        self.s.edit(suspend=False)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=st.lists(ACTIONS, min_size=5, max_size=60), certain=st.booleans())
def test_whatever_happens_it_resolves(actions: list[tuple[str, Any, Any]], certain: bool) -> None:
    s = scenario("a", certain=certain)
    hostile = Hostile(s)
    hostile.plan()
    hostile.passes(12, False)
    hostile.run()
    hostile.passes(8, False)
    hostile.apply()
    for action in actions:
        hostile.act(*action)
    hostile.heal()
    for _ in range(3):
        if command(s, s.process()).exit_code == 0:
            break
    status = s.status()
    assert s.answer().exit_code == 0, s.answer()
    assert driver.at_rest(status) and status.pending_observation is None
    assert s.holder() is None
    done = [statement for _, statement in s.database.effects]
    assert len(done) == len(set(done)), s.database.effects
    assert sorted(s.database.live) == sorted(LINES[: hostile.declared])
