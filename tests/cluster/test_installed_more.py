"""Under the chart as Helm installs it, as ``test_installed``: a second module shares the load."""

from __future__ import annotations

from tests.cluster.releasing import installed, start
from tests.cluster.scenarios_bad import (
    test_an_image_that_nobody_has,
    test_what_a_namespace_lacks_is_told_and_mended,
    test_what_is_wrong_in_a_resource_is_told_and_mended,
)
from tests.cluster.scenarios_migrations import (
    test_a_directory_that_moved_after_its_approval_is_refused_by_name,
    test_a_schema_and_a_migration_on_one_realm,
    test_from_a_directory_to_its_proof_and_its_next_version,
    test_the_interval_finds_what_somebody_changed_by_hand,
    test_the_same_on_mysql,
)
from tests.cluster.scenarios_person import (
    test_a_person_takes_a_change_from_its_plan_to_its_proof,
)
from tests.cluster.scenarios_restore import (
    test_a_restored_store_runs_nothing_until_somebody_says_so,
    test_a_store_restored_under_a_running_release_runs_nothing_either,
)
from tests.kit.chartbed import Installed, Start
from tests.kit.rawapi import Answered
from tests.kit.waiting import until

__all__ = [
    "start", "test_a_directory_that_moved_after_its_approval_is_refused_by_name",
    "test_a_person_takes_a_change_from_its_plan_to_its_proof",
    "test_a_restored_store_runs_nothing_until_somebody_says_so",
    "test_a_schema_and_a_migration_on_one_realm",
    "test_a_store_restored_under_a_running_release_runs_nothing_either",
    "test_an_image_that_nobody_has", "test_from_a_directory_to_its_proof_and_its_next_version",
    "test_the_interval_finds_what_somebody_changed_by_hand", "test_the_same_on_mysql",
    "test_what_a_namespace_lacks_is_told_and_mended",
    "test_what_is_wrong_in_a_resource_is_told_and_mended",
]  # fmt: skip

release = installed("120s")
"""Across a restored store too, and nobody dies here without a word."""


def allowed(release: Installed, container: str) -> Answered | None:
    """An eviction that is not refused for a budget which nobody has counted yet."""
    answer = release.evict(container)
    return None if answer.status == 429 else answer


def test_a_replica_that_is_told_to_end_hands_over_at_once(start: Start, release: Installed) -> None:
    """As a drain tells it: long before the end of the leader's Lease, and one at a time."""
    start().ready()
    leader = until(release.leader, "a leader", 60)
    (other,) = release.containers() - {leader}
    evicted = until(lambda: allowed(release, leader), "a budget that is counted", 60)
    assert evicted.status == 201, evicted.message
    kept = release.evict(other)
    assert kept.status == 429 and "disruption budget" in kept.message, kept.message
    until(lambda: release.leader() not in (None, leader), "the other to lead", 60)
    until(lambda: len(release.containers()) == 2, "another in its place", 120)
