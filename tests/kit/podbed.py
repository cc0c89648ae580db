"""A namespace whose Pods reach a database of its own, for ``ptahk serve`` on a cluster with a node.

Fixtures of ``tests/cluster``: ``town`` (the cluster), ``beds`` (namespaces).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptahk.engine.model.lease import HOLDER
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.plan import Approver, approval_document, parse_plan, plan_name
from ptahk.engine.model.resource import API_VERSION, PLAN, SCHEMA
from tests.cli.kit import Answer, Ptahk
from tests.kit import databases, podjobs, servers
from tests.kit.clusterfixtures import create_namespace
from tests.kit.clusters import PodCluster
from tests.kit.controlplane import KubectlFailed
from tests.kit.databases import Database, Role
from tests.kit.presence import present
from tests.kit.rawapi import RawApi, resources
from tests.kit.serving import COORDINATION
from tests.kit.waiting import until

DECLARED = """
CREATE SCHEMA app;
CREATE TABLE app.orders (id int PRIMARY KEY);
CREATE TABLE app.items (id int);
"""
_MERGE = "application/merge-patch+json"


@dataclass
class Bed:
    """A namespace with a database and the Secret that names it."""

    kind: ClassVar[str] = SCHEMA
    town: PodCluster
    namespace: str
    database: Database
    role: Role

    @property
    def api(self) -> RawApi:
        return RawApi(self.town.plane)

    @property
    def engine(self) -> str:
        """As a target names it."""
        return "postgresql"

    @property
    def url(self) -> str:
        """The database as Pods reach it."""
        return self.database.url(self.role, host=self.town.guests.address)

    def secret(self, name: str = "db", key: str = "url") -> None:
        """The Secret that a resource names."""
        podjobs.create(self.town.plane, self.namespace, podjobs.secret(name, {key: self.url}))

    def beside(self) -> Bed:
        """Another namespace with the same database."""
        other = Bed(self.town, create_namespace(self.town.plane), self.database, self.role)
        other.secret()
        return other

    def make(self, name: str = "db", *, text: str = DECLARED, **spec: Any) -> None:
        """kubectl creates a resource."""
        document = self.manifest(name, text=text, **spec)
        self.kubectl("create", "--filename=-", stdin=json.dumps(document))

    def manifest(self, name: str = "db", *, text: str = DECLARED, **spec: Any) -> dict[str, Any]:
        """What a person writes for a resource."""
        target = {"engine": self.engine, "coordinationKey": self.database.name,
                  "urlFrom": {"name": "db"}}  # fmt: skip
        whole = {
            "target": target | spec.pop("target", {}),
            "desired": {"inline": text},
            "policy": {"apply": "Always", "schemas": ["app"]} | spec.pop("policy", {}),
        }
        document = {"apiVersion": API_VERSION, "kind": SCHEMA, "metadata": {"name": name}}
        return document | {"spec": whole | spec}

    def change(self, name: str = "db", **spec: Any) -> None:
        """Merge these fields into the spec.

        An API server that has just begun refuses for a while what a policy works on: it does not
        know the kind yet.
        """
        path = resources(self.kind, self.namespace, name)

        def taken() -> bool:
            answer = self.api.call("PATCH", path, {"spec": spec}, kind=_MERGE)
            unknown = "There can be a delay" in (answer.message or "")
            assert answer.status == 200 or unknown, answer.message
            return answer.status == 200

        until(taken, "the change to be taken")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.town.plane.kubectl(*arguments, f"--namespace={self.namespace}", stdin=stdin)

    def exists(self, name: str = "db") -> bool:
        return self.api.call("GET", resources(self.kind, self.namespace, name)).status == 200

    def stored(self, name: str = "db") -> dict[str, Any]:
        return self.api.call("GET", resources(self.kind, self.namespace, name)).document

    def status(self, name: str = "db") -> dict[str, Any]:
        found: dict[str, Any] = self.stored(name).get("status") or {}
        return found

    def claim(self, name: str = "db") -> dict[str, Any]:
        found: dict[str, Any] = self.status(name).get("activeOperation") or {}
        return found

    def condition(self, kind: str = "Ready", name: str = "db") -> dict[str, Any]:
        """One condition; empty where there is none."""
        for item in self.status(name).get("conditions") or ():
            if item["type"] == kind:
                found: dict[str, Any] = item
                return found
        return {}

    def history(self, name: str = "db") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.status(name).get("history") or []
        return found

    def ready(self, name: str = "db", limit_s: int = 240) -> None:
        """As a person or a pipeline waits for it."""
        try:
            what = f"{self.kind.lower()}/{name}"
            self.kubectl("wait", "--for=condition=Ready", what, f"--timeout={limit_s}s")
        except KubectlFailed as failed:
            told = json.dumps(self.status(name), indent=1)
            raise AssertionError(f"{failed}\n{self.jobs()}\n{self.events()}\n{told}") from None

    def told(self, *words: str, name: str = "db", limit_s: int = 120) -> dict[str, Any]:
        """Wait until the conditions hold every word; the status that does."""

        def look() -> dict[str, Any] | None:
            status = self.status(name)
            text = json.dumps(status.get("conditions"))
            return status if all(word in text for word in words) else None

        try:
            return until(look, f"{words} in the conditions", limit_s)
        except AssertionError as failed:
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
        return [item["reason"] for item in items if item["involvedObject"]["kind"] == self.kind]

    def lease(self) -> dict[str, Any] | None:
        """The realm's Lease while a resource of this namespace holds it."""
        return next(iter(self.leases()), None)

    def leases(self) -> list[dict[str, Any]]:
        """Every realm's Lease that a resource of this namespace holds."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{COORDINATION}/leases"
        found = []
        for item in self.api.call("GET", path).document["items"]:
            holder = (item["metadata"].get("annotations") or {}).get(HOLDER)
            held = item["spec"].get("holderIdentity")
            if held and holder and json.loads(holder)["namespace"] == self.namespace:
                found.append(item)
        return found

    def tables(self) -> list[str]:
        rows = self.database.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'app'::regnamespace ORDER BY 1"
        )
        return [name for (name,) in rows]

    def ledger(self) -> list[tuple[Any, ...]]:
        """State of every attempt that the database accounts for, by number."""
        return self.database.rows("SELECT operation_id, state FROM ptahk.attempt ORDER BY number")

    def waits(self) -> bool:
        """Whether a session waits for a lock in the database."""
        rows = self.database.rows(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )
        return bool(rows)


@dataclass
class Sequence(Bed):
    """The same with a PtahMigration, whose directory is a ConfigMap."""

    kind: ClassVar[str] = MIGRATION

    def directory(self, files: Mapping[str, str], name: str = "files") -> None:
        """kubectl makes the ConfigMap hold these files and no others."""
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                    "data": dict(files)}  # fmt: skip
        self.kubectl("apply", "--filename=-", stdin=json.dumps(document))

    def make(self, name: str = "db", *, text: str = "files", **spec: Any) -> None:
        """kubectl creates a resource; ``text`` names its ConfigMap."""
        target = {"engine": self.engine, "coordinationKey": self.database.name,
                  "urlFrom": {"name": "db"}}  # fmt: skip
        whole = {
            "target": target | spec.pop("target", {}),
            "artifact": {"configMapRef": {"name": text}},
        }
        document = {"apiVersion": API_VERSION, "kind": MIGRATION, "metadata": {"name": name}}
        self.kubectl("create", "--filename=-", stdin=json.dumps(document | {"spec": whole | spec}))

    def plan(self) -> str:
        """Wait for a plan that waits for its approval; its fingerprint."""
        self.told("ChangesPending")
        until(lambda: not self.claim(), "the end of the reading")
        fingerprint: str = self.status()["lastPlan"]["fingerprint"]
        return fingerprint

    def approve(self, fingerprint: str) -> None:
        """A person's approval, as kubectl creates it: who it is, admission says."""
        answer = self.api.call("GET", resources(PLAN, self.namespace, plan_name(fingerprint)))
        assert answer.status == 200, answer.message
        plan = parse_plan(answer.document)
        made = approval_document(self.namespace, f"yes-{plan.uid}", plan, Approver("stamped"))
        del made["spec"]["approver"]
        self.kubectl("create", "--filename=-", stdin=json.dumps(made))

    def revisions(self) -> list[tuple[Any, ...]]:
        """What the database accounts for, in the order in which it was run."""
        return self.database.rows(
            "SELECT version, kind, state, applied FROM ptahk.revisions ORDER BY ordinal"
        )


@contextmanager
def bed(town: PodCluster, run: servers.Run, version: int) -> Iterator[Bed]:
    """A fresh namespace with a database and its Secret."""
    server = present(lambda: run.server(version, town.guests))
    database = databases.create(server)
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    made = Bed(town, create_namespace(town.plane), database, role)
    made.secret()
    yield made
    for kind in (SCHEMA, MIGRATION):
        made.api.call("DELETE", resources(kind, made.namespace))
    database.drop()


@dataclass
class Person:
    """Somebody with a kubeconfig and the command line."""

    ptahk: Ptahk
    kubeconfig: Path

    def run(self, *arguments: str) -> Answer:
        """One command on the cluster."""
        where = ("--kubeconfig", str(self.kubeconfig), "--coordination-namespace", COORDINATION)
        return self.ptahk.run(*arguments, *where)
