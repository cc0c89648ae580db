"""A world of the migration family: its directory, what people say of a run, and its end.

Lines are files of one statement (``tests/kit/fakesequence.py``). Other than a declaration, a
sequence is never run backwards: what an earlier attempt may have done decides what is left, so each
line has to take effect exactly once over all attempts, whatever store, server or person took part.
"""

from typing import TYPE_CHECKING, Any

from ptahk.engine.model.resource import CONFIG_MAP
from ptahk.engine.model.status import Status, UnresolvedRun
from ptahk.engine.ports import Key
from tests.kit import fakesequence
from tests.kit.auditor import _need

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import Site, World

FILES = Key(CONFIG_MAP, "local", "files")


def put_files(site: "Site", lines: tuple[str, ...]) -> None:
    """The directory, as a person puts it there."""
    data = fakesequence.files_of(lines)
    stored = site.api.find(FILES)
    if stored is not None:
        site.api.replace({**stored, "data": data})
        return
    metadata = {"namespace": FILES.namespace, "name": FILES.name}
    site.api.create(
        {"apiVersion": "v1", "kind": CONFIG_MAP, "metadata": metadata, "data": data}
    )  # fmt: skip


def spec(target: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    """``spec`` of a PtahMigration over the directory."""
    return {
        "target": target, "interval": "10m", "policy": {"apply": policy["apply"]},
        "artifact": {"configMapRef": {"name": FILES.name}},
    }  # fmt: skip


def word(world: "World", run: UnresolvedRun) -> dict[str, str] | None:
    """What a person who has looked into that database says of a run that stopped in a file.

    :returns: None: the run is known, and to be resumed.
    """
    if run.outcome != "Unknown":
        return None
    database = world.database
    here = run.server_identity == database.identity
    live = database.live if here else database.others[run.server_identity][0]
    line = fakesequence.line_of_file(run.file)
    took = "applied" if line in (each.strip("!") for each in live) else "not-applied"
    return {"action": "settle", "operation": run.operation_id, "as": took, "person": "ann"}


def attend(m: "Machine", site: "Site", key: Key, status: Status) -> bool:
    """A person settles what nobody saw end. :returns: False: there is nothing to settle."""
    run = status.unresolved_run
    told = None if run is None else word(m.world, run)
    if told is None:
        return False
    answer = status.request
    made = answer is not None and answer.reason == "ChangesPending" and answer.plan is not None
    last = status.last_plan
    if made and answer is not None and last is not None and last["fingerprint"] == answer.plan:
        fingerprint = m.approve(site, key)
        if fingerprint is not None:
            m.ask(site, key, "apply", fingerprint)
            return True
    m.ask(site, key, "plan", change=told)
    return True


def done(world: "World", status: Status, lines: tuple[str, ...]) -> bool:
    """The history is read, of the server that the URL leads to, and holds all of the directory."""
    seen, database = status.last_observation, status.database
    return (
        database is not None
        and database.server_identity == world.database.identity
        and seen is not None and seen["verdict"] == "nothingPending"
        and seen["applied"] == len(lines) and status.unresolved_run is None
    )  # fmt: skip


def check_end(world: "World", lines: tuple[str, ...]) -> None:
    """Every file is applied, and every line took effect once."""
    rows, live = world.database.revisions.values(), world.database.live
    _need(35, [row.state for row in rows] == ["applied"] * len(lines), f"the history is {rows}")
    _need(35, sorted(live) == sorted(lines), f"what took effect: {live}")


__all__ = ["FILES", "attend", "check_end", "done", "put_files", "spec"]
