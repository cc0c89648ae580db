"""The index says at every moment what a live reading of everything would say."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptahk.backends.kube.census import CensusIndex
from ptahk.engine import census, peers
from ptahk.engine.model.claim import PendingLockRelease
from ptahk.engine.model.status import Status, render
from ptahk.engine.ports import Document, Key, key_of
from ptahk.wire.digest import coordination_digest

KEYS = ("orders", "billing", "shop")
REALMS = tuple(coordination_digest("postgresql", key) for key in KEYS)
KINDS = ("PtahSchema", "PtahMigration")
HOSTILE: tuple[Any, ...] = (
    None, {}, {"target": None}, {"target": {"engine": 3, "coordinationKey": []}},
    {"target": {"engine": "oracle", "coordinationKey": "orders"}}, [], "text",
)  # fmt: skip


def resource(
    key: tuple[str, str, str], uid: int, spec: Any, status: Any = None, *, deleting: bool = False
) -> Document:
    kind, namespace, name = key
    metadata: Document = {
        "namespace": namespace, "name": name, "uid": f"uid-{uid}", "resourceVersion": str(uid),
    }  # fmt: skip
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"kind": kind, "metadata": metadata, "spec": spec, "status": status}


def spec_of(coordination_key: str, *, shared: bool = False, suspend: bool = False) -> Document:
    return {
        "target": {
            "engine": "postgresql", "coordinationKey": coordination_key, "sharedRealm": shared,
            "urlFrom": {"name": "url", "key": "url"},
        },
        "suspend": suspend,
        "desired": {"inline": "x"},
    }  # fmt: skip


def releasing(uid: int, realm: str) -> Document:
    owed = PendingLockRelease(realm, "h" * 64, "3.0123456789abcdef")
    return render(Status(f"uid-{uid}", pending_lock_release=owed))


names = st.tuples(st.sampled_from(KINDS), st.sampled_from(("n", "m")), st.sampled_from("ab"))
specs = st.one_of(
    st.builds(spec_of, st.sampled_from(KEYS), shared=st.booleans(), suspend=st.booleans()),
    st.sampled_from(HOSTILE),
)
statuses = st.one_of(st.none(), st.sampled_from(REALMS), st.just("garbage"))
steps = st.tuples(st.sampled_from(("write", "write", "delete")), names, specs, statuses,
                  st.booleans(), st.booleans())  # fmt: skip


def fresh(realm: str, documents: list[Document]) -> list[Document]:
    found = [d for d in documents if realm in peers.realms(d)]
    return sorted(found, key=key_of)


def verdict(mine: Document, others: Any, realm: str) -> Any:
    """What the engine says to a resource that sees these peers."""
    seen = peers.of_realm(others, realm, mine["metadata"]["uid"], automatic=True)
    spec = SimpleNamespace(target=SimpleNamespace(coordination_digest=realm))
    snapshot: Any = SimpleNamespace(peers=seen, namespace=mine["metadata"]["namespace"], spec=spec)
    shared = isinstance(mine["spec"], dict) and bool(
        (mine["spec"].get("target") or {}).get("sharedRealm")
    )
    return set(seen), census.conflict(snapshot, shared) is not None


@settings(max_examples=150)
@given(st.lists(steps, max_size=30))
def test_the_index_is_what_a_live_reading_says(history: list[Any]) -> None:
    index, world, uids = CensusIndex(), {}, 0
    for verb, key, spec, status, again, deleting in history:
        old = world.get(key)
        if verb == "delete":
            world.pop(key, None)
            index.update(old, None)
        else:
            uids += 1
            uid = uids if old is None or again else int(old["metadata"]["uid"][4:])
            written = releasing(uid, status) if status in REALMS else status
            world[key] = resource(key, uid, spec, written, deleting=deleting)
            if old is not None and old["metadata"]["uid"] != f"uid-{uid}":
                index.update(old, None)
                old = None
            index.update(old, world[key])
        everything = list(world.values())
        for realm in REALMS:
            kept = index.claimants(realm)
            assert kept is not None
            assert list(kept) == fresh(realm, everything)
            for mine in everything:
                assert verdict(mine, kept, realm) == verdict(mine, everything, realm)
    assert index.realms() == {r for d in world.values() for r in peers.realms(d)}


def test_the_comparison_sees_conflicts() -> None:
    pair = [
        resource(("PtahSchema", "n", name), n, spec_of("orders")) for n, name in enumerate("ab")
    ]
    index = CensusIndex()
    for document in pair:
        index.update(None, document)
    kept = index.claimants(REALMS[0])
    assert verdict(pair[0], kept, REALMS[0])[1] is True
    suspended = resource(("PtahSchema", "n", "b"), 1, spec_of("orders", suspend=True))
    index.update(pair[1], suspended)
    assert verdict(pair[0], index.claimants(REALMS[0]), REALMS[0])[1] is False


def test_a_name_that_is_given_again_without_its_end_being_told() -> None:
    index, key = CensusIndex(), ("PtahSchema", "n", "a")
    index.update(None, resource(key, 1, spec_of("orders")))
    index.update(None, resource(key, 2, spec_of("billing")))
    assert index.claimants(REALMS[0]) == ()
    assert [d["metadata"]["uid"] for d in index.claimants(REALMS[1]) or ()] == ["uid-2"]
    index.update(None, None)


def calls_of(index: CensusIndex, old: Document | None, new: Document | None) -> int:
    """Function calls, Python's and C's, that one event costs."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        index.update(old, new)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("one_realm", [False, True])
def test_an_event_costs_the_same_among_a_hundred_and_ten_thousand(one_realm: bool) -> None:
    costs = []
    for size in (100, 10_000):
        index = CensusIndex()
        for number in range(size):
            name = "orders" if one_realm else f"key-{number}"
            index.update(None, resource(("PtahSchema", "n", f"s{number}"), number, spec_of(name)))
        key = ("PtahSchema", "n", "s7")
        old = resource(key, 7, spec_of("orders" if one_realm else "key-7"))
        moved = resource(key, 7, spec_of("elsewhere"), releasing(7, REALMS[2]))
        costs.append([
            calls_of(index, old, moved), calls_of(index, moved, old), calls_of(index, old, None),
        ])  # fmt: skip
    assert costs[0] == costs[1]
    assert max(costs[0]) < 3000


class FakeWatch:
    def __init__(self) -> None:
        self.synced = threading.Event()
        self.age = 0.0

    def subscribe(self, observer: Any) -> None:
        self.observer = observer

    def age_s(self) -> float:
        return self.age


def test_an_index_that_is_not_whole_or_not_fresh_answers_nothing() -> None:
    watches = (FakeWatch(), FakeWatch())
    index = CensusIndex(*watches, age_max_s=100.0)
    watches[0].observer(None, resource(("PtahSchema", "n", "a"), 1, spec_of("orders")))
    watches[0].synced.set()
    assert index.claimants(REALMS[0]) is None
    watches[1].synced.set()
    assert len(index.claimants(REALMS[0]) or ()) == 1
    watches[1].age = 101.0
    assert index.claimants(REALMS[0]) is None
    watches[1].age = 1.0
    assert index.claimants(REALMS[1]) == ()


def test_readers_beside_a_writer_see_whole_states() -> None:
    index, stop = CensusIndex(), threading.Event()
    key = Key("PtahSchema", "n", "a")
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(sum(len(index.claimants(realm) or ()) for realm in REALMS[:2]))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(300):
        index.update(None, resource(tuple(key), 1, spec_of(KEYS[number % 2])))
    stop.set()
    reader.join(20.0)
    assert set(seen) <= {0, 1, 2}
