"""What the builders of statements share. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptahk.executor.dialects.mysql.quote import ident
from ptahk.executor.planning.model import SEVERITIES, Facts, ObjectId, Policy, Severity


@dataclass(frozen=True, slots=True)
class World:
    """Both sides and where they are."""

    current: Mapping[ObjectId, Facts]
    desired: Mapping[ObjectId, Facts]
    policy: Policy
    mariadb: bool
    user: str
    """``user@host`` that the session acts as."""
    sql_mode: str
    time_zone: str
    aside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of the declared side: what is not compared, by ``kind name``."""

    def table(self, name: str) -> Facts | None:
        """The live table."""
        return self.current.get(ObjectId("table", (name,)))


@dataclass(frozen=True, slots=True)
class Finding:
    """What one clause does to what is stored."""

    severity: Severity
    reason: str


def worst(findings: Sequence[Finding]) -> tuple[Severity, str]:
    """The highest severity, and the reasons of all that are above ``safe``."""
    level: Severity = "safe"
    for finding in findings:
        level = max(level, finding.severity, key=SEVERITIES.index)
    reasons = dict.fromkeys(f.reason for f in findings if f.severity != "safe")
    return level, "; ".join(reasons)


def definer_clause(definer: str, user: str) -> str:
    """``DEFINER=… `` where it is not the account that runs the plan."""
    if not definer or definer == user:
        return ""
    name, at, host = definer.rpartition("@")
    if not at:
        return f"DEFINER={ident(definer)} "
    return f"DEFINER={ident(name)}@{ident(host)} "
