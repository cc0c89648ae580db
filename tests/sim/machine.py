"""One seed: a world is drawn, it is hostile for a while, then it is healed and must resolve.

``run(seed)`` returns what happened. Bounds of the healed phase: ``HEALED_TURNS`` turns and
``HEALED_S`` seconds of the virtual clock.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ptahk.engine import driver
from ptahk.engine.model import plan as plans
from ptahk.engine.model.claim import PendingObservation
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import (
    ACKNOWLEDGE,
    APPROVAL,
    LEASE,
    PLAN,
    REQUEST,
    SCHEMA,
    Request,
    request_text,
)
from ptahk.engine.model.status import Status
from ptahk.engine.ports import Key, PortError
from tests.kit import toy
from tests.kit.auditor import Violation, _need
from tests.kit.fakedb import SERVER
from tests.sim import fast, hostile, plots, points, sequence
from tests.sim.world import KEY, Manager, Rates, Site, World, add_site, new_resource, toy_plan

HEALED_TURNS = 10_000
EXTRA = 150
"""Hostile turns more, at most, where a resource is neglected still."""
HEALED_S = 48 * 3600.0
LINES = ("a", "!b", "c", "d", "!e", "f", "g")
CLASSES = ("success", "unknown, then resolved", "failed", "refused", "frozen", "other")


@dataclass
class Report:
    """What one seed came to."""

    seed: int
    outcome: str
    digest: str
    passes: int
    turns: int
    healed_turns: int
    hits: Counter[str]
    acts: Counter[str]
    theme: str


class Machine:
    """Draws the world of a seed and drives it."""

    def __init__(self, seed: int, kind: str | None = None) -> None:
        """:param kind: the family; None: the seed draws schema or toy."""
        self.kind = kind
        self.world = World(seed)
        self.rng = self.world.rng
        self.declared = 0
        self.theme = ""
        self.policy: dict[str, Any] = {}
        self.healed_turns = 0
        self.leap: tuple[int, float] | None = None
        """At this turn the clock is to leap by so many seconds."""
        self.paying = False
        """Only debts are settled now: nobody asks for anything."""
        self.saved = self.declared_again = False
        self.led_back_s = 0.0
        self.home = False
        self.strays = False
        """The URL leads to an older copy of the server while a run is unresolved: once a seed."""
        self.server = SERVER
        """Where the URL leads in the end."""
        self.plot = hostile.plot(self.rng)
        self._draw()

    # -- the world ----------------------------------------------------------------------------

    def _draw(self) -> None:
        world, rng = self.world, self.rng
        self.theme = rng.choices(
            ("plain", "rough", "unknown", "fail", "refuse", "freeze", "storm"),
            (58, 2, 25, 1, 1, 25, 1),
        )[0]
        both = self.theme in ("plain", "rough", "unknown", "storm")
        drawn = toy.KIND if both and rng.random() < 0.15 else SCHEMA
        world.kind = self.kind or drawn
        local = rng.random() < (0.1 if self.theme == "fail" else 0.3)
        if self.theme == "freeze":
            local = False
        self.policy = {
            "apply": rng.choice(("Always", "Always", "OnApproval"))
            if self.theme not in ("fail", "freeze")
            else "Always",
            "allowDestructive": rng.random() < 0.5,
        }
        self._draw_rates()
        skew = rng.choice((0.0, 0.0, 5.0, 120.0))
        add_site(world, "one", local=local, automatic=not local,
                 managers=rng.choice((1, 2, 2, 3)), skew_s=0.0 if local else skew)  # fmt: skip
        world.sites[0].jobs.node_skew_s = rng.choice((0.0, -20.0, 20.0)) if skew else 0.0
        if rng.random() < 0.12 and world.kind != toy.KIND and self.theme != "plain":
            add_site(world, "two", local=rng.random() < 0.5, automatic=True, managers=1,
                     skew_s=0.0)  # fmt: skip
            world.sites[1].store = world.sites[1].store.__class__(
                world.sites[1].store.uid, world.sites[1].store.kind,
                world.sites[1].store.coordination_namespace, not world.sites[1].local,
            )  # fmt: skip
        self.declared = 1 if world.kind == toy.KIND else rng.randint(2, 4)
        if rng.random() < 0.2 and self.theme != "fail" and world.kind != MIGRATION:
            world.database.live.append("old")
        count = 1 if self.theme == "freeze" else rng.choice((1, 1, 2))
        shared = count > 1 and rng.random() < 0.9
        self.strays = world.kind == MIGRATION and rng.random() < 0.4
        self.put_files()
        for site in world.sites:
            for number in range(count):
                new_resource(site, f"r{number}", self.spec(shared=shared))
        if world.kind == toy.KIND:
            for line in LINES:
                toy_plan(world, line)
        if self.theme == "fail":
            world.database.failing.add(rng.choice(LINES[: self.declared]))
        world.outdone = lambda manager, key: plots.outdoes(self, manager, key)
        world.raced = lambda manager, key: plots.races(self, manager, key)
        world.creates_lost = lambda manager, key: plots.loses_create(self, manager, key)
        world.orphans = lambda manager, key: plots.orphans(self, manager, key)
        world.interloper = lambda manager: hostile.interloper(self, manager)

    def _draw_rates(self) -> None:
        rng = self.rng
        rough = {"plain": 0.12, "refuse": 0.1, "rough": 1.0, "storm": 3.0}.get(self.theme, 0.3)
        calm = self.theme == "plain" and rng.random() < 0.5
        if calm:
            rough = 0.0
            for name in hostile.CALM:
                setattr(self.plot, name, False)
        count = rng.randint(2, 6)
        rate = lambda most: rough * rng.random() * most  # noqa: E731
        self.world.rates = Rates(
            chaos=rate(0.15), kill=rate(0.03), lost=rate(0.08), down=rate(0.02),
            preempt=rate(0.15), gap=rate(0.3), crash=rate(0.1),
            targets=hostile.targets(rng, count, executor=self.theme not in ("plain", "refuse")),
        )  # fmt: skip

    def spec(self, *, shared: bool) -> dict[str, Any]:
        target: dict[str, Any] = {
            "engine": "postgresql", "coordinationKey": KEY, "sharedRealm": shared,
            "urlFrom": {"name": "db"},
        }  # fmt: skip
        spec: dict[str, Any] = {"target": target}
        if self.rng.random() < 0.3:
            spec["execution"] = {"activeDeadlineSeconds": self.rng.choice((30, 120, 900))}
        if self.world.kind == toy.KIND:
            spec["mark"] = LINES[0]
            return spec
        if self.world.kind == MIGRATION:
            return spec | sequence.spec(target, self.policy)
        spec["interval"] = "10m"
        spec["desired"] = {"inline": self.declaration()}
        spec["policy"] = dict(self.policy)
        return spec

    @property
    def lines(self) -> tuple[str, ...]:
        return LINES[: self.declared]

    def declaration(self) -> str:
        return "\n".join(self.lines)

    def put_files(self) -> None:
        """The directory of each site, where there is one."""
        if self.world.kind == MIGRATION:
            for site in self.world.sites:
                sequence.put_files(site, self.lines)

    # -- what people do -----------------------------------------------------------------------

    def edit(self, site: Site, key: Key, **changes: Any) -> None:
        document = site.api.find(key)
        if document is not None:
            self._replace(site, document | {"spec": {**document["spec"], **changes}})

    def _replace(self, site: Site, document: dict[str, Any]) -> None:
        try:
            site.api.replace(document)
        except PortError as error:
            self.world.say("refused", type(error).__name__)

    def declare(self) -> None:
        """Everybody's declaration gets one more line."""
        if self.world.kind == toy.KIND:
            return
        self.declared = min(len(LINES), self.declared + 1)
        if self.world.kind == MIGRATION:
            self.put_files()
            return
        for site in self.world.sites:
            for key in site.resources():
                self.edit(site, key, desired={"inline": self.declaration()})

    def annotate(self, site: Site, key: Key, name: str, text: str) -> None:
        document = site.api.find(key)
        if document is None:
            return
        metadata = dict(document["metadata"])
        metadata["annotations"] = {**(metadata.get("annotations") or {}), name: text}
        self._replace(site, document | {"metadata": metadata})

    def ask(
        self, site: Site, key: Key, what: Any, plan: str | None = None,
        change: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        request = Request(self.world.entropy.operation_id(), what, plan, change=change)
        self.annotate(site, key, REQUEST, request_text(request))

    def approve(self, site: Site, key: Key) -> str | None:
        """Approve the last plan; its fingerprint."""
        last = site.status(key).last_plan
        if not last or not last.get("statements"):
            return None
        fingerprint = str(last["fingerprint"])
        document = site.api.find(Key(PLAN, "local", plans.plan_name(fingerprint)))
        if document is None:
            return None
        name = f"approval-{self.world.entropy.nonce()}"
        plan = plans.parse_plan(document)
        site.api.create(plans.approval_document("local", name, plan, plans.Approver("ann")))
        self.world.say("approved", key.name)
        return fingerprint

    def acknowledge(self, site: Site, key: Key, number: int) -> None:
        self.annotate(site, key, ACKNOWLEDGE, json.dumps({"reason": "known", "frozen": number}))

    def attend(self, site: Site, key: Key) -> None:
        """What a person does who wants this resource to go on."""
        status = site.status(key)
        if status.frozen is not None:
            wrong = self.rng.random() < 0.4  # they read another number, and look again later
            self.acknowledge(site, key, status.frozen.number + wrong)
        self._lead_back(status.pending_observation)
        if self.paying and not site.store.automatic:
            return
        if self.rests(site, key, status) and sequence.attend(self, site, key, status):
            return
        if site.store.automatic:
            if status.phase == "Blocked" and any(
                item.reason == "ServerIdentityMismatch" for item in status.conditions
            ):
                # The plan was made on another server: only a person knows which one is meant.
                self.ask(site, key, "plan")
            if self.world.kind == toy.KIND and any(
                item.reason == "ClockSkew" for item in status.conditions
            ):
                self.ask(site, key, "observe")  # a toy does not look again by itself
            if not self._usable(site, key) and not self._astray():
                if self.rng.random() < 0.3:
                    hostile.misapprove(self, site, key)
                self.approve(site, key)
            return
        if not self.rests(site, key, status):
            return
        answer = status.request
        pending = answer is not None and answer.type == "plan" and answer.reason == "ChangesPending"
        fingerprint = self.approve(site, key) if pending else None
        if fingerprint is not None:
            self.ask(site, key, "apply", fingerprint)
        else:
            self.ask(site, key, "plan")

    def rests(self, site: Site, key: Key, status: Status) -> bool:
        """Nothing runs, and what was asked for is answered."""
        text = (site.api.get(key)["metadata"].get("annotations") or {}).get(REQUEST)
        open_ = text and (status.request is None or status.request.id != json.loads(text)["id"])
        return not open_ and driver.at_rest(status)

    def _astray(self) -> bool:
        """Somebody's proof is owed on the other server: that is settled first."""
        owed = [
            site.status(key).pending_observation
            for site in self.world.sites for key in site.resources()
        ]  # fmt: skip
        return any(item and item.reason == "ServerIdentityMismatch" for item in owed)

    def _lead_back(self, owed: PendingObservation | None) -> None:
        """The Apply ran on the other server: a person lets the URL lead there again."""
        wanted = None if owed is None else owed.inputs.get("serverIdentity")
        if owed is None or wanted is None or owed.reason != "ServerIdentityMismatch":
            return
        if self.world.now_s >= self.led_back_s + 600.0 and self.world.database.session is None:
            self.led_back_s = self.world.now_s
            self.world.database.move(str(wanted))

    def _usable(self, site: Site, key: Key) -> bool:
        """An approval of the last plan waits already."""
        last = site.status(key).last_plan
        used = {item.uid for item in site.status(key).consumed_approvals}
        plan = site.api.find(Key(PLAN, "local", str((last or {}).get("name"))))
        return any(
            item["spec"]["fingerprint"] == (last or {}).get("fingerprint")
            and item["spec"]["plan"]["uid"] == (plan or item)["metadata"]["uid"]
            and item["spec"]["resource"]["uid"] == site.api.get(key)["metadata"]["uid"]
            and item["metadata"]["uid"] not in used
            for item in site.api.list(APPROVAL)
        )

    # -- the two phases -----------------------------------------------------------------------

    def run(self) -> Report:
        """:raises Violation: an invariant does not hold."""
        with fast.parsing_once():
            return self._run()

    def _run(self) -> Report:
        world = self.world
        length = 160 if self.theme == "freeze" else self.rng.randint(60, 160)
        for turn in range(length + EXTRA):
            # What was neglected is neglected to the end: that is what it is for.
            if turn >= length and not plots.neglects(self):
                break
            if self.rng.random() < world.rates.chaos:
                hostile.act(self)
            if self.rng.random() < 0.1:
                self._somebody()
            hostile.theme(self)
            world.turn()
        self.heal()
        self.settle(self.resolved)
        self.check_end()
        return Report(
            world.seed, self.outcome(), world.digest(), world.passes, world.turns,
            self.healed_turns, world.hits, world.acts, self.theme,
        )  # fmt: skip

    def _somebody(self) -> None:
        site = self.rng.choice(self.world.sites)
        keys = site.resources()
        if keys:
            self.attend(site, self.rng.choice(keys))

    def heal(self) -> None:
        """Nothing goes wrong any more; what was left behind is put right by people."""
        world, database = self.world, self.world.database
        world.say("healed")
        # What this seed strikes once each may still come: a bounded number of kills.
        world.rates = Rates(targets=world.rates.targets)
        world.late = [(world.now_s, action) for _, action in world.late]
        world.later = [(world.now_s, action) for _, action in world.later]
        world.settle_time()
        database.lock_holder, database.down, database.clock_offset_s = None, False, 0.0
        database.failing.clear()
        hostile.mend(self)
        world.slow.clear()
        world.neglected.clear()
        for site in world.sites:
            site.jobs.node_skew_s = 0.0
            for job in site.jobs.sim_jobs():
                job.unreadable = 0
            for manager in site.managers:
                manager.clock.skew_s = 0.0
                for key in site.resources():
                    manager.wake(key, 0.0)
        plots.patience(self)
        self.pay()
        self.plot.orphan = False
        for site in world.sites:
            for key in site.resources():
                spec = site.api.get(key)["spec"]
                target = {**spec["target"], "sharedRealm": True}
                self.edit(site, key, suspend=False, target=target)
                if world.kind == SCHEMA:
                    policy = {**spec["policy"], "apply": "OnApproval", "allowDestructive": True}
                    self.edit(site, key, policy=policy, desired={"inline": self.declaration()})
                elif world.kind == MIGRATION:
                    self.edit(site, key, policy={"apply": "OnApproval"})
        self.put_files()
        if self.rng.random() < 0.5:
            self.declare()

    def resolved(self) -> bool:
        world = self.world
        if any(hostile.abandoned(site) for site in world.sites):
            return False
        if world.late or world.lingering or any(site.jobs.active() for site in world.sites):
            return False
        return all(self._done(site, key) for site in world.sites for key in site.resources())

    def _done(self, site: Site, key: Key) -> bool:
        document = site.api.get(key)
        status = site.status(key)
        if "deletionTimestamp" in document["metadata"] or status.frozen is not None:
            return False
        if not driver.at_rest(status) or status.pending_observation is not None:
            return False
        if status.pending_lock_release is not None:
            return False
        if self.world.kind == toy.KIND:
            return (
                LINES[0] in self.world.database.live and status.last_observation is not None
            ) or (not site.store.automatic and LINES[0] in self.world.database.live)
        if self.world.kind == MIGRATION:
            return sequence.done(self.world, status, self.lines)
        last, live = status.last_plan, self.world.database.live
        if set(live) != set(LINES[: self.declared]):
            return False  # somebody's change by hand is not seen yet
        wanted = self.world.database.fingerprint(list(LINES[: self.declared]))
        return (
            last is not None and not last["statements"] and (last["desiredFingerprint"] == wanted)
        )

    def pay(self) -> None:
        """A debt is paid even where nothing new may be claimed (C-3.5, C-6.3)."""
        how = self.rng.random()
        alone = len(self.everything()) < 2
        if how < 0.2:
            for site, key in self.everything():
                self.edit(site, key, suspend=True)
        elif how < 0.6 and not alone:
            for site, key in self.everything():
                target = {**site.api.get(key)["spec"]["target"], "sharedRealm": False}
                self.edit(site, key, target=target)
        else:
            return
        self.paying = True
        self.settle(self.free_of_debt)
        self.paying = False

    def everything(self) -> list[tuple[Site, Key]]:
        """Every resource there is."""
        return [(site, key) for site in self.world.sites for key in site.resources()]

    def free_of_debt(self) -> bool:
        """No proof and no release is owed, and nothing that was dispatched is open."""
        for site, key in self.everything():
            status = site.status(key)
            claim = status.active_operation
            if status.pending_observation is not None or status.pending_lock_release is not None:
                return False
            if claim is not None and claim.dispatch_started:
                return False
        return not any(self._held(site) for site in self.world.sites)

    def _held(self, site: Site) -> bool:
        """A resource that is there holds its realm."""
        held = [item for item in site.api.list(LEASE) if item["spec"].get("holderIdentity")]
        return len(held) > len(hostile.abandoned(site))

    def settle(self, resolved: Callable[[], bool]) -> None:
        """Turns until everything is resolved, within the bound."""
        world = self.world
        begun_s, begun = world.now_s, world.turns
        next_s = world.now_s
        while not resolved():
            self.healed_turns = max(self.healed_turns, world.turns - begun)
            late = world.now_s - begun_s > HEALED_S
            if world.turns - begun > HEALED_TURNS or late:
                raise Violation("invariant 31-35: " + self.unresolved())
            if world.now_s >= next_s:
                next_s = world.now_s + 20.0
                hostile.release_by_hand(self)
                for site in world.sites:
                    for key in site.resources():
                        self.attend(site, key)
            if not world.turn():
                world.clock.advance(20.0)
        world.settle_time()

    def unresolved(self) -> str:
        found = []
        for site in self.world.sites:
            for key in site.resources():
                if not self._done(site, key):
                    status = site.status(key)
                    shown = [(c.type, c.status, c.reason, c.message) for c in status.conditions]
                    found.append(f"{site.name}/{key.name}: {status.phase} {shown} {status.request}")
        return "; ".join(found) or "runs or requests are left"

    def check_end(self) -> None:
        """Nothing is held, nothing is open, nothing was told that should not be."""
        world, database = self.world, self.world.database
        for site in world.sites:
            for lease in site.api.list(LEASE):
                _need(32, lease["spec"].get("holderIdentity") is None, "a Lease is still held")
            for document in site.api.all():
                kept = {name: part for name, part in document.items() if name != "spec"}
                if document["kind"] not in (SCHEMA, MIGRATION, toy.KIND):
                    kept = document
                _need(30, KEY not in json.dumps(kept), "a coordination key was stored")
            for order in site.jobs.created:
                _need(30, KEY not in repr(order.spec), "a coordination key was sent")
        _need(30, KEY not in repr(world.recorder.events), "a coordination key was told")
        # What a restored backup does not know stays as it is: nobody can start it again.
        restored = {s.store.uid for s in world.sites if s.auditor.restored or s.auditor.forced}
        for operation, row in database.rows.items():
            if row["storeUid"] in restored:
                continue
            _need(31, row["state"] != "started", f"attempt {operation} is still open")
        if not any(site.resources() for site in world.sites):
            return
        if world.kind == MIGRATION:
            sequence.check_end(world, self.lines)
        if world.kind == SCHEMA:
            wanted = set(LINES[: self.declared])
            _need(35, set(database.live) == wanted, f"live is {database.live}")

    def outcome(self) -> str:
        """The seed's class, the rarer one first."""
        auditors = [site.auditor for site in self.world.sites]
        settled = {key: value for a in auditors for key, value in a.settled.items()}
        reported = {key: value for a in auditors for key, value in a.reported.items()}
        unknown = {key for key, value in reported.items() if value == "Unknown"}
        if any(auditor.frozen for auditor in auditors):
            return "frozen"
        if any(value in ("Failed", "Partial") for value in settled.values()):
            return "failed"
        if unknown & settled.keys():
            return "unknown, then resolved"
        if any(auditor.refused for auditor in auditors) or hostile.was_refused(self):
            return "refused"
        if "NotStarted" in settled.values():
            return "refused"
        return "success" if "Succeeded" in settled.values() else "other"


def run(seed: int, kind: str | None = None) -> Report:
    """One seed, from its draw to its end. :raises Violation: an invariant does not hold."""
    return Machine(seed, kind).run()


def coverage() -> tuple[str, ...]:
    """Every named crash point."""
    return points.POINTS


__all__ = ["Machine", "Manager", "Report", "run"]
