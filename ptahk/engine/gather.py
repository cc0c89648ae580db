"""Ports → Snapshot. Reads, never judges; every read answers what is stored now.

What a pass reads follows from what is stored, so that a steady resource costs a handful of reads
and an undispatched claim sees census, surroundings and inputs afresh each time (C-6.4).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptahk.engine import peers
from ptahk.engine.family import Family
from ptahk.engine.model import lease as leases
from ptahk.engine.model import source as sources
from ptahk.engine.model.claim import PROVE, Claim
from ptahk.engine.model.fields import FieldError
from ptahk.engine.model.job import OPERATION_ID, JobInput, JobView, NotYet
from ptahk.engine.model.outcome import Refusal
from ptahk.engine.model.plan import (
    PLANS_KEPT,
    Approval,
    Plan,
    SourceRef,
    bundle_document,
    parse_approval,
    parse_plan,
    plan_name,
    source_name,
)
from ptahk.engine.model.resource import (
    ACKNOWLEDGE,
    ACKNOWLEDGED_BY,
    APPROVAL,
    CONFIG_MAP,
    FINALIZER,
    LEASE,
    PLAN,
    REQUEST,
    RESOURCE_UID,
    SOURCE_KEY,
    Acknowledge,
    Declared,
    Request,
    parse_annotation,
    stamped_user,
)
from ptahk.engine.model.snapshot import (
    CommonSpec,
    Draws,
    LeaseView,
    Peer,
    Snapshot,
    Source,
)
from ptahk.engine.model.status import Status, parse
from ptahk.engine.ports import Document, Key, NotFound, Ports, Watched, object_reference
from ptahk.wire import digest

Families = Mapping[str, Family]


@dataclass(frozen=True, slots=True)
class _Resource:
    """The resource as read first; everything else follows from it."""

    document: Document
    key: Key
    uid: str
    spec: CommonSpec | None
    refusal: Refusal | None
    status: Status
    request: Request | None
    request_refusal: Refusal | None
    acknowledge: Acknowledge | None

    @property
    def undispatched(self) -> Claim | None:
        claim = self.status.active_operation
        return claim if claim is not None and not claim.dispatch_started else None

    @property
    def idle(self) -> bool:
        status = self.status
        return (
            status.active_operation is None
            and status.pending_observation is None
            and status.pending_lock_release is None
        )

    @property
    def asked(self) -> bool:
        """A request is open."""
        answer = self.status.request
        return self.request is not None and (answer is None or answer.id != self.request.id)


def gather(ports: Ports, key: Key, families: Families) -> Snapshot:
    """One reading of the world for one resource.

    :raises FieldError: the stored status is not one that this version may touch.
    :raises PortError: a read failed; ``NotFound`` for the resource itself.
    """
    family = families[key.kind]
    resource = _resource(ports, key, family)
    status, claim = resource.status, resource.status.active_operation
    owed = status.pending_observation
    dispatched = claim is not None and claim.dispatch_started
    view = _lease(ports, resource)
    plan, plan_refusal = _plan(ports, resource)
    inputs = _inputs(ports, resource)  # before the source: what is missing is forgotten
    source, source_refusal = _source(ports, resource, family)
    metadata = resource.document["metadata"]
    return Snapshot(
        document=resource.document,
        namespace=key.namespace,
        name=key.name,
        kind=key.kind,
        uid=resource.uid,
        generation=metadata.get("generation", 0),
        deleting=metadata.get("deletionTimestamp") is not None,
        finalized=FINALIZER in (metadata.get("finalizers") or ()),
        spec=resource.spec,
        spec_refusal=resource.refusal,
        status=status,
        request=resource.request,
        request_refusal=resource.request_refusal,
        acknowledge=resource.acknowledge,
        now=ports.clock.now(),
        draws=Draws(
            ports.entropy.operation_id(), ports.entropy.nonce(), ports.entropy.epoch_bits()
        ),
        store=ports.store,
        creation_certain=ports.jobs.creation_certain,
        lease=view,
        peers=_peers(ports, resource, families),
        job=ports.jobs.observe(key.namespace, claim.job_name) if claim and dispatched else None,
        pods=_pods(ports, resource, family),
        result=_result(ports, claim),
        surroundings=_surroundings(ports, resource),
        unguarded=_unguarded(ports, resource),
        plan=plan,
        plan_refusal=plan_refusal,
        approvals=_approvals(ports, resource, plan),
        source=source,
        source_refusal=source_refusal,
        inputs=inputs,
        waited_s=(
            _watched(ports, f"wait/{owed.operation_id}", owed.epoch)
            if owed is not None and owed.uncertain
            else 0.0
        ),
        published=frozenset(ports.memory.published),
        prunable=_displaced(ports, resource, plan) or _prunable(ports, resource),
        strays=_strays(ports, resource),
        create_error=None if claim is None else ports.memory.refused.get(claim.job_name),
    )


def _resource(ports: Ports, key: Key, family: Family) -> _Resource:
    document = ports.objects.get(key)
    metadata = document["metadata"]
    status = parse(document.get("status"), metadata["uid"])
    spec, refusal = None, None
    try:
        spec = family.parse_spec(document.get("spec"))
    except FieldError as error:
        refusal = Refusal("InvalidSpec", str(error), error.path.lstrip("."))
    annotations = metadata.get("annotations") or {}
    request, request_refusal = _annotation(annotations, REQUEST, Request)
    acknowledge, _ = _annotation(annotations, ACKNOWLEDGE, Acknowledge)
    stamped = stamped_user(annotations.get(ACKNOWLEDGED_BY))
    if acknowledge is not None and stamped is not None:
        acknowledge = dataclasses.replace(acknowledge, user=stamped)
    return _Resource(
        document, key, metadata["uid"], spec, refusal, status, request, request_refusal,
        acknowledge,
    )  # fmt: skip


def _annotation(
    annotations: Mapping[str, str], name: str, cls: type[Any]
) -> tuple[Any, Refusal | None]:
    text = annotations.get(name)
    if not text:
        return None, None
    try:
        return parse_annotation(cls, text, name), None
    except FieldError as error:
        return None, Refusal("InvalidRequest", str(error), name)


def _realm(resource: _Resource) -> str | None:
    """The realm that matters now: of a debt, of the claim, of the spec."""
    status = resource.status
    if status.pending_lock_release is not None:
        return status.pending_lock_release.realm
    if status.active_operation is not None:
        return status.active_operation.realm
    if status.pending_observation is not None:
        return status.pending_observation.realm
    return None if resource.spec is None else resource.spec.target.coordination_digest


def _lease(ports: Ports, resource: _Resource) -> LeaseView | None:
    realm = _realm(resource)
    if realm is None:
        return None
    named = digest.CoordinationDigest(realm)
    namespace = ports.store.coordination_namespace
    try:
        document = ports.objects.get(Key(LEASE, namespace, digest.lease_name(named)))
    except NotFound:
        return LeaseView(leases.new_document(namespace, named), None, 0.0, None)
    record = leases.parse(document)
    mark = f"{document['metadata'].get('uid')}/{record.resource_version}"
    watched_s = _watched(ports, f"lease/{realm}", mark)
    settled = None
    if isinstance(record, leases.LeaseRecord) and record.holder is not None:
        settled = _holder_settled(ports, resource, record.holder)
    return LeaseView(document, record, watched_s, settled)


def _watched(ports: Ports, what: str, mark: str) -> float:
    """Seconds that this process has seen it stand unchanged, on its own monotonic clock."""
    now_s = ports.clock.monotonic()
    seen = ports.memory.watched.get(what)
    if seen is None or seen.mark != mark:
        ports.memory.watched[what] = Watched(mark, now_s)
        return 0.0
    return now_s - seen.since_s


def _holder_settled(ports: Ports, resource: _Resource, holder: leases.Holder) -> bool | None:
    """Whether a foreign holder's claim is over or undispatched, read live (D19)."""
    if holder.uid == resource.uid or not ports.store.automatic:
        return None
    try:
        document = ports.objects.get(Key(holder.kind, holder.namespace, holder.name))
    except NotFound:
        # Its finalizer went after its last debt: what stands is an acquisition that landed late.
        return True
    if document["metadata"]["uid"] != holder.uid:
        return True
    try:
        status = parse(document.get("status"), holder.uid)
    except FieldError:
        return None
    claim, owed = status.active_operation, status.pending_observation
    if owed is not None:
        return False
    return claim is None or claim.outcome is not None or not claim.dispatch_started


