"""``ptahk serve`` with real Pods and a real PostgreSQL: the whole path, and a leader that dies."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptahk.engine.model.resource import API_VERSION, SCHEMA
from tests.kit import clusters, databases, podjobs, servers
from tests.kit.clusterfixtures import create_namespace
from tests.kit.clusters import PodCluster
from tests.kit.controlplane import KubectlFailed
from tests.kit.databases import Database, Role
from tests.kit.presence import present
from tests.kit.rawapi import RawApi, resources
from tests.kit.serving import Served, install
from tests.kit.waiting import until

Start = Callable[..., Served]
DECLARED = """
CREATE SCHEMA app;
CREATE TABLE app.orders (id int PRIMARY KEY);
CREATE TABLE app.items (id int);
"""


@pytest.fixture(scope="module")
def town(server_run: servers.Run) -> Iterator[PodCluster]:
    """A cluster with a node for this module alone: a manager works on every namespace."""
    made = present(lambda: clusters.own_with_node(server_run))
    install(made.plane)
    yield made
    clusters.end(made.own_plane)


@pytest.fixture
def start(town: PodCluster, tmp_path: Path) -> Iterator[Start]:
    made: list[Served] = []

    def starting(**more: Any) -> Served:
        log = tmp_path / f"serve-{len(made)}.log"
        made.append(Served(town.plane, log, image=town.images["executor"], **more))
        return made[-1]

    yield starting
    for replica in made:
        replica.end()


@dataclass
class Bed:
    """A namespace with a database and the Secret that names it."""

    town: PodCluster
    namespace: str
    database: Database
    role: Role

    @property
    def api(self) -> RawApi:
        return RawApi(self.town.plane)

    def make(self, name: str = "db", *, text: str = DECLARED, **spec: Any) -> None:
        """kubectl creates a resource."""
        target = {"engine": "postgresql", "coordinationKey": self.database.name,
                  "urlFrom": {"name": "db"}}  # fmt: skip
        whole = {
            "target": target,
            "desired": {"inline": text},
            "policy": {"apply": "Always", "schemas": ["app"]},
        }
        document = {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": name}}
        text = json.dumps(document | {"spec": whole | spec})
        self.kubectl("create", "--filename=-", stdin=text)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.town.plane.kubectl(*arguments, f"--namespace={self.namespace}", stdin=stdin)

    def stored(self, name: str = "db") -> dict[str, Any]:
        return self.api.call("GET", resources(SCHEMA, self.namespace, name)).document

    def status(self, name: str = "db") -> dict[str, Any]:
        found: dict[str, Any] = self.stored(name).get("status") or {}
        return found

    def ready(self, name: str = "db", limit_s: int = 240) -> None:
        """As a person or a pipeline waits for it."""
        try:
            self.kubectl(
                "wait", "--for=condition=Ready", f"ptahschema/{name}", f"--timeout={limit_s}s"
            )
        except KubectlFailed as failed:
            told = json.dumps(self.status(name), indent=1)
            raise AssertionError(f"{failed}\n{self.jobs()}\n{self.events()}\n{told}") from None

    def jobs(self) -> list[str]:
        """The operation of every Job, oldest first."""
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        items = self.api.call("GET", path).document["items"]
        items.sort(key=lambda item: item["metadata"]["creationTimestamp"])
        return [item["metadata"]["name"].split("-")[2] for item in items]

    def events(self) -> list[str]:
        path = f"/api/v1/namespaces/{self.namespace}/events"
        items = self.api.call("GET", path).document["items"]
        return [item["reason"] for item in items if item["involvedObject"]["kind"] == SCHEMA]

    def tables(self) -> list[str]:
        rows = self.database.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'app'::regnamespace ORDER BY 1"
        )
        return [name for (name,) in rows]

    def ledger(self) -> list[tuple[Any, ...]]:
        """State of every attempt that the database accounts for."""
        return self.database.rows("SELECT operation_id, state FROM ptahk.attempt ORDER BY 1")


@pytest.fixture
def bed(town: PodCluster, server_run: servers.Run, postgres_version: int) -> Iterator[Bed]:
    server = present(lambda: server_run.server(postgres_version, town.guests))
    database = databases.create(server)
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    namespace = create_namespace(town.plane)
    made = Bed(town, namespace, database, role)
    url = database.url(role, host=town.guests.address)
    podjobs.create(town.plane, namespace, podjobs.secret("db", {"url": url}))
    yield made
    made.kubectl("delete", "ptahschema", "--all", "--wait=false")
    database.drop()


PATH = [
    "WriteClaim", "AcquireLease", "PersistSnapshot", "DispatchMark", "DispatchJob", "ConfirmJob",
    "Settle", "ClearClaim", "ReleaseLease",
]  # fmt: skip


def test_a_resource_converges_and_rests(start: Start, bed: Bed) -> None:
    """claim → snapshot → dispatch → Job → frame → proof → release; then one Job an interval."""
    replica = start().ready()
    bed.make(interval="30s")
    bed.ready()
    assert bed.tables() == ["items", "orders"]
    status = bed.status()
    assert status["phase"] == "InSync"
    kinds = [entry["type"] for entry in status["history"]]
    assert kinds[-2:] == ["Apply", "Prove"] and kinds[0] == "Plan"
    apply = status["history"][-2]
    assert apply["settled"]["type"] == "Succeeded" and apply["converged"] is True
    assert [reason for reason in PATH if reason not in bed.events()] == []
    assert [state for _, state in bed.ledger()] == ["finished"]

    before = len(status["history"])

    def observed(times: int) -> list[str] | None:
        seen = [entry["type"] for entry in bed.status()["history"][before:]]
        return seen if len(seen) >= times else None

    for times in (1, 2):
        seen = until(lambda times=times: observed(times), f"interval {times}", 120)
        assert seen == ["Observe"] * times, "exactly one Job an interval (C-13.3)"
        bed.ready()
    events = bed.kubectl("get", "events", "--output=json")
    for text in (replica.log.read_text(), json.dumps(bed.stored()), events):
        assert bed.role.password not in text
    assert [line for line in replica.lines() if line.get("reason") == "StoreFault"] == []
    assert replica.stop() == 0


def test_without_the_hidden_flag_no_apply_is_dispatched(start: Start, bed: Bed) -> None:
    """C-12.4: nothing guards operation Pods yet."""
    start(unguarded=False).ready()
    bed.make()
    until(lambda: bed.status().get("phase") == "Blocked", "the refusal", 120)
    ready = next(item for item in bed.status()["conditions"] if item["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoAdmission")
    assert bed.jobs() == ["plan"] and bed.tables() == []


def test_a_changed_config_map_is_applied_without_waiting(start: Start, bed: Bed) -> None:
    start().ready()
    bed.kubectl("create", "configmap", "declared", f"--from-literal=a.sql={DECLARED}")
    bed.make(desired={"configMapRef": {"name": "declared"}}, interval="24h")
    bed.ready()
    text = DECLARED + "CREATE TABLE app.late (id int);\n"
    patch = json.dumps({"data": {"a.sql": text}})
    bed.kubectl("patch", "configmap", "declared", f"--patch={patch}")
    until(lambda: "late" in bed.tables(), "the change", 120)
    bed.ready()


@pytest.mark.parametrize("step", ["PersistSnapshot", "DispatchJob", "ConfirmJob", "Settle"])
def test_a_leader_killed_during_an_apply_is_followed(start: Start, bed: Bed, step: str) -> None:
    """SIGKILL once a step of the Apply is told; statements run once, the realm is released."""
    one = start().ready()
    until(one.leads, "the first to lead")
    two = start().ready()
    bed.make()

    def told() -> bool:
        claims = [line for line in one.lines() if line.get("reason") == "WriteClaim"]
        if not any(str(line["message"]).startswith("Apply") for line in claims):
            return False
        since = claims[-1]["time"]
        return any(
            line.get("reason") == step and str(line["time"]) > str(since) for line in one.lines()
        )

    until(told, f"{step} of the Apply", 180)
    one.signal(signal.SIGKILL)
    until(two.leads, "the second to lead")
    bed.ready()
    assert bed.tables() == ["items", "orders"]
    assert bed.jobs().count("apply") == 1, "one Apply Job a claim"
    assert [state for _, state in bed.ledger()] == ["finished"]
    status = bed.status()
    assert "pendingLockRelease" not in status and "pendingObservation" not in status
    assert two.stop() == 0
