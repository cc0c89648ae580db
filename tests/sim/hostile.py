"""What may go wrong in a world, one act at a time, and what people do at the wrong moment."""

import dataclasses
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ptahk.engine.model import lease as leases
from ptahk.engine.model import plan as plans
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import APPROVAL, CONFIG_MAP, FINALIZER, LEASE, PLAN
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Key, PortError, key_of
from ptahk.wire import frame
from tests.kit import toy
from tests.kit.fakedb import SERVER
from tests.sim import points
from tests.sim.cluster import Pod, SimJob
from tests.sim.plots import moments
from tests.sim.world import Manager, Site

if TYPE_CHECKING:
    from tests.sim.machine import Machine

RARE = (
    "RemoveFinalizer", "Prune", "InvalidateProof", "LatchUnknown", "OweRelease", "Thaw",
    "RecordPods", "DiscardClaim", "ConsumeApproval", "Answer", "Report", "RenewLease",
)  # fmt: skip
"""Writes that few worlds come to: a seed strikes them more often, where it meets them."""
RARELY = {"Thaw": 0.9, "InvalidateProof": 0.9, "Answer": 0.75}
"""Of these, more often than by a coin."""
APPLY_STEPS = {
    "executor started": 2, "executor running": 3, "executor sent": 2, "executor effect": 3,
    "executor statement": 3, "executor finished": 3,
}  # fmt: skip
"""Steps of an Apply, by how often a seed strikes them: later ones are met less."""


def targets(rng: random.Random, count: int, *, executor: bool) -> tuple[str, ...]:
    """The crash points that a seed strikes: a rare one by a coin, few of the others."""
    rare = [point for point in points.POINTS if point.split(":")[0] in RARE]
    steps = [point for point in points.POINTS if point.startswith("executor")]
    common = [point for point in points.POINTS if point not in {*rare, *steps}]
    found = [point for point in rare if rng.random() < RARELY.get(point.split(":")[0], 0.55)]
    found += rng.sample(common, count)
    for number in range(3):
        if rng.random() < ((0.7, 0.5, 0.35) if executor else (0.08, 0.0, 0.0))[number]:
            found += rng.choices(list(APPLY_STEPS), list(APPLY_STEPS.values()))
    for point in steps:
        if point not in APPLY_STEPS and rng.random() < 0.25:
            found.append(point)
    return tuple(dict.fromkeys(found))


@dataclasses.dataclass
class Plot:
    """What is to happen to this seed, as soon as its moment comes; drawn once."""

    orphan: bool
    """An acquisition of the Lease lands after its claim was dropped."""
    late_pod: bool
    """A Pod of an Apply appears while its proof runs."""
    old_plans: bool
    """There are more plans than are kept."""
    delete: bool
    """A person deletes a resource."""
    slow: bool
    """An executor is slow enough for its Lease to be renewed, and its deadline is edited."""
    replaced: bool
    """A Job stands under the name that differs in one thing from the one that was built."""
    rival: bool
    """A mark is lost, and another process writes its own before anybody looks."""

    lost_create: bool
    """The create of an Apply is lost: never done, or done much later."""
    neglected: bool
    """Nobody passes over one of two resources for longer than its Lease lasts (D19), while its
    Apply runs or is to be proven."""
    unwatched: bool
    """The same, before that or while it only reads."""
    stolen: bool
    """Somebody takes, frees, breaks or deletes the Lease of what runs."""
    revoked: bool
    """An approval is deleted right after it was consumed."""
    forged: bool
    """An output is not its executor's when it is read."""
    moved: bool
    """The declaration, or another's consent to share, changes between claim and mark."""
    raced: bool
    """Another process takes the same step just before an acquisition lands."""
    patience: bool
    """The lock is held by somebody until a proof has failed two dozen times."""
    skewed: bool
    """The database's clock is off while a Plan reads it."""


SHARES = (
    0.25,
    0.6,
    0.2,
    0.2,
    0.2,
    0.12,
    0.25,
    0.15,
    0.4,
    0.15,
    0.08,
    0.3,
    0.25,
    0.2,
    0.3,
    0.04,
    0.12,
)
CALM = ("late_pod", "delete", "replaced", "rival", "lost_create", "stolen", "forged", "patience",
        "skewed")  # fmt: skip
"""What does not happen where nothing is to go wrong."""


