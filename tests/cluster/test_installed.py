"""What people do with resources, under the chart as Helm installs it: two replicas in Pods.

The manager's image, identity, rights, certificates, webhook and policies are all the release's
here. Where a fault proxy stands between the replicas and the API server it is the release too
(``test_leader_faults``, ``test_scenarios_losses``). More of it is in ``test_installed_more``.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.releasing import installed, nobody, start
from tests.cluster.scenarios_census import (
    test_sharers_take_turns_and_a_newcomer_stops_no_proof,
    test_two_claim_one_database_until_one_is_suspended,
)
from tests.cluster.scenarios_edits import held, test_the_apply_is_read_and_accounted_for
from tests.cluster.scenarios_engines import engines, test_every_engine_converges_in_one_cluster
from tests.cluster.scenarios_pods import (
    bed,
    test_a_changed_config_map_is_applied_without_waiting,
    test_a_resource_converges_and_rests,
    test_with_every_replica_down_nothing_of_ours_starts,
    test_without_the_guard_nothing_is_dispatched,
)
from tests.cluster.scenarios_reach import test_nobody_reaches_into_an_apply_that_runs
from tests.kit.chartbed import Installed, Start
from tests.kit.podbed import Bed
from tests.kit.theatre import AFTER, BEFORE, accounted
from tests.kit.waiting import until

__all__ = [
    "bed", "engines", "held", "nobody", "start",
    "test_a_changed_config_map_is_applied_without_waiting", "test_a_resource_converges_and_rests",
    "test_every_engine_converges_in_one_cluster", "test_nobody_reaches_into_an_apply_that_runs",
    "test_sharers_take_turns_and_a_newcomer_stops_no_proof",
    "test_the_apply_is_read_and_accounted_for",
    "test_two_claim_one_database_until_one_is_suspended",
    "test_with_every_replica_down_nothing_of_ours_starts",
    "test_without_the_guard_nothing_is_dispatched",
]  # fmt: skip

release = installed("15s")


def test_a_replica_that_leads_is_killed_during_an_apply(
    start: Start, bed: Bed, beds: Callable[[], Bed], release: Installed
) -> None:
    start().ready()
    bed.database.run(BEFORE, bed.role)
    leader = until(release.leader, "a leader", 60)
    with bed.database.connect() as holding, holding.transaction():
        holding.execute("LOCK TABLE app.orders IN ACCESS SHARE MODE")
        bed.make(text=AFTER, policy={"lockTimeout": "10m"})
        until(lambda: bed.claim().get("type") == "Apply" and bed.waits(), "the Apply", 240)
        claim = bed.claim()
        release.kill(leader)
        until(lambda: release.leader() not in (None, leader), "the next to lead", 120)
        other = beds()
        other.make()
        until(lambda: other.claim().get("jobUid"), "work under the next leader", 120)
        assert bed.claim()["operationId"] == claim["operationId"], "the claim goes on"
    (apply,) = accounted(bed, "the leader was killed")
    assert apply["settled"]["type"] == "Succeeded"
