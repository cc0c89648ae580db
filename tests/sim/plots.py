"""What a seed is to meet once, as soon as its moment comes: the rare meetings that chance alone
brings together too seldom. ``hostile.Plot`` says which of them this seed has drawn.
"""

from typing import TYPE_CHECKING

from ptahk.engine.model.claim import PROVE, Claim
from ptahk.engine.model.resource import APPROVAL, LEASE
from ptahk.engine.ports import Key
from tests.kit.fakedb import SERVER
from tests.sim import hostile
from tests.sim.cluster import SimJob
from tests.sim.world import Manager, Site

if TYPE_CHECKING:
    from tests.sim.machine import Machine

PROOFS = 22
"""More than a history holds."""
WATCHES = 20
"""Turns in which the others see a Lease stand, before the time that they watch it for passes."""


def moments(m: "Machine") -> None:
    """Each turn: what is to happen once happens where its moment has come."""
    if m.leap is not None and m.world.turns >= m.leap[0]:
        m.world.clock.advance(m.leap[1])
        m.leap = None
    for site in m.world.sites:
        for key in site.resources():
            if (m.plot.neglected or m.plot.unwatched) and len(site.resources()) > 1:
                _neglect(m, site, key)
            claim = site.status(key).active_operation
            if m.strays and claim is None:
                _stray(m, site, key)
            if claim is None or claim.outcome is not None:
                continue
            if claim.dispatch_started:
                _running(m, site, claim)
            else:
                _claimed(m, site, claim)


def _neglect(m: "Machine", site: Site, key: Key) -> None:
    """It holds the realm, and nobody can pass over it for a long while; others want the realm."""
    status = site.status(key)
    claim, owed = status.active_operation, status.pending_observation
    held = owed if owed is not None else claim
    if held is None or held.epoch is None:
        return
    open_ = claim is not None and claim.dispatch_started and claim.type in site.auditor.mutating
    wanted = m.plot.neglected if open_ or owed is not None else m.plot.unwatched
    if wanted and m.rng.random() < (0.06 if owed is None and open_ else 0.2):
        m.plot.neglected = m.plot.unwatched = False
        m.world.acts["neglected"] += 1
        m.world.neglected[key] = m.world.now_s + 3.0 * held.lease_duration_seconds
        m.declare()
        m.leap = (m.world.turns + WATCHES, float(held.lease_duration_seconds))


def _stray(m: "Machine", site: Site, key: Key) -> None:
    """A run is unresolved, and the URL leads to a copy without it, for a while or for good."""
    database = m.world.database
    if site.status(key).unresolved_run is None or database.session is not None or m.world.pods():
        return
    m.strays = False
    m.world.acts["strayed"] += 1
    home = database.identity
    database.move("postgresql/2/2" if home == SERVER else SERVER)
    m.ask(site, key, "plan")
    if m.rng.random() < 0.5:
        m.server = database.identity
    else:
        m.world.later.append((m.world.now_s + 900.0, lambda: database.move(home)))


def neglects(m: "Machine") -> bool:
    """Somebody's resource is neglected still."""
    return any(at > m.world.now_s for at in m.world.neglected.values())


def _claimed(m: "Machine", site: Site, claim: Claim) -> None:
    told = m.plot
    if told.revoked and claim.approval is not None:
        for document in site.api.list(APPROVAL):
            if document["metadata"]["uid"] == claim.approval.uid:
                told.revoked = False
                site.api.delete(document)
    others = [key for key in site.resources() if site.status(key).active_operation is not claim]
    if told.moved and claim.epoch is not None and others and m.rng.random() < 0.3:
        told.moved = False
        _conflict(m, site, others[0])
    if told.moved and claim.type == "Apply":
        told.moved = False
        m.declare()


