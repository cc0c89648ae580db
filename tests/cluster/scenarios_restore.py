"""etcd goes back to a backup: what the database's ledger knows and the store does not (C-6.14)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptahk.engine.model.job import OPERATION_ID
from tests.kit import node
from tests.kit.chartbed import Start
from tests.kit.controlplane import ControlPlane
from tests.kit.podbed import Bed, Person
from tests.kit.serving import holder
from tests.kit.theatre import jobs_of
from tests.kit.waiting import until

FIRST = "CREATE SCHEMA app; CREATE TABLE app.orders (id int);"
SECOND = "CREATE SCHEMA app; CREATE TABLE app.orders (id int, more int);"
THIRD = "CREATE SCHEMA app; CREATE TABLE app.orders (id int, more int, most int);"


def put_back(plane: ControlPlane, kept: Path) -> None:
    """Restore etcd, and start anew what watched a future that will not come."""
    plane.restore(kept)
    for name in ("controller-manager", "scheduler", "kubelet"):
        plane.component(name).kill()
        plane.component(name).start()
    node.wait_ready(plane)


def applied(bed: Bed) -> set[str]:
    """The operations that have an Apply's Job; its time to live may have ended."""
    return {item["metadata"]["annotations"][OPERATION_ID] for item in jobs_of(bed, "apply")}


def thawed(bed: Bed, person: Person, known: list[tuple[Any, ...]]) -> None:
    """A person's word, and what it lets go on."""
    where = ("schema/db", "-n", bed.namespace)
    answer = person.run("acknowledge", *where, "--frozen", "--reason", "etcd was restored")
    assert answer.code == 0, answer
    bed.ready()
    ledger = bed.ledger()
    assert ledger[:2] == known and [state for _, state in ledger] == ["finished"] * 3


def test_a_restored_store_runs_nothing_until_somebody_says_so(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    bed = beds()
    plane = bed.town.own_plane
    before = start().ready()
    bed.make(text=FIRST, interval="24h")
    bed.ready()
    bed.change(suspend=True)
    until(lambda: bed.status()["phase"] == "Suspended", "rest")
    assert before.stop() == 0
    kept = plane.snapshot("before")
    node.wait_ready(plane)

    lost = start().ready()
    bed.change(suspend=False, desired={"inline": SECOND})
    until(lambda: len(bed.ledger()) == 2, "the Apply that the backup does not know", 180)
    bed.ready()
    assert lost.stop() == 0
    known = bed.ledger()
    put_back(plane, kept)
    assert bed.status()["phase"] == "Suspended", "as it was"

    start().ready()
    bed.change(suspend=False, desired={"inline": THIRD})
    until(lambda: bed.status()["phase"] == "Frozen", "the freeze", 180)
    assert bed.condition()["reason"] == "Frozen"
    assert "acknowledge" in bed.status()["nextStep"]
    until(lambda: not bed.claim() and bed.lease() is None, "the end of the reading")
    assert bed.ledger() == known and applied(bed) <= {known[0][0]}, "only what the backup knows"

    thawed(bed, person, known)


def test_a_store_restored_under_a_running_release_runs_nothing_either(
    start: Start, beds: Callable[[], Bed], person: Person
) -> None:
    """What the replicas remember lies in a future that will not come: it counts for nothing."""
    bed = beds()
    plane = bed.town.own_plane
    release = start(lease="120s").ready()
    bed.make(text=FIRST, interval="24h")
    bed.ready()
    kept = plane.snapshot("during")
    node.wait_ready(plane)
    bed.change(desired={"inline": SECOND})
    until(lambda: len(bed.ledger()) == 2, "the Apply that the backup does not know", 180)
    bed.ready()
    known, seen = bed.ledger(), bed.stored()["metadata"]["resourceVersion"]
    leader = until(release.leader, "a leader")
    led_by, replicas = holder(bed.api), release.containers()
    put_back(plane, kept)
    assert int(bed.stored()["metadata"]["resourceVersion"]) < int(seen)

    bed.change(desired={"inline": THIRD})
    until(lambda: bed.status().get("phase") == "Frozen", "the freeze", 180)
    assert release.leader() == leader and holder(bed.api) == led_by, "it went on as the leader"
    until(lambda: release.containers() == replicas, "both: none began anew")
    until(lambda: not bed.claim() and bed.lease() is None, "the end of the reading")
    assert bed.ledger() == known and applied(bed) <= {known[0][0]}, "nothing ran"
    thawed(bed, person, known)
