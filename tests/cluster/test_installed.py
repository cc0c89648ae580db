"""What people do with resources, under the chart as Helm installs it: two replicas in Pods.

The manager's image, identity, rights, certificates, webhook and policies are all the release's
here. Where a fault proxy stands between the replicas and the API server it is the release too
(``test_leader_faults``, ``test_scenarios_losses``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.scenarios_census import (
    test_sharers_take_turns_and_a_newcomer_stops_no_proof,
    test_two_claim_one_database_until_one_is_suspended,
)
from tests.cluster.scenarios_edits import held, test_the_apply_is_read_and_accounted_for
from tests.cluster.scenarios_engines import engines, test_every_engine_converges_in_one_cluster
from tests.cluster.test_serve_pods import (
    bed,
    test_a_changed_config_map_is_applied_without_waiting,
    test_a_resource_converges_and_rests,
)
from tests.kit.chartbed import Installed, placed
from tests.kit.clusters import PodCluster
from tests.kit.podbed import Bed, Start
from tests.kit.theatre import AFTER, BEFORE, accounted
from tests.kit.waiting import until

__all__ = [
    "bed", "engines", "held", "test_a_changed_config_map_is_applied_without_waiting",
    "test_a_resource_converges_and_rests", "test_every_engine_converges_in_one_cluster",
    "test_sharers_take_turns_and_a_newcomer_stops_no_proof",
    "test_the_apply_is_read_and_accounted_for",
    "test_two_claim_one_database_until_one_is_suspended",
]  # fmt: skip


@pytest.fixture(scope="module")
def release(town: PodCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Of this module alone; it is installed by the first who needs it."""
    with placed(town, tmp_path_factory.mktemp("release"), lease="15s") as place:
        yield Installed(place)


@pytest.fixture
def start(release: Installed) -> Start:
    """The release, where other suites start a replica; nobody manages before it is started."""
    if release.place.pods():
        release.stop()

    def starting(**given: Any) -> Any:
        assert not given, "a release has the settings that its values say"
        return release

    return starting


def test_a_replica_that_leads_is_killed_during_an_apply(
    start: Start, bed: Bed, release: Installed
) -> None:
    start().ready()
    bed.database.run(BEFORE, bed.role)
    leader = until(release.leader, "a leader", 60)
    with bed.database.connect() as holding, holding.transaction():
        holding.execute("LOCK TABLE app.orders IN ACCESS SHARE MODE")
        bed.make(text=AFTER, policy={"lockTimeout": "10m"})
        until(lambda: bed.claim().get("type") == "Apply" and bed.waits(), "the Apply", 240)
        release.kill(leader)
        until(lambda: release.leader() not in (None, leader), "the next to lead", 120)
    (apply,) = accounted(bed, "the leader was killed")
    assert apply["settled"]["type"] == "Succeeded"
