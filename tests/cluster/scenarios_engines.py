"""``ptahk serve`` with real Pods, and every engine at once: a PtahSchema of each converges."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ptahk.engine.model.resource import API_VERSION, SCHEMA
from tests.conftest import my_makes
from tests.kit import mydatabases, myservers, podbed, servers
from tests.kit.clusterfixtures import create_namespace
from tests.kit.clusters import PodCluster
from tests.kit.mydatabases import Account, MyDatabase
from tests.kit.podbed import Bed, Start
from tests.kit.presence import present

DECLARED = """
CREATE TABLE orders (id int PRIMARY KEY, placed datetime);
CREATE TABLE items (id int PRIMARY KEY, orders int NOT NULL,
  CONSTRAINT items_orders FOREIGN KEY (orders) REFERENCES orders (id));
CREATE VIEW placed AS SELECT id FROM orders WHERE placed IS NOT NULL;
"""


@dataclass
class MyBed(Bed):
    """A namespace with a database on MySQL or MariaDB."""

    database: Any
    role: Any

    @property
    def url(self) -> str:
        own: MyDatabase = self.database
        address = self.town.guests.address
        return own.url(self.role).replace(f"@{own.server.host}:", f"@{address}:")

    def make(self, name: str = "db", *, text: str = DECLARED, **spec: Any) -> None:
        target = {"engine": self.database.server.make, "coordinationKey": self.database.name,
                  "urlFrom": {"name": "db"}}  # fmt: skip
        whole = {"target": target, "desired": {"inline": text}, "policy": {"apply": "Always"}}
        document = {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": name}}
        self.kubectl("create", "--filename=-", stdin=json.dumps(document | {"spec": whole | spec}))

    def tables(self) -> list[str]:
        rows = self.database.rows("SHOW TABLES")
        return sorted(name for (name,) in rows if not name.startswith("ptahk_"))

    def ledger(self) -> list[tuple[Any, ...]]:
        return list(
            self.database.rows("SELECT operation_id, state FROM ptahk_attempt ORDER BY number")
        )


@pytest.fixture
def engines(
    town: PodCluster, server_run: servers.Run, postgres_version: int, request: pytest.FixtureRequest
) -> Iterator[list[Bed]]:
    """One of each engine, all on one cluster."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(podbed.bed(town, server_run, postgres_version))]
        for make in my_makes(request.config):
            made.append(stack.enter_context(_bed(town, server_run, make)))
        yield made


@contextlib.contextmanager
def _bed(town: PodCluster, run: servers.Run, make: str) -> Iterator[Bed]:
    """A server that the Pods' network reaches, which ends with the test."""
    settings = {"bind-address": f"127.0.0.1,{town.guests.address}"}
    server = present(lambda: myservers.start(run, make, settings))
    try:
        database = mydatabases.create(server)
        account: Account = database.account("ALL")
        database.run(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{account.name}'@'%'")
        bed = MyBed(town, create_namespace(town.plane), database, account)
        bed.secret()
        yield bed
    finally:
        myservers.stop(server)


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
    assert replica.stop() == 0
