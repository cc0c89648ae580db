"""What of both sides is compared: definers, schedules and partitions that nobody states. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ptahk.executor.dialects.mysql.kinds import partition
from ptahk.executor.planning.model import Catalog, Facts, ObjectId, Policy

DEFINED: Final = frozenset({"view", "function", "procedure", "trigger", "event"})


def prepare(current: Catalog, desired: Catalog, policy: Policy) -> dict[ObjectId, Facts]:
    """The declared objects, with what nobody states as it will be.

    A definer that is not stated stays what it is; that of a new object is the account that runs
    the plan, and so is every one with ``policy.privileges: Managed``.
    """
    stated: Mapping[str, Mapping[str, Any]] = {
        name.lower(): value for name, value in desired.context.get("stated", {}).items()
    }
    found: dict[ObjectId, Facts] = {}
    for oid, facts in desired.objects.items():
        live = current.objects.get(oid)
        said = stated.get(str(oid).lower(), {})
        if oid.kind in DEFINED:
            facts = {**facts, "definer": _definer(current, live, said, policy)}
        if oid.kind == "event":
            facts = _schedule(facts, live, said)
        elif oid.kind == "table" and live is not None and policy.partitions == "Declared":
            facts = _partitions(facts, live)
        found[oid] = facts
    return found


def _definer(current: Catalog, live: Facts | None, said: Mapping[str, Any], policy: Policy) -> str:
    if said.get("definer"):
        return str(said["definer"])
    if live is not None and policy.privileges == "Declared":
        return str(live["definer"])
    return str(current.context.get("user", ""))


def _schedule(facts: Facts, live: Facts | None, said: Mapping[str, Any]) -> Facts:
    """The server writes down when a schedule began; that counts only where it was declared."""
    result = dict(facts)
    if "status" in said:
        result["status"] = said["status"]
    if live is not None and live.get("every") == facts.get("every"):
        for key in ("starts", "ends", "at"):
            if key in live and key in facts and not said.get(key):
                result[key] = live[key]
    return result


def _partitions(facts: Facts, live: Facts) -> Facts:
    kept = partition.keep_undeclared(live.get("partition", ""), facts.get("partition", ""))
    return facts if kept == facts.get("partition", "") else {**facts, "partition": kept}
