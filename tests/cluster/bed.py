"""A namespace of the shared API server, and a person who works in it with ptahk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptahk.engine.model.resource import API_VERSION, REQUEST, SCHEMA
from tests.cli.kit import Answer, Ptahk
from tests.kit.engineroom import EngineRoom
from tests.kit.rawapi import RawApi, resources

DECLARED = "a\nb"


@dataclass
class Bed:
    """A namespace with a coordination namespace of its own, and a person who uses it."""

    api: RawApi
    kubeconfig: Path
    namespace: str
    coordination: str
    ptahk: Ptahk

    def run(self, *arguments: str, **options: Any) -> Answer:
        """One command on the cluster."""
        return self.ptahk.run(*arguments, *self.place(arguments[0]), **options)

    def place(self, command: str) -> tuple[str, ...]:
        """The options that say where the cluster is."""
        where = (
            "--kubeconfig",
            str(self.kubeconfig),
            "--coordination-namespace",
            self.coordination,
        )
        return where if command == "census" else (*where, "-n", self.namespace)

    def make(self, name: str = "orders", **spec: Any) -> dict[str, Any]:
        """A resource as kubectl would create it."""
        target = {"engine": "postgresql", "coordinationKey": f"{self.namespace}/{name}",
                  "urlFrom": {"name": "db"}}  # fmt: skip
        document = {
            "apiVersion": API_VERSION,
            "kind": SCHEMA,
            "metadata": {"name": name},
            "spec": {"target": target, "desired": {"inline": DECLARED}, "interval": "0"} | spec,
        }
        answer = self.api.make(document, self.namespace)
        assert answer.status == 201, answer.message
        return document

    def stored(self, name: str = "orders") -> dict[str, Any]:
        return self.api.call("GET", resources(SCHEMA, self.namespace, name)).document

    def phase(self, name: str = "orders") -> str | None:
        found: str | None = (self.stored(name).get("status") or {}).get("phase")
        return found

    def asked(self, name: str = "orders") -> bool:
        """Whether a request stands on the resource."""
        return REQUEST in (self.stored(name)["metadata"].get("annotations") or {})

    def room(self, **options: Any) -> EngineRoom:
        """A manager of this namespace."""
        return EngineRoom(self.kubeconfig, self.namespace, self.coordination, **options)