def _conflict(m: "Machine", site: Site, key: Key) -> None:
    """For a while it does not share the realm any more."""
    target = site.api.get(key)["spec"]["target"]
    m.edit(site, key, target={**target, "sharedRealm": False})
    m.world.later.append((m.world.now_s + 120.0, lambda: m.edit(site, key, target=target)))


def _running(m: "Machine", site: Site, claim: Claim) -> None:
    told, database = m.plot, m.world.database
    if told.skewed and claim.type in ("Plan", "History"):
        told.skewed = False
        database.clock_offset_s = m.rng.choice((-90.0, 90.0))
        m.world.later.append((m.world.now_s + 90.0, lambda: setattr(database, "clock_offset_s", 0)))
    if told.patience and claim.type == PROVE and len(m.everything()) == 1:
        database.lock_holder = "somebody"
    job = site.jobs.jobs.get(("local", claim.job_name))
    here = isinstance(job, SimJob) and job.present
    if told.replaced and here and claim.job_uid is None:
        assert isinstance(job, SimJob)
        told.replaced = False
        hostile.alter(m, job)
    if told.forged and here and claim.job_uid is not None:
        assert isinstance(job, SimJob)
        if job.output and m.rng.random() < 0.3:
            told.forged = False
            hostile.forge(m, site, job)
    if told.stolen and claim.epoch is not None and m.rng.random() < 0.1:
        for lease in site.api.list(LEASE):
            told.stolen = False
            site.auditor.forced = True
            how = m.rng.choice(("free", "take", "delete", "break", "break"))
            if how == "delete":
                site.api.delete(lease)
            elif how == "break":
                hostile.break_lease(m, site, lease)
            else:
                hostile.write_lease(site, lease, None if how == "free" else "somebody")


def orphans(m: "Machine", manager: Manager, key: Key) -> bool:
    """This acquisition lands later, and its claim is dropped before: once a seed."""
    if not m.plot.orphan or m.world.depth:
        return False
    m.plot.orphan = False
    site = manager.site
    m.edit(site, key, suspend=True)
    if m.rng.random() < 0.5:
        m.world.later.append((m.world.now_s + 120.0, lambda: m.edit(site, key, suspend=False)))
    return True


def loses_create(m: "Machine", manager: Manager, key: Key) -> bool:
    """The create of a mutation on a cluster does not get there: once a seed."""
    claim = manager.site.status(key).active_operation
    mutates = claim is not None and claim.type in manager.site.auditor.mutating
    if not m.plot.lost_create or not mutates or manager.site.local:
        return False
    m.plot.lost_create = False
    m.world.acts["create lost"] += 1
    return True


def outdoes(m: "Machine", manager: Manager, key: Key) -> bool:
    """This mark is lost, and another process of the store goes on with the claim: once a seed."""
    if not m.plot.rival or not _another(m, manager, key):
        return False
    m.plot.rival = False
    m.world.acts["mark outdone"] += 1
    return True


def races(m: "Machine", manager: Manager, key: Key) -> None:
    """Another process takes the same step first: once a seed."""
    if m.plot.raced and _another(m, manager, key):
        m.plot.raced = False
        m.world.acts["acquisition raced"] += 1


def _another(m: "Machine", manager: Manager, key: Key) -> bool:
    others = [item for item in manager.site.managers if item is not manager and not item.busy]
    if m.world.depth or not others:
        return False
    m.world.depth += 1
    try:
        m.rng.choice(others).look(key)
    finally:
        m.world.depth -= 1
    return True


def patience(m: "Machine") -> None:
    """A proof that is owed fails again and again: somebody holds the lock."""
    if not m.plot.patience or len(m.everything()) != 1:
        return
    m.plot.patience = False
    m.world.database.lock_holder = "somebody"
    m.settle(lambda: all(_tried(site, key) for site, key in m.everything()))
    m.world.database.lock_holder = None


def _tried(site: Site, key: Key) -> bool:
    owed = site.status(key).pending_observation
    return owed is None or owed.attempts >= PROOFS