def plot(rng: random.Random) -> Plot:
    return Plot(*(rng.random() < share for share in SHARES))


def act(m: "Machine") -> None:
    """One hostile act."""
    chosen = m.rng.choice(ACTS)
    m.world.acts[chosen.__name__] += 1
    m.world.say("act", chosen.__name__)
    chosen(m)


def interloper(m: "Machine", manager: Manager) -> None:
    """Somebody else, between two requests of a pass."""
    world = m.world
    kind = m.rng.random()
    if kind < 0.5:
        others = [item for item in world.due() if item[0] is not manager]
        if others:
            other, key = m.rng.choice(others)
            for _ in range(m.rng.randint(1, 4)):
                other.look(key)
            return
    if kind < 0.7:
        pods = world.pods()
        if pods:
            world.step_pod(*m.rng.choice(pods))
            return
    if kind < 0.85:
        world.clock.advance(m.rng.choice((0.5, 5.0, 60.0, 700.0)))
        return
    act(m)


def theme(m: "Machine") -> None:
    """What this seed is about happens as soon as its moment comes."""
    turn, rng, site = m.world.turns, m.rng, m.world.sites[0]
    if m.theme == "refuse" and turn == 10:
        rng.choice((_never, _lock, _skew, _drift, _unshare))(m)
    if m.theme == "freeze":
        _freeze(m, site)
    if m.theme == "unknown" and rng.random() < 0.2:
        _lose_result(m, site)
    told = m.plot
    if told.delete and turn == 70:
        told.delete = False
        _delete(m)
    if told.old_plans and site.api.list(PLAN):
        told.old_plans = False
        _old_plans(site)
    if turn % 2 and (told.late_pod or told.slow):
        _late_pod(m)
    moments(m)


def _freeze(m: "Machine", site: Site) -> None:
    """Another cluster's open attempt, or a store that is restored after more than it knows."""
    rows = m.world.database.rows
    if m.world.turns == 1 and m.rng.random() < 0.7:
        m.saved = True
        _foreign_row(m)
    elif m.saved or site.auditor.restored:
        return
    elif site.saved is None:
        if any(site.status(key).last_plan for key in site.resources()):
            _backup(m)
    elif rows and not m.declared_again:
        m.declared_again = True
        m.declare()
    elif len(rows) > 1 and m.rng.random() < 0.1:
        _restore(m)


