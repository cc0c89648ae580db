"""Reads off the reconcile path: bounded, once each, and a hung one costs only its slot."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ptahk.engine.driver import FAMILIES
from ptahk.engine.model.intent import Need
from ptahk.engine.ports import Collected, Key, Lost, NotYet, Result, Unavailable
from ptahk.serve.accounts import Accounts
from ptahk.serve.metrics import Metrics
from ptahk.serve.reader import Reader
from tests.kit.memory import MemoryClock, MemoryJobs
from tests.kit.waiting import until


class Logs(MemoryJobs):
    """Results that hang, fail or come."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.begun: list[str] = []
        self.answers: dict[str, Collected | Exception] = {}

    def collect(self, namespace: str, name: str, uid: str) -> Collected:
        self.begun.append(name)
        if name.startswith("hangs"):
            self.go_on.wait(60)
        answer = self.answers.get(name, Result(b"log", None, "pod"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Bed:
    clock: MemoryClock = field(default_factory=MemoryClock)
    logs: Logs = field(default_factory=Logs)
    got: dict[str, Collected] = field(default_factory=dict)

    def reader(self, limit: int = 64) -> Reader:
        self.metrics = Metrics(Accounts(FAMILIES), self.clock.now)

        def deliver(key: Key, need: Need, found: Collected) -> None:
            assert need.name not in self.got, "delivered once"
            self.got[need.name] = found

        self.made = Reader(self.logs, self.clock, self.metrics, deliver, limit=limit, overrun_s=70)
        return self.made

    def count(self, result: str) -> float:
        value: float = self.metrics.reads.labels(result)._value.get()
        return value


@pytest.fixture
def bed() -> Iterator[Bed]:
    bed = Bed()
    yield bed
    bed.logs.go_on.set()
    bed.made.stop()


def ask(reader: Reader, name: str) -> None:
    reader.ask(Key("PtahSchema", "ns", name), Need("ns", name, f"uid-{name}"))


def test_hung_reads_leave_room_for_others_up_to_the_bound(bed: Bed) -> None:
    reader = bed.reader(limit=24)
    for number in range(20):
        ask(reader, f"hangs{number}")
    for number in range(100):
        ask(reader, f"ok{number}")
    until(lambda: len(bed.got) == 100, "all that do not hang")
    assert bed.metrics.reads_running._value.get() == 20
    bed.logs.go_on.set()
    until(lambda: len(bed.got) == 120, "the rest")
    assert bed.metrics.reads_running._value.get() == 0


def test_above_the_bound_reads_wait_their_turn(bed: Bed) -> None:
    reader = bed.reader(limit=2)
    for name in ("hangs0", "hangs1", "ok"):
        ask(reader, name)
    until(lambda: len(bed.logs.begun) == 2, "two reads")
    assert bed.got == {}
    bed.logs.go_on.set()
    until(lambda: "ok" in bed.got, "the third")


def test_one_result_is_read_once_at_a_time(bed: Bed) -> None:
    reader = bed.reader()
    for _ in range(5):
        ask(reader, "hangs")
    until(lambda: bed.logs.begun, "the read")
    bed.logs.go_on.set()
    until(lambda: "hangs" in bed.got, "its result")
    assert bed.logs.begun == ["hangs"]


def test_a_read_that_overruns_loses_its_slot_and_decides_nothing(bed: Bed) -> None:
    reader = bed.reader(limit=1)
    watch = threading.Thread(target=reader.watch, daemon=True)
    watch.start()
    ask(reader, "hangs")
    until(lambda: bed.logs.begun, "the read")
    bed.clock.advance(71)
    ask(reader, "ok")
    until(lambda: "ok" in bed.got, "the next in the freed slot")
    assert isinstance(bed.got["hangs"], NotYet)
    assert (reader.abandoned, bed.count("overrun")) == (1, 1)
    bed.logs.go_on.set()
    until(lambda: reader.abandoned == 0, "the hung thread to end")
    reader.stop()
    watch.join(30)
    assert not watch.is_alive()


def test_what_fails_decides_nothing_and_is_told(bed: Bed) -> None:
    reader = bed.reader()
    bed.logs.answers = {
        "away": Unavailable("no kubelet"), "bug": RuntimeError("x"), "gone": Lost("gone"),
    }  # fmt: skip
    for name in ("away", "bug", "gone"):
        ask(reader, name)
    until(lambda: len(bed.got) == 3, "three answers")
    assert bed.got["away"] == NotYet("Unavailable: no kubelet")
    assert isinstance(bed.got["bug"], NotYet)
    assert bed.got["gone"] == Lost("gone")
    assert (bed.count("failed"), bed.count("lost")) == (2, 1)


def test_after_a_stop_nothing_more_is_read(bed: Bed) -> None:
    reader = bed.reader(limit=1)
    ask(reader, "hangs")
    ask(reader, "waits")
    until(lambda: bed.logs.begun, "the first")
    reader.stop()
    bed.logs.go_on.set()
    until(lambda: "hangs" in bed.got, "its end")
    ask(reader, "late")
    assert bed.logs.begun == ["hangs"]