def _peers(ports: Ports, resource: _Resource, families: Families) -> tuple[Peer, ...] | None:
    """The census wherever a claim may be written or is not dispatched yet.

    At rest an index may answer. Once a claim stands it is read live: an index can show two new
    peers each alone (C-6.4).
    """
    claim = resource.undispatched
    wanted = claim.realm if claim is not None else _realm(resource)
    if wanted is None or not (resource.idle or claim is not None):
        return None
    if resource.idle and not (resource.asked or ports.store.automatic):
        return None
    documents = None
    if claim is None and ports.census is not None:
        documents = ports.census.claimants(wanted)
    if documents is None:
        documents = tuple(
            document for kind in sorted(families) for document in ports.objects.list(kind)
        )
    automatic = ports.store.automatic
    return peers.of_realm(documents, wanted, resource.uid, automatic=automatic)


def _pods(ports: Ports, resource: _Resource, family: Family) -> tuple[Any, ...] | None:
    """Pods of the Apply that runs or is owed a proof, by exact owner."""
    claim, owed = resource.status.active_operation, resource.status.pending_observation
    namespace = resource.key.namespace
    if owed is not None:
        return ports.jobs.pods(namespace, owed.job_name, owed.job_uid)
    if claim is not None and claim.dispatch_started and family.mutates(claim.type):
        return ports.jobs.pods(namespace, claim.job_name, claim.job_uid)
    return None


