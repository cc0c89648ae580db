"""The chart and the images as users get them: installed, used, upgraded and removed by Helm."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.kube import vault
from tests.kit import certmanager, clusters, helm, podbed, servers
from tests.kit.chartbed import REFUSED, WAIT, Place, placed
from tests.kit.presence import present
from tests.kit.rawapi import RawApi
from tests.kit.serving import COORDINATION
from tests.kit.waiting import until

MORE = podbed.DECLARED + "CREATE TABLE app.more (id int);"
UPGRADED = MORE.replace("app.items (id int)", "app.items (id int, late int)")
LAST = UPGRADED.replace("late int", "late int, more int")


@pytest.fixture(scope="module")
def place(server_run: servers.Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    town = present(lambda: clusters.own_with_node(server_run))
    with placed(town, tmp_path_factory.mktemp("values")) as made:
        yield made
    clusters.end(town.own_plane)


@pytest.fixture
def bed(place: Place, server_run: servers.Run, postgres_version: int) -> Iterator[podbed.Bed]:
    with podbed.bed(place.town, server_run, postgres_version) as made:
        yield made


def test_from_install_to_removal(place: Place, bed: podbed.Bed) -> None:
    place.install("install", *WAIT)
    assert len(place.pods()) == 2
    used(place, bed)
    second(place)
    upgraded(place, bed)
    emptied(place)
    kept(place, bed)
    removed(place, bed)


def test_with_cert_manager(place: Place, bed: podbed.Bed, tmp_path: Path) -> None:
    """Its part is played by the test; the Secret comes to the replicas by the kubelet.

    What is installed and removed here is so by Helm 3.
    """
    place = dataclasses.replace(place, version="3")
    certmanager.install_kinds(place.town.plane)
    issuer = certmanager.CertManager(place.town.plane, tmp_path, COORDINATION)
    place.install("install", "--set=certManager.enabled=true")
    issuer.issue()
    rollout = ("rollout", "status", "deployment/ptahk-manager", "--timeout=6m")
    place.town.plane.kubectl(*rollout, f"--namespace={COORDINATION}")
    used(place, bed)
    rotated(place, issuer)
    mistrusted(place, issuer, bed)
    waited_for(place, bed)


def used(place: Place, bed: podbed.Bed) -> None:
    """It applies, under webhook and policies, and nobody reaches into what it runs."""
    bed.make()
    bed.ready(limit_s=400)
    assert bed.tables() == ["items", "orders"]
    stored = bed.stored()
    assert stored["metadata"]["annotations"]["ptahk.dev/changed-by"]
    path = f"/apis/batch/v1/namespaces/{bed.namespace}/jobs"
    api = RawApi(place.town.plane)
    [job, *_] = api.call("GET", path).document["items"]
    refused = api.call(
        "PATCH", f"{path}/{job['metadata']['name']}", {"spec": {"suspend": True}},
        kind="application/merge-patch+json",
    )  # fmt: skip
    assert "only ptahk's manager changes an operation's Job" in refused.message


def second(place: Place) -> None:
    """C-13.4: there is one in a cluster."""
    for version in helm.VERSIONS:
        with pytest.raises(helm.HelmFailed, match=r"installed in this cluster already \(release"):
            place.install(
                "install", "--create-namespace", version=version, namespace=f"other-{version}"
            )


@contextlib.contextmanager
def applying(bed: podbed.Bed, text: str) -> Iterator[dict[str, Any]]:
    """An Apply whose statement waits while the block runs; its claim."""
    with bed.database.connect() as holding, holding.transaction():
        holding.execute("LOCK TABLE app.items IN ACCESS SHARE MODE")
        bed.change(desired={"inline": text}, policy={"lockTimeout": "10m"})
        until(lambda: bed.claim().get("type") == "Apply" and bed.waits(), "the Apply", 240)
        yield bed.claim()


def upgraded(place: Place, bed: podbed.Bed) -> None:
    """While an Apply runs: the replicas of the new version go on with it."""
    before = {item["metadata"]["uid"] for item in place.pods()}
    with applying(bed, UPGRADED) as claim:
        place.install("upgrade", "--set=manager.workers=3", *WAIT)
        until(
            lambda: not before & {item["metadata"]["uid"] for item in place.pods()}, "new Pods", 240
        )
        assert bed.claim()["operationId"] == claim["operationId"] and bed.lease()
    bed.ready()
    apply, proof = bed.history()[-2:]
    assert (apply["operationId"], proof["type"]) == (claim["operationId"], "Prove")
    assert apply["settled"]["type"] == "Succeeded"
    assert [state for _, state in bed.ledger()] == ["finished"] * 2, "once, not again"


def emptied(place: Place) -> None:
    """The documented way to make every certificate anew: the replicas agree on another CA."""
    before = place.served()
    gone = json.dumps([{"op": "remove", "path": "/data"}])
    where = ("secret", vault.SECRET, f"--namespace={COORDINATION}")
    place.town.plane.kubectl("patch", *where, "--type=json", f"--patch={gone}")

    def agreed() -> bool:
        return len(place.served()) == 1 and before.isdisjoint(place.served())

    until(agreed, "the replicas to show what they made", 120)
    until(lambda: REFUSED in place.asked(), "the API server to trust it", 120)


def kept(place: Place, bed: podbed.Bed) -> None:
    """An uninstall that has no more time while an Apply runs removes nothing."""
    before = place.left()
    with applying(bed, LAST) as claim:
        with pytest.raises(helm.HelmFailed):
            place.helm("uninstall", "ptahk", "--wait", "--timeout=40s")
        assert place.waits()
        assert set(before) <= set(place.left()) and len(place.pods()) == 2
        assert bed.claim()["operationId"] == claim["operationId"] and bed.lease()
    bed.ready()
    assert bed.history()[-2]["settled"]["type"] == "Succeeded"


def waited_for(place: Place, bed: podbed.Bed) -> None:
    """An uninstall waits until an Apply is accounted for, and orphans nothing."""
    with ThreadPoolExecutor(1) as pool:
        with applying(bed, LAST) as claim:
            uninstall = pool.submit(place.helm, "uninstall", "ptahk", *WAIT)
            until(place.waits, "the uninstall to be told to wait", 120)
            assert not uninstall.done() and len(place.pods()) == 2
            assert bed.claim()["operationId"] == claim["operationId"] and bed.lease()
        uninstall.result(400)
    assert place.left() == [] and place.pods() == []
    status = bed.status()
    assert not bed.claim() and bed.lease() is None
    assert "pendingObservation" not in status and "pendingLockRelease" not in status
    apply, proof = status["history"][-2:]
    assert (apply["operationId"], proof["type"]) == (claim["operationId"], "Prove")
    assert apply["settled"]["type"] == "Succeeded"
    assert {state for _, state in bed.ledger()} == {"finished"}


def remounted(place: Place) -> None:
    """Have the kubelet look at the Secret now: it looks at a Pod that changes."""
    for item in place.pods():
        name = f"pod/{item['metadata']['name']}"
        place.town.plane.kubectl(
            "annotate", name, f"--namespace={COORDINATION}", "--overwrite", "tests/look=now"
        )


def rotated(place: Place, issuer: certmanager.CertManager) -> None:
    """A certificate of the same CA follows: every review meanwhile is answered."""
    before = place.served()
    assert len(before) == 1
    issuer.issue()
    remounted(place)

    def followed() -> bool:
        assert REFUSED in place.asked()
        return len(place.served()) == 1 and before.isdisjoint(place.served())

    until(followed, "the replicas to show what was issued", 240)


def mistrusted(place: Place, issuer: certmanager.CertManager, bed: podbed.Bed) -> None:
    """One of another CA: until the replicas have it nothing is admitted; then work goes on."""
    issuer.another_authority()
    issuer.issue()
    until(lambda: "failed calling webhook" in place.asked(), "the API server to trust no replica")
    bed.change(desired={"inline": MORE})
    remounted(place)
    until(lambda: REFUSED in place.asked(), "the replicas to be trusted again", 240)
    bed.ready()
    assert bed.tables() == ["items", "more", "orders"]


def removed(place: Place, bed: podbed.Bed) -> None:
    """Resources first, while somebody is there to let them go; then nothing is left."""
    bed.kubectl("delete", "ptahschemas", "--all", "--timeout=180s")
    place.helm("uninstall", "ptahk", *WAIT)
    assert place.left() == []
    assert place.pods() == []
    place.town.plane.kubectl("delete", "crd", "--timeout=60s", *_crds(place))


def _crds(place: Place) -> list[str]:
    told = place.town.plane.kubectl("get", "crd", "--output=name")
    return [name.partition("/")[2] for name in told.split() if name.endswith(".ptahk.dev")]
