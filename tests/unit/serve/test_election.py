"""Two never lead at once, whatever hangs, is lost or stalls; a virtual clock drives it all."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ptahk.engine import leader
from ptahk.engine.leader import Times
from ptahk.engine.ports import Document, Indeterminate, Key, Unavailable
from ptahk.serve.election import Election
from tests.kit.budget import scaled
from tests.kit.faults import Call, Fate, Faults, FaultyObjects
from tests.kit.memory import MemoryClock, MemoryObjects
from tests.kit.waiting import until

NAMESPACE = "ptahk-system"
KEY = Key("Lease", NAMESPACE, leader.LEASE_NAME)
TIMES = Times()


class Slow(FaultyObjects):
    """Writes that land at once and are answered late."""

    answered: Callable[[], None] = staticmethod(lambda: None)

    def replace(self, document: Document) -> Document:
        stored = super().replace(document)
        self.answered()
        return stored

    def create(self, document: Document) -> Document:
        stored = super().create(document)
        self.answered()
        return stored


@dataclass
class Replica:
    """A candidate whose calls a test delays or breaks."""

    name: str
    store: MemoryObjects
    clock: MemoryClock
    fate: Callable[[Call], Fate | None] = lambda call: None
    election: Election = field(init=False)

    def __post_init__(self) -> None:
        self.objects = Slow(self.store, Faults(lambda call: self.fate(call)))
        self.election = Election(self.objects, self.clock, NAMESPACE, self.name, TIMES)


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock()


@pytest.fixture
def store(clock: MemoryClock) -> MemoryObjects:
    return MemoryObjects(clock)


def pair(store: MemoryObjects, clock: MemoryClock) -> tuple[Replica, Replica]:
    one, two = Replica("one", store, clock), Replica("two", store, clock)
    one.election.tick()
    two.election.tick()
    assert one.election.leading() and not two.election.leading()
    return one, two


def test_a_dead_leader_is_followed_after_its_whole_duration(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    _, two = pair(store, clock)
    waited = 0.0
    while not two.election.leading():
        pause = two.election.tick()
        clock.advance(pause)
        waited += pause
    assert TIMES.duration_s <= waited <= TIMES.duration_s + 2 * TIMES.retry_s


def test_a_replica_that_just_started_watches_first(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    pair(store, clock)
    clock.advance(10_000)
    late = Replica("late", store, clock)
    late.election.tick()
    assert not late.election.leading(), "what the record says of its age counts for nothing"


def test_an_orderly_end_hands_over_at_once(store: MemoryObjects, clock: MemoryClock) -> None:
    one, two = pair(store, clock)
    assert one.election.release()
    assert not one.election.leading()
    two.election.tick()
    assert two.election.leading()


def test_the_lead_counts_from_the_sending_of_a_slow_renewal(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    one, _ = pair(store, clock)

    def slow(call: Call) -> None:
        if call.verb == "replace":
            clock.advance(9.0)

    one.fate = slow
    one.election.tick()
    clock.advance(TIMES.renew_deadline_s - 9.0 - 0.1)
    assert one.election.leading()
    clock.advance(0.2)
    assert not one.election.leading()
    assert one.election.lost


def test_a_renewal_that_hangs_past_the_deadline_ends_the_lead(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    one, _ = pair(store, clock)
    during: list[bool] = []

    def hang(call: Call) -> None:
        if call.verb == "replace":
            clock.advance(TIMES.renew_deadline_s + 1)
            during.append(one.election.leading())

    one.fate = hang
    one.election.tick()
    assert during == [False], "while the call still hangs"
    one.fate = lambda call: None
    one.election.tick()
    assert one.election.lost and not one.election.leading(), "for good"


def test_an_acquisition_whose_answer_is_lost_is_found_again(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    one = Replica("one", store, clock)
    one.fate = lambda call: Fate(after=Indeterminate("lost")) if call.writes else None
    one.election.tick()
    assert not one.election.leading()
    one.fate = lambda call: None
    one.election.tick()
    assert one.election.leading()


def test_an_api_server_that_is_away_for_less_than_the_deadline_costs_nothing(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    one, _ = pair(store, clock)
    one.fate = lambda call: Fate(before=Unavailable("away"))
    for _ in range(3):
        clock.advance(one.election.tick())
    assert one.election.leading()
    one.fate = lambda call: None
    one.election.tick()
    clock.advance(TIMES.renew_deadline_s - 0.1)
    assert one.election.leading()


def tampered(store: MemoryObjects, change: Callable[[Document], Any]) -> None:
    document = store.get(KEY)
    change(document)
    store.replace(document)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["spec"].update(holderIdentity="stranger"),
        lambda d: d["spec"].update(holderIdentity=None),
        lambda d: d["spec"].update(strategy="OldestEmulationVersion"),
    ],
)
def test_a_lease_that_another_hand_changed_is_lost(
    store: MemoryObjects, clock: MemoryClock, change: Callable[[Document], Any]
) -> None:
    one, _ = pair(store, clock)
    tampered(store, change)
    one.election.tick()
    assert one.election.lost and not one.election.leading()


def test_a_lease_that_was_deleted_and_made_anew_is_lost(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    one, _ = pair(store, clock)
    document = store.get(KEY)
    store.delete(document)
    again = {**document, "metadata": {"namespace": NAMESPACE, "name": KEY.name}}
    store.create(again)
    one.election.tick()
    assert one.election.lost, "same holder, another uid"


def test_a_write_that_makes_a_deleted_lease_anew_does_not_lead(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    """An API server creates a Lease on update (D6)."""
    one, _ = pair(store, clock)
    replace = store.replace

    def creating(document: Document) -> Document:
        store.delete(store.get(KEY))
        return store.create({**document, "metadata": {"namespace": NAMESPACE, "name": KEY.name}})

    store.replace = creating  # type: ignore[method-assign]
    one.election.tick()
    store.replace = replace  # type: ignore[method-assign]
    assert one.election.lost and not one.election.leading()


def test_the_thread_tells_once_and_ends_when_it_lost(
    store: MemoryObjects, clock: MemoryClock
) -> None:
    one = Replica("one", store, clock)
    told: list[str] = []
    body = threading.Thread(
        target=one.election.run,
        args=(lambda: told.append("elected"), lambda: told.append("lost")),
    )
    body.start()
    until(lambda: told == ["elected"], "the election")
    clock.advance(TIMES.renew_deadline_s + 1)
    body.join(30)
    assert not body.is_alive()
    assert told == ["elected", "lost"]


FATES = [
    None,
    Fate(before=Unavailable("x")),
    Fate(before=Indeterminate("x")),
    Fate(after=Indeterminate("x")),
]


class Candidates(RuleBasedStateMachine):
    """Three replicas; reads and writes that stall, fail before or after, or are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = MemoryClock()
        self.store = MemoryObjects(self.clock)
        self.names = 0
        self.moving = False
        self.replicas = [self.fresh() for _ in range(3)]

    def fresh(self) -> Replica:
        self.names += 1
        return Replica(f"r{self.names}", self.store, self.clock)

    @rule(
        which=st.integers(0, 2),
        stall=st.sampled_from([0.0, 0.0, 1.0, 14.0, 16.0, 31.0, 100.0]),
        verb=st.sampled_from(["get", "create", "replace", "answer", "answer"]),
        fate=st.sampled_from(FATES),
    )
    def tick(self, which: int, stall: float, verb: str, fate: Fate | None) -> None:
        replica = self.replicas[which]

        def strike(call: Call) -> Fate | None:
            if call.verb != verb:
                return None
            self.clock.advance(stall)
            self.others_move(replica)
            return fate

        def answered() -> None:
            if verb == "answer":
                self.clock.advance(stall)
                self.others_move(replica)

        replica.fate, replica.objects.answered = strike, answered
        replica.election.tick()
        replica.fate, replica.objects.answered = lambda call: None, lambda: None
        if replica.election.lost:
            self.replicas[which] = self.fresh()

    def others_move(self, stalled: Replica) -> None:
        """While one process stands still, the others make their rounds."""
        if self.moving:
            return
        self.moving = True
        for replica in self.replicas:
            if replica is not stalled and not replica.election.lost:
                replica.election.tick()
        self.moving = False
        self.at_most_one_leads()

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 14.9, 29.9, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(which=st.integers(0, 2))
    def ends(self, which: int) -> None:
        self.replicas[which].election.release()
        self.replicas[which] = self.fresh()

    @rule(which=st.integers(0, 2))
    def dies(self, which: int) -> None:
        self.replicas[which] = self.fresh()

    @invariant()
    def at_most_one_leads(self) -> None:
        assert sum(replica.election.leading() for replica in self.replicas) <= 1

    def teardown(self) -> None:
        """With the faults off somebody leads again, in bounded time."""
        for _ in range(40):
            for which, replica in enumerate(self.replicas):
                if replica.election.lost:
                    self.replicas[which] = self.fresh()
                replica.election.tick()
            self.at_most_one_leads()
            self.clock.advance(TIMES.retry_s)
        assert any(replica.election.leading() for replica in self.replicas)


TestCandidates = Candidates.TestCase
TestCandidates.settings = settings(max_examples=scaled(80), stateful_step_count=30)