def _result(ports: Ports, claim: Claim | None) -> Any:
    """What was collected for the claim's Job; a failed read is told once, then read again."""
    if claim is None or claim.job_uid is None or claim.outcome is not None:
        return None
    found = ports.memory.results.get(claim.job_uid)
    if isinstance(found, NotYet):
        del ports.memory.results[claim.job_uid]
    return found


def _surroundings(ports: Ports, resource: _Resource) -> dict[str, Any] | Refusal | None:
    if resource.undispatched is None:
        return None
    spec = resource.document.get("spec")
    execution = (spec if isinstance(spec, dict) else {}).get("execution") or {}
    return ports.surroundings.snapshot(resource.key.namespace, execution)


def _unguarded(ports: Ports, resource: _Resource) -> str | None:
    """Wherever an operation may be claimed or dispatched."""
    if not (resource.idle or resource.undispatched is not None):
        return None
    return ports.admission.missing()


def _plan(ports: Ports, resource: _Resource) -> tuple[Plan | None, Refusal | None]:
    """The plan of the claim, else of the request, else the last one."""
    name = _plan_wanted(resource)
    if name is None:
        return None, None
    try:
        return parse_plan(ports.objects.get(Key(PLAN, resource.key.namespace, name))), None
    except NotFound:
        _forget(ports, Key(PLAN, resource.key.namespace, name))
        return None, Refusal("PlanMissing", f"plan {name} does not exist here")
    except FieldError as error:
        return None, Refusal("PlanDamaged", f"plan {name}: {error}")


def _plan_wanted(resource: _Resource) -> str | None:
    claim, last = resource.status.active_operation, resource.status.last_plan
    if claim is not None:
        named = claim.inputs.get("plan")
        return str(named["name"]) if isinstance(named, Mapping) and "name" in named else None
    if resource.status.pending_observation is not None:
        return None
    if resource.request is not None and resource.request.plan is not None and resource.asked:
        return plan_name(resource.request.plan)
    return None if last is None or not last.get("name") else str(last["name"])


def _approvals(ports: Ports, resource: _Resource, plan: Plan | None) -> tuple[Approval, ...]:
    if plan is None or not (resource.idle or resource.undispatched is not None):
        return ()
    found = []
    labels = {RESOURCE_UID: resource.uid}
    for document in ports.objects.list(APPROVAL, resource.key.namespace, labels):
        try:
            found.append(parse_approval(document))
        except FieldError:
            continue  # what is no approval approves nothing
    return tuple(found)


def _source(
    ports: Ports, resource: _Resource, family: Family
) -> tuple[Source | None, Refusal | None]:
    """The declaration as it is now, wherever a claim may be written or may be dropped for it."""
    desired = None if resource.spec is None else resource.spec.declared
    claim = resource.status.active_operation
    reads = claim is not None and claim.type != PROVE and not family.mutates(claim.type)
    if desired is None or not (resource.idle or resource.undispatched is not None or reads):
        return None, None
    if desired.oci_ref is not None:
        text = f"{desired.field}.ociRef is not supported yet"
        return None, Refusal("UnsupportedSource", text, f"spec.{desired.field}.ociRef")
    try:
        return _resolve(ports, resource, desired), None
    except NotFound:
        named = desired.config_map_ref
        text = f"ConfigMap {'' if named is None else named.name} does not exist"
        return None, Refusal("SourceMissing", text, f"spec.{desired.field}.configMapRef")
    except FieldError as error:
        return None, Refusal("SourceInvalid", str(error), f"spec.{desired.field}")