def _lose_result(m: "Machine", site: Site) -> None:
    """The result of an Apply is not to be had."""
    for job in site.jobs.sim_jobs():
        if job.order.spec.operation == "Apply" and job.output is not None and not job.ttl_s:
            if not job.lost:
                m.world.acts["result lost"] += 1
                if m.rng.random() < 0.5:
                    job.lost = True
                else:
                    job.output = job.output[: len(job.output) // 2]
            return


def _late_pod(m: "Machine") -> None:
    for site in m.world.sites:
        for key in site.resources():
            status = site.status(key)
            claim, owed = status.active_operation, status.pending_observation
            if claim is None or not claim.dispatch_started or claim.outcome is not None:
                continue
            if m.plot.slow:
                m.plot.slow = False
                m.edit(site, key, execution={"activeDeadlineSeconds": m.rng.choice((30, 600))})
                for pod in site.jobs.active():
                    m.world.slow[pod] = m.world.now_s + claim.lease_duration_seconds * 0.7
            found = owed and site.jobs.jobs.get(("local", owed.job_name))
            proving = claim.type == "Prove" and isinstance(found, SimJob)
            if proving and m.plot.late_pod and not site.local:
                m.plot.late_pod = False
                site.jobs.add_pod(found)


def _old_plans(site: Site) -> None:
    """Ten older plans of this resource."""
    plan = site.api.list(PLAN)[0]
    for number in range(10):
        metadata = {
            key: value for key, value in plan["metadata"].items()
            if key in ("namespace", "labels", "annotations", "ownerReferences")
        }  # fmt: skip
        metadata["name"] = f"ptahk-plan-old-{number}"
        spec = {**plan["spec"], "time": f"2025-01-01T00:00:{number:02}.000000Z"}
        site.api.create({**plan, "metadata": metadata, "spec": spec})


def was_refused(m: "Machine") -> bool:
    """Somebody was told no: shown by the events of blocked resources."""
    return m.theme == "refuse" and m.world.acts["refusals"] > 0


def mend(m: "Machine") -> None:
    """People put right what people and machines left behind."""
    database = m.world.database
    database.frozen.clear()
    if m.world.kind == MIGRATION and "by hand" in database.live:
        database.live.remove("by hand")  # a sequence does not look for drift
    for row in database.rows.values():
        if row["storeUid"] == FOREIGN and row["state"] == "started":
            row["state"] = "fenced"
    for site in m.world.sites:
        for lease in site.api.list(LEASE):
            if lease["spec"].get("holderIdentity") == "somebody":
                write_lease(site, lease, None)


def abandoned(site: Site) -> list[dict[str, Any]]:
    """Leases whose holder's resource is no more.

    Its finalizer was taken away by hand, or its acquisition landed after its end. A person
    releases it, or, on a cluster, the next claim takes it over.
    """
    found = []
    for lease in site.api.list(LEASE):
        record = leases.parse(lease)
        holder = record.holder if isinstance(record, leases.LeaseRecord) else None
        if holder is not None:
            document = site.api.find(Key(holder.kind, holder.namespace, holder.name))
            if document is None or document["metadata"]["uid"] != holder.uid:
                found.append(lease)
    return found


def release_by_hand(m: "Machine") -> None:
    """``release-lock``: a fence, then the Lease. And the URL leads home again, once."""
    if not m.home and m.world.database.session is None:
        m.home = True
        m.world.database.move(m.server)
    for site in m.world.sites:
        waits = (
            site.store.automatic
            and not site.auditor.forced
            and any(site.status(key).active_operation is not None for key in site.resources())
        )
        if waits:
            continue  # its claim takes the Lease over by itself
        for lease in abandoned(site) if m.world.database.session is None else ():
            site.auditor.forced = True
            write_lease(site, lease, None)


# -- Jobs, Pods, nodes ---------------------------------------------------------------------------


def _pod(m: "Machine") -> tuple[Site, Pod] | None:
    found = [(site, pod) for site in m.world.sites for pod in site.jobs.active()]
    return m.rng.choice(found) if found else None


def _job(m: "Machine") -> tuple[Site, SimJob] | None:
    found = [(s, job) for s in m.world.sites for job in s.jobs.sim_jobs() if job.present]
    return m.rng.choice(found[-4:]) if found else None


def kill_pod(m: "Machine") -> None:
    found = _pod(m)
    if found is not None:
        m.world.kill_pod(*found)


def slow_pod(m: "Machine") -> None:
    """It starts, or goes on, much later."""
    found = _pod(m)
    if found is not None:
        m.world.slow[found[1]] = m.world.now_s + m.rng.choice((10.0, 200.0, 1000.0, 4000.0))


def twin(m: "Machine") -> None:
    """The Job controller makes a second Pod, or the kubelet runs the container again."""
    found = _job(m)
    if found is None or found[0].local:
        return
    site, job = found
    again = m.rng.random() < 0.4 and job.pods
    pod = site.jobs.add_pod(job, job.pods[0] if again else None)
    if m.rng.random() < 0.5:
        m.world.slow[pod] = m.world.now_s + m.rng.choice((5.0, 300.0, 2000.0))


def remove_job(m: "Machine") -> None:
    found = _job(m)
    if found is not None:
        m.world.remove_job(found[0], found[1].order.name, pods=m.rng.random() < 0.6)


def lose_node(m: "Machine") -> None:
    """The Job fails while its Pod's process goes on."""
    found = _job(m)
    if found is not None and not found[0].local and found[1].output is None:
        found[1].failed = True
        found[1].ended_at = m.world.clock.now()


def lose_log(m: "Machine") -> None:
    found = _job(m)
    if found is not None:
        found[1].lost = True


def stall_log(m: "Machine") -> None:
    found = _job(m)
    if found is not None:
        found[1].unreadable += m.rng.choice((1, 3, 10))


def forge_log(m: "Machine") -> None:
    """Cut, doubled, of another epoch or operation, with another word in it, empty, noisy."""
    found = _job(m)
    if found is not None and found[1].output:
        forge(m, *found)


def forge(m: "Machine", site: Site, job: SimJob) -> None:
    output = job.output or b""
    noisy = b"\x00\xff" + output[5:]
    older = [item.output for item in site.jobs.sim_jobs() if item.output and item is not job]
    epoch = output.replace(b".", b"1.", 1)
    forged = m.rng.choice(
        (output[: len(output) // 2], output + output, epoch, epoch, b"", noisy,
         m.rng.choice(older) if older else b"", *[_reworded(m, job, output)] * 3)
    )  # fmt: skip
    job.forged = job.forged or forged not in (output, noisy)
    job.output = forged


def _reworded(m: "Machine", job: SimJob, output: bytes) -> bytes:
    """The same frame with one word of its payload changed, and its own digest."""
    spec = job.order.spec
    decoder = frame.Decoder(spec.operation_id, spec.epoch)
    decoder.feed(output)
    found = decoder.finish()
    if not isinstance(found, frame.Frame):
        return b""
    name = m.rng.choice(("operationId", "operation", "attempt", "podUid"))
    word: Any = 7 if name == "attempt" else "x" * 32
    return frame.encode(spec.operation_id, spec.epoch, {**found.document, name: word})


def alter(m: "Machine", job: SimJob) -> None:
    """Another Job stands under the name: by what it carries, or by one thing of that."""
    job.uid += "-another"
    annotations = dict(job.order.annotations)
    if m.rng.random() < 0.3:
        annotations = {"ptahk.dev/operation-id": "x"}
    else:
        annotations[m.rng.choice(sorted(annotations))] = "x"
    job.order = dataclasses.replace(job.order, annotations=annotations)


def replace_job(m: "Machine") -> None:
    """Another Job stands under the name."""
    found = _job(m)
    if found is not None:
        alter(m, found[1])


# -- the database --------------------------------------------------------------------------------


def _lock(m: "Machine") -> None:
    m.world.database.lock_holder = "somebody"
    m.world.acts["refusals"] += 1


def lock(m: "Machine") -> None:
    held = m.world.database.lock_holder
    m.world.database.lock_holder = None if held else "somebody"


def database_down(m: "Machine") -> None:
    m.world.database.down = not m.world.database.down


def failover(m: "Machine") -> None:
    """Every session ends; what was in flight is committed or not (synchronous replication)."""
    world = m.world
    run = world.database.session
    for site in world.sites:
        for pod in site.jobs.active():
            if pod.run is run and pod.started:
                if m.rng.random() < 0.5 and run is not None and run.in_flight:
                    run.land()
                site.jobs.fail(pod, "ConnectionLost")
    if run is not None:
        if run.in_flight and m.rng.random() < 0.5:
            run.land()
        run.end_session()
    world.lingering = [item for item in world.lingering if item[1] is not run]


def _skew(m: "Machine") -> None:
    m.world.database.clock_offset_s = m.rng.choice((-90.0, 90.0))
    m.world.acts["refusals"] += 1


def skew_database(m: "Machine") -> None:
    m.world.database.clock_offset_s = m.rng.choice((0.0, -20.0, 20.0, 600.0))


def another_server(m: "Machine") -> None:
    """The URL leads to a copy, or back. Not while a session lives."""
    database = m.world.database
    if database.session is None and not m.world.pods():
        database.move("postgresql/2/2" if database.identity == SERVER else SERVER)


def _drift(m: "Machine") -> None:
    m.world.acts["refusals"] += 1
    drift(m)


def drift(m: "Machine") -> None:
    """Somebody changes the schema by hand."""
    live = m.world.database.live
    live.remove("by hand") if "by hand" in live else live.append("by hand")


FOREIGN = "00000000-0000-4000-b000-0000000000ff"


def _foreign_row(m: "Machine") -> None:
    """Another cluster, without a ptahk of this world, has an open attempt."""
    database = m.world.database
    number = max([row["number"] for row in database.rows.values()], default=0) + 1
    database.rows["f" * 32] = {
        "operationId": "f" * 32, "storeUid": FOREIGN, "storeKind": "cluster",
        "serverIdentity": database.identity, "coordinationDigest": "", "sharedRealm": False,
        "number": number, "epoch": f"{number}.{'0' * 16}", "startNonce": "x", "planDigest": "",
        "notAfter": "2026-01-01T01:00:00Z", "state": "started", "statementsTotal": 1,
        "statementsDone": 0, "statementRunning": None, "outcome": None, "resultDigest": None,
        "startedAt": None, "finishedAt": None, "fencedAt": None,
    }  # fmt: skip


# -- the store and its managers ------------------------------------------------------------------


def restart(m: "Machine") -> None:
    site = m.rng.choice(m.world.sites)
    manager = m.rng.choice(site.managers)
    if not manager.busy:
        manager.start()
        manager.due = dict.fromkeys(site.resources(), m.world.now_s + 1.0)


def step_clock(m: "Machine") -> None:
    """A manager's wall clock is set."""
    site = m.rng.choice(m.world.sites)
    m.rng.choice(site.managers).clock.skew_s = m.rng.uniform(-300.0, 300.0)


def leap(m: "Machine") -> None:
    """Nobody does anything for a while."""
    m.world.clock.advance(m.rng.choice((30.0, 400.0, 1000.0, 5000.0)))
    m.world.settle_time()


def land(m: "Machine") -> None:
    m.world.late = [(m.world.now_s, action) for _, action in m.world.late]


def _backup(m: "Machine") -> None:
    site = m.world.sites[0]
    site.saved = site.api.backup()


def _restore(m: "Machine") -> None:
    """The store is what it was; the database is not. Managers are restarted, as is documented."""
    site = m.world.sites[0]
    if site.saved is None or m.world.depth or site.local:
        return
    m.world.late.clear()
    site.api.restore(site.saved)
    site.auditor.forget()
    for manager in site.managers:
        manager.start()
        manager.due = dict.fromkeys(site.resources(), m.world.now_s + 1.0)
    m.world.say("restored")


def change_surroundings(m: "Machine") -> None:
    site = m.rng.choice(m.world.sites)
    site.surroundings.document = {"interpreter": f"/python{m.rng.randint(1, 3)}"}


# -- people --------------------------------------------------------------------------------------


def _resource(m: "Machine") -> tuple[Site, Key] | None:
    found = [(site, key) for site in m.world.sites for key in site.resources()]
    return m.rng.choice(found) if found else None


def declare(m: "Machine") -> None:
    if m.rng.random() < 0.5:
        m.declare()


def suspend(m: "Machine") -> None:
    found = _resource(m)
    if found is not None:
        site, key = found
        m.edit(site, key, suspend=not site.api.get(key)["spec"].get("suspend", False))


def deadline(m: "Machine") -> None:
    found = _resource(m)
    if found is not None:
        m.edit(*found, execution={"activeDeadlineSeconds": m.rng.choice((30, 60, 900, 3000))})


def _never(m: "Machine") -> None:
    m.world.acts["refusals"] += 1
    _policy(m, "Never")


def _policy(m: "Machine", word: str) -> None:
    found = _resource(m)
    if found is None or m.world.kind == toy.KIND:
        return
    site, key = found
    m.edit(site, key, policy={**site.api.get(key)["spec"]["policy"], "apply": word})


def policy(m: "Machine") -> None:
    _policy(m, m.rng.choice(("Never", "Always", "OnApproval")))


def _unshare(m: "Machine") -> None:
    m.world.acts["refusals"] += 1
    share(m)


def share(m: "Machine") -> None:
    found = _resource(m)
    if found is not None:
        site, key = found
        target = site.api.get(key)["spec"]["target"]
        m.edit(site, key, target={**target, "sharedRealm": not target["sharedRealm"]})


def delete(m: "Machine") -> None:
    """A person deletes a resource."""
    if m.rng.random() < 0.4:
        _delete(m)


def _delete(m: "Machine") -> None:
    found = _resource(m)
    if found is not None:
        try:
            found[0].api.delete(found[0].api.get(found[1]))
        except PortError as error:
            m.world.say("refused", type(error).__name__)


def strip_finalizer(m: "Machine") -> None:
    found = _resource(m)
    if found is None or m.rng.random() < 0.8:
        return
    site, key = found
    document = site.api.get(key)
    metadata = dict(document["metadata"])
    if FINALIZER in metadata.get("finalizers", ()):
        site.auditor.forced = True
        metadata["finalizers"] = []
        m._replace(site, document | {"metadata": metadata})


def approve(m: "Machine") -> None:
    found = _resource(m)
    if found is not None:
        m.approve(*found)


def misapprove(m: "Machine", site: Site, key: Key) -> None:
    """An approval that is almost right: of another plan, fingerprint or resource."""
    last = site.status(key).last_plan
    if not last or not last.get("statements"):
        return
    document = site.api.find(Key(PLAN, "local", str(last["name"])))
    if document is None:
        return
    plan = plans.parse_plan(document)
    name = f"approval-{m.world.entropy.nonce()}"
    wrong = plans.approval_document("local", name, plan, plans.Approver("bob"))
    how = m.rng.choice(("plan", "fingerprint", "resource"))
    if how == "fingerprint":
        wrong["spec"]["fingerprint"] = "sha256:" + "0" * 64
    else:
        wrong["spec"][how]["uid"] = "00000000-0000-4000-8000-00000000ffff"
    site.api.create(wrong)


def revoke(m: "Machine") -> None:
    """An approval is deleted."""
    site = m.rng.choice(m.world.sites)
    found = site.api.list(APPROVAL)
    if found:
        site.api.delete(found[-1])


def ask(m: "Machine") -> None:
    found = _resource(m)
    if found is None:
        return
    site, key = found
    last = site.status(key).last_plan
    what: Any = m.rng.choice(("plan", "observe", "apply"))
    if what == "apply" and (m.world.kind == toy.KIND or not last):
        what = "plan"
    fingerprint = None
    if what == "apply":
        assert last is not None
        fingerprint = str(last["fingerprint"])
        if m.rng.random() < 0.7:
            m.approve(site, key)
    m.ask(site, key, what, fingerprint)


def acknowledge(m: "Machine") -> None:
    """At the wrong moment, or of the wrong number."""
    found = _resource(m)
    if found is None:
        return
    status: Status = found[0].status(found[1])
    number = m.rng.randint(1, 9)
    if status.frozen is not None and m.rng.random() < 0.5:
        number = status.frozen.number
    m.acknowledge(*found, number)


def delete_map(m: "Machine") -> None:
    """A bundle or a plan's bytes are deleted by hand."""
    site = m.rng.choice(m.world.sites)
    found = site.api.list(CONFIG_MAP) + site.api.list(PLAN)
    if found:
        site.api.delete(m.rng.choice(found))


def write_lease(site: Site, lease: dict[str, Any], holder: str | None) -> None:
    metadata = dict(lease["metadata"])
    metadata["annotations"] = {
        key: value for key, value in metadata["annotations"].items() if key != "ptahk.dev/holder"
    }
    site.api.replace(
        lease | {"metadata": metadata, "spec": {**lease["spec"], "holderIdentity": holder}}
    )


def edit_lease(m: "Machine") -> None:
    """A person frees a Lease by hand, takes it, breaks it for a while, or deletes it."""
    site = m.rng.choice(m.world.sites)
    for lease in site.api.list(LEASE):
        if m.rng.random() >= 0.3:
            continue
        site.auditor.forced = True
        how = m.rng.choice(("free", "take", "break", "delete"))
        if how == "delete":
            site.api.delete(lease)
        elif how != "break":
            write_lease(site, lease, None if how == "free" else "somebody")
        else:
            break_lease(m, site, lease)


def break_lease(m: "Machine", site: Site, lease: dict[str, Any]) -> None:
    """Until somebody notices."""
    key, epoch = key_of(lease), lease["metadata"]["annotations"].get(leases.EPOCH)
    if epoch is None:
        return  # broken already
    _annotate_lease(site, key, None)
    m.world.later.append((m.world.now_s + 200.0, lambda: _annotate_lease(site, key, epoch)))


def _annotate_lease(site: Site, key: Key, epoch: str | None) -> None:
    """Without its epoch it is no Lease of ours; with it, it is one again."""
    lease = site.api.find(key)
    if lease is None or (epoch is not None and leases.EPOCH in lease["metadata"]["annotations"]):
        return
    annotations = {k: v for k, v in lease["metadata"]["annotations"].items() if k != leases.EPOCH}
    if epoch is not None:
        annotations[leases.EPOCH] = epoch
    site.api.replace(lease | {"metadata": {**lease["metadata"], "annotations": annotations}})


ACTS: tuple[Callable[["Machine"], None], ...] = (
    kill_pod, kill_pod, slow_pod, slow_pod, twin, twin, remove_job, lose_node, lose_log, stall_log,
    forge_log, replace_job, lock, database_down, failover, skew_database, another_server, drift,
    restart, step_clock, leap, leap, land, change_surroundings, declare, suspend, deadline, policy,
    share, delete, strip_finalizer, approve, revoke, ask, ask, acknowledge, delete_map,
    edit_lease,
)  # fmt: skip
