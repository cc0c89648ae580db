"""One key in one hand, the longest due first, nothing lost: by example and by random histories."""

import math
import threading
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ptahk.engine.ports import Key
from ptahk.serve.workqueue import Schedule, WorkQueue
from tests.kit.budget import scaled
from tests.kit.waiting import until

KEYS = [Key("PtahSchema", "ns", name) for name in "abcde"]


def test_the_earliest_time_of_a_key_counts() -> None:
    schedule = Schedule()
    schedule.add(KEYS[0], 10.0)
    schedule.add(KEYS[0], 5.0)
    schedule.add(KEYS[0], 7.0)
    assert schedule.next_at() == 5.0
    assert schedule.take(4.9) is None
    assert schedule.take(5.0) == (KEYS[0], 5.0)
    assert schedule.take(100.0) is None, "de-duplicated"


def test_a_key_in_hand_waits_however_due_it_is() -> None:
    schedule = Schedule()
    schedule.add(KEYS[0], 0.0)
    assert schedule.take(0.0) is not None
    schedule.add(KEYS[0], 1.0)
    assert schedule.take(9.0) is None
    assert schedule.next_at() == math.inf
    schedule.give_back(KEYS[0], 50.0)
    assert schedule.take(9.0) == (KEYS[0], 1.0), "a wake beats the back-off"


class Histories(RuleBasedStateMachine):
    """A schedule beside a plain model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule()
        self.due: dict[Key, float] = {}
        self.held: set[Key] = set()
        self.now = 0.0

    @rule(key=st.sampled_from(KEYS), delay=st.integers(-5, 20))
    def add(self, key: Key, delay: int) -> None:
        at = self.now + delay
        self.schedule.add(key, at)
        self.due[key] = min(at, self.due.get(key, math.inf))

    @rule(seconds=st.integers(0, 10))
    def later(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        ready = {k: at for k, at in self.due.items() if k not in self.held and at <= self.now}
        found = self.schedule.take(self.now)
        if not ready:
            assert found is None
            return
        assert found is not None
        key, at = found
        assert at == ready[key] == min(ready.values()), "the longest due first"
        self.held.add(key)
        del self.due[key]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.none() | st.integers(0, 20))
    def give_back(self, data: st.DataObject, delay: int | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        at = None if delay is None else self.now + delay
        self.schedule.give_back(key, at)
        self.held.remove(key)
        if at is not None:
            self.due[key] = min(at, self.due.get(key, math.inf))

    @invariant()
    def agrees(self) -> None:
        free = [at for key, at in self.due.items() if key not in self.held]
        assert self.schedule.next_at() == min(free, default=math.inf), "nothing is lost"
        assert self.schedule.held == self.held
        assert self.schedule.due(self.now) == sum(at <= self.now for at in free)
        assert len(self.schedule) == len(self.due)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=scaled(60), stateful_step_count=40)


def test_the_heap_stays_small() -> None:
    schedule = Schedule()
    for count in range(10_000):
        schedule.add(KEYS[count % 5], float(10_000 - count))
    assert len(schedule._heap) <= 128


def threads(count: int, work: Callable[[], None]) -> list[threading.Thread]:
    made = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in made:
        thread.start()
    return made


def test_no_two_threads_hold_one_key_and_every_wake_is_seen() -> None:
    """Each add after the last take of its key leads to another take."""
    queue = WorkQueue(lambda: 0.0)
    guard, inside, version, seen = threading.Lock(), set[Key](), dict[Key, int](), dict[Key, int]()
    clashes: list[Key] = []

    def work() -> None:
        while (key := queue.take()) is not None:
            with guard:
                if key in inside:
                    clashes.append(key)
                inside.add(key)
                seen[key] = version[key]
            with guard:
                inside.discard(key)
            queue.give_back(key, None)

    workers = threads(6, work)
    for count in range(2000):
        key = KEYS[count % 5]
        with guard:
            version[key] = count
        queue.add(key)
    until(lambda: seen == version, "every key's last version to be seen")
    queue.shut()
    for thread in workers:
        thread.join(10)
        assert not thread.is_alive()
    assert clashes == []


def test_a_waiting_thread_is_woken_by_an_earlier_key_and_by_the_end() -> None:
    waits: list[float] = []
    now = [0.0]
    queue = WorkQueue(lambda: now[0], waits.append)
    queue.add(KEYS[0], 3600.0)
    got: list[Key | None] = []
    (thread,) = threads(1, lambda: got.extend([queue.take(), queue.take()]))
    queue.add(KEYS[1], -2.0)
    until(lambda: len(waits) == 1, "the earlier key")
    queue.shut()
    thread.join(10)
    assert got == [KEYS[1], None]
    assert waits == [2.0]
    assert queue.depth() == 0
    now[0] = 3600.0
    assert queue.depth() == 1