def _resolve(ports: Ports, resource: _Resource, desired: Declared) -> Source:
    namespace = resource.key.namespace
    if desired.inline is not None:
        return _bundle(ports, resource, (("inline.sql", desired.inline),))
    named = desired.config_map_ref
    assert named is not None, "exactly one of them is given"
    document = ports.objects.get(Key(CONFIG_MAP, namespace, named.name))
    metadata = document["metadata"]
    mark = f"{metadata['uid']}/{metadata['resourceVersion']}/{named.key}"
    known = ports.memory.sources.get(mark)
    if known is None:
        files = sources.files_of(document, named.key, desired.suffixes)
        known = digest.source_digest(files)
        ports.memory.sources[mark] = known
    bundled = SOURCE_KEY in (document.get("binaryData") or {})
    if bundled and named.key is None and metadata["name"] == source_name(known):
        return Source(SourceRef(metadata["name"], known), None)
    return _bundle(ports, resource, sources.files_of(document, named.key, desired.suffixes))


def _bundle(ports: Ports, resource: _Resource, files: sources.Files) -> Source:
    """The immutable bundle of a declaration that is not one yet (C-7.4)."""
    content = digest.source_digest(files)
    name = source_name(content)
    key = f"{CONFIG_MAP}/{resource.key.namespace}/{name}"
    if key in ports.memory.published:
        return Source(SourceRef(name, content), None)
    data = sources.base64_text(sources.encode(files))
    owner = object_reference(resource.document)
    document = bundle_document(resource.key.namespace, name, SOURCE_KEY, data, owner)
    return Source(SourceRef(name, content), document)


def _forget(ports: Ports, key: Key) -> None:
    """Somebody deleted what this process had seen stored: it is published again when needed."""
    published = ports.memory.published
    if key.kind == PLAN and str(key) in published:
        # Its bytes are stored before it: with it gone, they may be gone too.
        published.discard(str(key._replace(kind=CONFIG_MAP)))
    published.discard(str(key))


def _inputs(ports: Ports, resource: _Resource) -> tuple[JobInput, ...] | None:
    """The bytes that a dispatch sends, read right before it."""
    claim = resource.undispatched
    if claim is None or claim.snapshot is None:
        return None
    found = []
    for item in claim.inputs.get("bundles", ()):
        key = Key(CONFIG_MAP, resource.key.namespace, item["configMap"])
        try:
            document = ports.objects.get(key)
            data = sources.unbase64((document.get("binaryData") or {})[item["file"]])
        except NotFound:
            _forget(ports, key)
            return None
        except (FieldError, KeyError):
            return None
        found.append(JobInput(item["file"], item["configMap"], data))
    return tuple(found)


def _strays(ports: Ports, resource: _Resource) -> tuple[JobView, ...]:
    """Jobs whose create landed after their operation was over; looked for at rest alone."""
    if not resource.idle:
        return ()
    found = []
    for entry in resource.status.history:
        job = ports.jobs.observe(resource.key.namespace, entry.job) if entry.unseen else None
        ours = job is not None and job.annotations.get(OPERATION_ID) == entry.operation_id
        if job is not None and ours and job.terminal and job.ttl_s is None:
            found.append(job)
    return tuple(found)


def _displaced(ports: Ports, resource: _Resource, plan: Plan | None) -> tuple[Document, ...]:
    """The last plan's document, where it is an earlier one of another server.

    A fingerprint does not bind the server (C-7.2), so the same plan made anew on this server has
    the name of the one made on a copy of it, and could never be applied: its record names the
    copy (C-9.7). It goes, with its approvals, and is planned again.
    """
    last, database = resource.status.last_plan, resource.status.database
    if not resource.idle or plan is None or last is None or database is None:
        return ()
    earlier = plan.name == last.get("name") and plan.spec.operation_id != last.get("operationId")
    if not earlier or plan.spec.server_identity == database.server_identity:
        return ()
    return (ports.objects.get(Key(PLAN, resource.key.namespace, plan.name)),)


def _prunable(ports: Ports, resource: _Resource) -> tuple[Document, ...]:
    """Plans beyond the last ten, with their bytes; looked for at rest alone."""
    if not resource.idle or resource.asked:
        return ()
    labels = {RESOURCE_UID: resource.uid}
    plans = ports.objects.list(PLAN, resource.key.namespace, labels)
    last = resource.status.last_plan
    kept_name = None if last is None else last.get("name")
    by_age = sorted(
        plans,
        key=lambda item: (
            item["metadata"]["name"] == kept_name,
            (item.get("spec") or {}).get("time", ""),
            item["metadata"]["name"],
        ),
    )
    found: list[Document] = []
    for plan in by_age[: max(0, len(by_age) - PLANS_KEPT)]:
        key = Key(CONFIG_MAP, resource.key.namespace, plan["metadata"]["name"])
        try:
            found.append(ports.objects.get(key))
        except NotFound:
            found.append(plan)
    return tuple(found)
