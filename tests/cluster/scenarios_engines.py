"""``ptahk serve`` with real Pods, and every engine at once: a PtahSchema of each converges."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.conftest import my_makes
from tests.kit import mypodbed, podbed, servers
from tests.kit.chartbed import Start
from tests.kit.clusters import PodCluster
from tests.kit.podbed import Bed


@pytest.fixture
def engines(
    town: PodCluster, server_run: servers.Run, postgres_version: int, request: pytest.FixtureRequest
) -> Iterator[list[Bed]]:
    """One of each engine, all on one cluster."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(podbed.bed(town, server_run, postgres_version))]
        for make in my_makes(request.config):
            made.append(stack.enter_context(mypodbed.bed(town, server_run, make)))
        yield made


def test_every_engine_converges_in_one_cluster(start: Start, engines: list[Bed]) -> None:
    beds, replica = engines, start().ready()
    for bed in beds:
        bed.make(interval="24h")
    for bed in beds:
        bed.ready(limit_s=480)
        status = bed.status()
        assert status["phase"] == "InSync"
        kinds = [entry["type"] for entry in status["history"]]
        assert kinds == ["Plan", "Apply", "Prove"], kinds
        settled = status["history"][1]["settled"]
        assert (settled["type"], status["history"][1]["converged"]) == ("Succeeded", True)
        assert [state for _, state in bed.ledger()] == ["finished"]
    assert [bed.tables() for bed in beds] == [["items", "orders"]] + [
        ["items", "orders", "placed"]
    ] * (len(beds) - 1)
    text = replica.log.read_text()
    assert [bed for bed in beds if bed.role.password in text] == []
