"""As ``podbed``, with a database on MySQL or MariaDB."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ptahk.engine.model.resource import API_VERSION, SCHEMA
from tests.kit import mydatabases, myservers, servers
from tests.kit.clusterfixtures import create_namespace
from tests.kit.clusters import PodCluster
from tests.kit.mydatabases import Account, MyDatabase
from tests.kit.podbed import Bed, Sequence
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
    def engine(self) -> str:
        own: MyDatabase = self.database
        return own.server.make

    @property
    def url(self) -> str:
        own: MyDatabase = self.database
        address = self.town.guests.address
        return own.url(self.role).replace(f"@{own.server.host}:", f"@{address}:")

    def make(self, name: str = "db", *, text: str = DECLARED, **spec: Any) -> None:
        target = {"engine": self.engine, "coordinationKey": self.database.name,
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


@dataclass
class MySequence(Sequence, MyBed):
    """The same with a PtahMigration, whose directory is a ConfigMap."""

    def revisions(self) -> list[tuple[Any, ...]]:
        return list(
            self.database.rows(
                "SELECT version, kind, state, applied FROM ptahk_revisions ORDER BY ordinal"
            )
        )


@contextlib.contextmanager
def bed(town: PodCluster, run: servers.Run, make: str) -> Iterator[MyBed]:
    """A server that the Pods' network reaches, which ends with the test."""
    settings = {"bind-address": f"127.0.0.1,{town.guests.address}"}
    server = present(lambda: myservers.start(run, make, settings))
    try:
        database = mydatabases.create(server)
        account: Account = database.account("ALL")
        database.run(f"GRANT ALL ON `ptahk\\_scratch\\_%`.* TO '{account.name}'@'%'")
        made = MyBed(town, create_namespace(town.plane), database, account)
        made.secret()
        yield made
    finally:
        myservers.stop(server)
