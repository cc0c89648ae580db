"""Renewals on a virtual clock: a third, never behind a pass, never another's Lease."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptahk.engine.driver import FAMILIES
from ptahk.engine.model import lease as leases
from ptahk.engine.model.fields import parse_time
from ptahk.engine.ports import Document, Indeterminate, Key, NotFound, Unavailable
from ptahk.engine.renewal import Keep
from ptahk.serve.accounts import Accounts
from ptahk.serve.metrics import Metrics
from ptahk.serve.renewer import Renewer
from ptahk.wire import digest
from ptahk.wire.epoch import Epoch
from tests.kit.budget import scaled
from tests.kit.faults import Call, Fate, Faults, FaultyObjects
from tests.kit.memory import MemoryClock, MemoryObjects
from tests.kit.waiting import until

NAMESPACE = "ptahk-system"
HOLDER = "sha256:" + "1" * 64
BITS = "0123456789abcdef"


def resource(number: int) -> Key:
    return Key("PtahSchema", "apps", f"db{number}")


@dataclass
class Bed:
    """A renewer and its Leases."""

    clock: MemoryClock = field(default_factory=MemoryClock)
    fate: Callable[[Call], Fate | None] = lambda call: None
    woken: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryObjects(self.clock)
        objects = FaultyObjects(self.store, Faults(lambda call: self.fate(call)))
        self.metrics = Metrics(Accounts(FAMILIES), self.clock.now)
        self.renewer = Renewer(objects, self.clock, NAMESPACE, self.metrics, self.woken.append)

    def keep(self, number: int, duration_s: int = 90) -> Keep:
        """A Lease as acquired now, and the resource that keeps it."""
        realm = digest.coordination_digest("postgresql", f"db{number}")
        epoch = Epoch(number + 1, BITS)
        holder = leases.Holder("PtahSchema", "apps", f"db{number}", "u", "0" * 32, "Apply")
        document = leases.new_document(NAMESPACE, realm)
        held = leases.held(document, epoch, HOLDER, holder, duration_s, self.clock.now())
        self.store.create(held)
        keep = Keep(realm, HOLDER, str(epoch), duration_s)
        self.renewer.note(resource(number), keep)
        return keep

    def lease(self, keep: Keep) -> Document:
        name = digest.lease_name(digest.CoordinationDigest(keep.realm))
        return self.store.get(Key("Lease", NAMESPACE, name))

    def age_s(self, keep: Keep) -> float:
        renewed = parse_time(self.lease(keep)["spec"]["renewTime"])
        return (self.clock.now() - renewed).total_seconds()

    def count(self, result: str) -> float:
        value: float = self.metrics.renewals.labels(result)._value.get()
        return value


def at(found: float | None) -> float:
    assert found is not None
    return found


def test_a_fresh_lease_is_renewed_when_a_third_has_passed() -> None:
    bed = Bed()
    keep = bed.keep(0)
    due = at(bed.renewer.look(resource(0)))
    assert due == bed.clock.monotonic() + 30
    assert bed.count("renewed") == 0
    bed.clock.advance(30)
    again = at(bed.renewer.look(resource(0)))
    assert bed.age_s(keep) == 0
    assert again == bed.clock.monotonic() + 30
    assert (bed.count("renewed"), bed.renewer.overdue_s()) == (1, 0.0)


def test_what_a_pass_renewed_is_not_renewed_again() -> None:
    bed = Bed()
    keep = bed.keep(0)
    bed.renewer.look(resource(0))
    bed.clock.advance(29)
    bed.store.replace(leases.renewed(bed.lease(keep), 90, bed.clock.now()))
    bed.clock.advance(1)
    assert at(bed.renewer.look(resource(0))) == bed.clock.monotonic() + 29
    assert bed.count("renewed") == 0


def test_lateness_is_measured_and_alarmed_beyond_another_third() -> None:
    bed = Bed()
    bed.keep(0)
    bed.renewer.look(resource(0))
    bed.clock.advance(45)
    assert bed.renewer.overdue_s() == 15
    bed.renewer.look(resource(0))
    assert bed.metrics.renewals_late._value.get() == 0
    bed.clock.advance(61)
    bed.renewer.look(resource(0))
    assert bed.metrics.renewals_late._value.get() == 1
    assert bed.metrics.renewal_lateness._sum.get() == pytest.approx(15 + 31)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda bed, keep: bed.store.delete(bed.lease(keep)),
        lambda bed, keep: bed.store.replace(leases.released(bed.lease(keep), bed.clock.now())),
    ],
)
def test_what_is_not_ours_is_left_alone_and_a_pass_is_woken(
    tamper: Callable[[Bed, Keep], None],
) -> None:
    bed = Bed()
    keep = bed.keep(0)
    tamper(bed, keep)
    writes: list[str] = []
    bed.fate = lambda call: writes.append(call.verb) if call.writes else None  # type: ignore[func-returns-value]
    assert bed.renewer.look(resource(0)) is None
    assert (bed.woken, writes) == ([resource(0)], [])
    assert bed.renewer.look(resource(0)) is None, "until its status says something new"


def test_a_lost_answer_and_an_api_server_that_is_away_are_tried_again_soon() -> None:
    bed = Bed()
    keep = bed.keep(0)
    bed.clock.advance(30)
    bed.fate = lambda call: Fate(after=Indeterminate("lost")) if call.writes else None
    assert at(bed.renewer.look(resource(0))) <= bed.clock.monotonic() + 2
    bed.fate = lambda call: Fate(before=Unavailable("away"))
    assert at(bed.renewer.look(resource(0))) <= bed.clock.monotonic() + 2
    bed.fate = lambda call: None
    bed.clock.advance(2)
    assert at(bed.renewer.look(resource(0))) == bed.clock.monotonic() + 28, "it had landed"
    assert bed.age_s(keep) == 2


def test_another_epoch_of_the_same_resource_replaces_the_one_before() -> None:
    bed = Bed()
    bed.keep(0)
    new = Keep(digest.coordination_digest("postgresql", "other"), HOLDER, f"9.{BITS}", 90)
    bed.renewer.note(resource(0), new)
    assert bed.renewer.look(resource(0)) is None
    assert bed.woken == [resource(0)], "the other realm has no Lease yet"
    bed.renewer.note(resource(0), None)
    assert bed.renewer.look(resource(0)) is None


@given(
    durations=st.lists(st.integers(90, 960), min_size=1, max_size=5),
    outages=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 28)), max_size=2),
)
@settings(max_examples=scaled(30))
def test_no_lease_expires_through_outages_shorter_than_two_thirds(
    durations: list[int], outages: list[tuple[int, int]]
) -> None:
    """The schedule as its own thread follows it, on a clock that jumps from due to due."""
    bed = Bed()
    keeps = [bed.keep(number, duration) for number, duration in enumerate(durations)]
    begun_s = bed.clock.monotonic()
    due = dict.fromkeys(range(len(keeps)), begun_s)

    def fate(call: Call) -> Fate | None:
        passed = bed.clock.monotonic() - begun_s
        away = any(start <= passed < start + length for start, length in outages)
        return Fate(before=Unavailable("away")) if away else None

    bed.fate = fate
    while (soonest := min(due, key=lambda number: due[number])) is not None:
        if due[soonest] - begun_s > 2000:
            break
        bed.clock.advance(max(0.0, due[soonest] - bed.clock.monotonic()))
        for keep in keeps:
            assert bed.age_s(keep) < keep.duration_s
        due[soonest] = at(bed.renewer.look(resource(soonest)))
    assert bed.woken == []


def test_its_threads_renew_while_one_call_hangs() -> None:
    bed = Bed()
    hang, go_on = threading.Event(), threading.Event()
    keeps = [bed.keep(number) for number in range(6)]
    first = digest.lease_name(digest.CoordinationDigest(keeps[0].realm))
    bed.clock.advance(31)

    def fate(call: Call) -> None:
        if call.key.name == first and call.verb == "get":
            hang.set()
            go_on.wait(30)

    bed.fate = fate
    threads = [threading.Thread(target=bed.renewer.run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert hang.wait(30)
    until(lambda: all(bed.age_s(keep) == 0 for keep in keeps[1:]), "the others")
    assert bed.age_s(keeps[0]) == 31
    go_on.set()
    until(lambda: bed.age_s(keeps[0]) == 0, "the one that hung")
    bed.renewer.stop()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_fault_of_our_own_stops_one_lease_and_no_thread() -> None:
    bed = Bed()
    keeps = [bed.keep(number) for number in range(2)]
    first = digest.lease_name(digest.CoordinationDigest(keeps[0].realm))
    bed.clock.advance(31)

    def fate(call: Call) -> None:
        if call.key.name == first:
            raise RuntimeError("a bug")

    bed.fate = fate
    thread = threading.Thread(target=bed.renewer.run, daemon=True)
    thread.start()
    until(lambda: bed.age_s(keeps[1]) == 0, "the other one")
    until(lambda: bed.count("failed") == 1, "the failure")
    assert thread.is_alive() and bed.woken == []
    bed.renewer.stop()
    thread.join(30)


def test_an_annotation_without_end_makes_a_lease_malformed() -> None:
    bed = Bed()
    keep = bed.keep(0)
    document = bed.lease(keep)
    document["metadata"]["annotations"][leases.HOLDER] = "[" * 100_000
    assert isinstance(leases.parse(document), leases.Malformed)


def test_a_released_lease_is_not_renewed_by_a_late_look() -> None:
    """Read, then released by a pass, then written: the write's precondition fails."""
    bed = Bed()
    keep = bed.keep(0)
    bed.clock.advance(31)

    def release(call: Call) -> None:
        if call.writes:
            bed.store.replace(leases.released(bed.lease(keep), bed.clock.now()))

    bed.fate = release
    assert at(bed.renewer.look(resource(0))) <= bed.clock.monotonic() + 1
    assert bed.count("conflict") == 1
    bed.fate = lambda call: None
    assert bed.renewer.look(resource(0)) is None
    assert bed.lease(keep)["spec"].get("holderIdentity") is None


def test_a_clock_that_steps_back_renews_at_once() -> None:
    bed = Bed()
    keep = bed.keep(0)
    bed.clock.step_wall(-timedelta(hours=1).total_seconds())
    bed.renewer.look(resource(0))
    assert bed.age_s(keep) == 0


def test_an_unknown_key_is_nobodys() -> None:
    bed = Bed()
    with pytest.raises(NotFound):
        bed.store.get(Key("Lease", NAMESPACE, "none"))
    assert bed.renewer.look(resource(9)) is None
