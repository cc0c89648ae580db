"""What keeps a Pod from its start: a condition says so, nothing spins, and it can be mended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from tests.kit.chartbed import Installed, Start
from tests.kit.controlplane import NODE
from tests.kit.podbed import DECLARED, Bed
from tests.kit.serving import NO_IMAGE
from tests.kit.waiting import until

WINDOW_S = 20.0
PASSES_MAX = 12
"""Of one resource in the window: a look every five seconds, and what events wake."""
SHORT = {"activeDeadlineSeconds": 30, "failureRetryInterval": "5s"}


def passes(replica: Installed) -> float:
    """Passes of all resources so far, whichever replica led."""
    return replica.total("ptahk_passes_total")


def quota(bed: Bed, what: str) -> None:
    """Allow none of these in the namespace."""
    document = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {what: "0"}},
    }
    bed.kubectl("create", "--filename=-", stdin=json.dumps(document))

    def counted() -> bool:
        told = json.loads(bed.kubectl("get", "resourcequota", "none", "--output=json"))
        return bool(told.get("status", {}).get("hard"))

    until(counted, "the quota to be in force")


def test_what_a_namespace_lacks_is_told_and_mended(start: Start, beds: Callable[[], Bed]) -> None:
    replica = start().ready()
    secret, key, place, jobs, pods = (beds() for _ in range(5))
    quota(jobs, "count/jobs.batch")
    quota(pods, "pods")
    secret.make(target={"urlFrom": {"name": "absent"}})
    key.make(target={"urlFrom": {"name": "db", "key": "absent"}})
    place.make(execution={"nodeSelector": {"disk": place.namespace}})
    jobs.make(execution={"failureRetryInterval": "30s"})
    pods.make()
    told: list[tuple[Bed, tuple[str, ...]]] = [
        (secret, ("SecretUnavailable", "absent")),
        (key, ("SecretUnavailable", "absent")),
        (place, ("Unschedulable", "node")),
        (jobs, ("JobMissing", "exceeded quota: none")),
        (pods, ("PodRefused", "exceeded quota: none")),
    ]
    for bed, words in told:
        status = bed.told(*words)
        assert status["nextStep"], f"what to do: {words}"
        assert {"type": "Ready", "status": "False"}.items() <= status["conditions"][0].items()
    since, before = time.monotonic(), passes(replica)
    until(lambda: time.monotonic() - since > WINDOW_S, "the window")
    # Jobs that are refused cost a claim of some ten passes at each of their retries.
    spent = passes(replica) - before
    assert spent <= PASSES_MAX * (len(told) - 1) + 60, spent
    for bed, words in told:
        bed.told(*words)

    secret.secret("absent")
    mended = {"stringData": {"absent": key.url}}
    key.kubectl("patch", "secret", "db", f"--patch={json.dumps(mended)}")
    place.town.plane.kubectl("label", "node", NODE, f"disk={place.namespace}")
    for bed in (jobs, pods):
        bed.kubectl("delete", "resourcequota", "none")
    for bed, _ in told:
        bed.ready()
        assert bed.tables() == ["items", "orders"]


def test_an_image_that_nobody_has(start: Start, beds: Callable[[], Bed]) -> None:
    """Helm is told of it, and then of the right one."""
    bed = beds()
    start(image=NO_IMAGE).ready()
    bed.make(execution=SHORT)
    assert bed.told("ImageUnavailable", NO_IMAGE)["nextStep"]
    assert bed.jobs().count("plan") == 1
    start().ready()
    bed.ready()
    assert bed.tables() == ["items", "orders"]


def test_what_is_wrong_in_a_resource_is_told_and_mended(
    start: Start, beds: Callable[[], Bed]
) -> None:
    """A spec that no schema of an API server can refuse, and a declaration that is not SQL."""
    start().ready()
    spec, text = beds(), beds()
    spec.make(execution={"nodeSelector": {"no label": "x"}})
    text.make(text="CREATE SCHEMA app;\nCREATE TABLE app.orders (id int;\n")
    for bed, words in ((spec, ("InvalidSpec", "nodeSelector")), (text, ("InvalidSource",))):
        status = bed.told(*words)
        assert status["phase"] == "Blocked" and status["nextStep"]
        assert bed.tables() == []
    assert spec.jobs() == [] and text.jobs() == ["plan"]
    spec.change(execution={"nodeSelector": None})
    text.change(desired={"inline": DECLARED})
    for bed in (spec, text):
        bed.ready()
        assert bed.tables() == ["items", "orders"]
