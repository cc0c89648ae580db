"""The Objects contract. Every backend runs it; what one cannot do is a capability, not a name."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptahk.backends.local.objects import LocalObjects
from ptahk.engine.ports import AlreadyExists, Conflict, Document, Invalid, Key, NotFound, Objects
from tests.kit.kubecolumn import Column
from tests.kit.memory import MemoryClock, MemoryObjects
from tests.kit.waiting import until

NOW = "2026-01-01T00:00:00Z"
API_VERSIONS = {"ConfigMap": "v1", "Lease": "coordination.k8s.io/v1"}


@dataclass
class Backend:
    objects: Objects
    newest: Callable[[], str]
    reopen: Callable[[], Objects] | None
    """Opens the same store as another process would; None where nothing outlives the object."""
    every_write_watched: bool
    """A watch tells every write, not only the last of several between two looks."""
    keeps_uids: bool = True
    """A uid given on a create is the object's; else the store chooses always."""
    time: str | None = NOW
    """What the store's clock shows; None: nobody knows."""
    collects_garbage: bool = True
    """What an object alone owned goes in the same write; else a controller does it later."""
    any_text: bool = True
    """Any text is stored as binary data; else it must be base64."""
    size_max: int = 4 * 1024 * 1024
    """A document of this size is stored."""


@pytest.fixture(params=["memory", "local-file", "local-memory", "kube"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    clock = MemoryClock()
    if request.param == "memory":
        held = MemoryObjects(clock)
        yield Backend(held, lambda: held.resource_version, None, True)
        return
    if request.param == "kube":
        column: Column = request.getfixturevalue("column")
        yield Backend(
            column, column.newest, column.reopen, True, keeps_uids=False, time=None,
            collects_garbage=False, any_text=False, size_max=900 * 1024,
        )  # fmt: skip
        return
    directory = tmp_path / "state"
    file = request.param == "local-file"
    made = [LocalObjects.open(directory, clock) if file else LocalObjects.in_memory(clock)]

    def reopen() -> Objects:
        made.append(LocalObjects.open(directory, clock))
        return made[-1]

    yield Backend(made[0], lambda: made[0].resource_version, reopen if file else None, False)
    for opened in made:
        opened.close()


@pytest.fixture
def objects(backend: Backend) -> Objects:
    return backend.objects


def a(kind: str = "PtahSchema", name: str = "one", **more: Any) -> Document:
    metadata = {"namespace": more.pop("namespace", "local"), "name": name}
    metadata |= more.pop("metadata", {})
    version = API_VERSIONS.get(kind, "ptahk.dev/v1alpha1")
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def key(document: Document) -> Key:
    return Key(document["kind"], document["metadata"]["namespace"], document["metadata"]["name"])


def changes(objects: Objects, since: str, kind: str = "PtahSchema") -> list[tuple[str, str]]:
    seen = objects.watch(kind, None, since, 0.0)
    return [(change.type, change.document["metadata"]["name"]) for change in seen]


def test_a_created_document_gets_what_the_server_owns(backend: Backend) -> None:
    objects = backend.objects
    made = objects.create(a(spec={"suspend": True}))
    metadata = made["metadata"]
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] == (backend.time or metadata["creationTimestamp"])
    assert len(metadata["creationTimestamp"]) == len(NOW)
    assert objects.get(key(made)) == made


def test_a_given_uid_is_kept_and_never_given_twice(backend: Backend) -> None:
    uid, objects = "6ba7b810-9dad-51d1-80b4-00c04fd430c8", backend.objects
    made = objects.create(a(metadata={"uid": uid}))
    assert (made["metadata"]["uid"] == uid) is backend.keeps_uids
    if not backend.keeps_uids:
        again = objects.create(a(name="two", metadata={"uid": made["metadata"]["uid"]}))
        assert again["metadata"]["uid"] != made["metadata"]["uid"]
        return
    with pytest.raises(AlreadyExists):
        objects.create(a(name="two", metadata={"uid": uid}))


def test_create_refuses_a_taken_name_and_changes_nothing(objects: Objects) -> None:
    made = objects.create(a(spec={"n": 1}))
    with pytest.raises(AlreadyExists):
        objects.create(a(spec={"n": 2}))
    assert objects.get(key(made)) == made


@pytest.mark.parametrize(
    "broken",
    [
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "metadata": {"namespace": "local", "name": "x"}},
        a(name="Upper"),
        a(name="a/b"),
        a(name=""),
        a(name="x" * 254),
        a(metadata={"labels": {"a": "x" * 64}}),
        a(metadata={"resourceVersion": "4"}),
        a(spec={"x": float("nan")}),
        a(spec={"x": b"bytes"}),
    ],
)
def test_what_is_not_a_document_is_refused(objects: Objects, broken: Document) -> None:
    with pytest.raises(Invalid):
        objects.create(broken)
    assert objects.list("PtahSchema") == ()


def test_what_is_read_is_the_callers_own(objects: Objects) -> None:
    made = objects.create(a(spec={"list": [{"deep": 1}]}))
    given = objects.get(key(made))
    given["spec"]["list"][0]["deep"] = 2
    objects.list("PtahSchema")[0]["spec"]["list"].append(3)
    assert objects.get(key(made))["spec"] == {"list": [{"deep": 1}]}


def test_what_is_written_may_be_changed_afterwards(objects: Objects) -> None:
    mine = a(spec={"list": [1]})
    made = objects.create(mine)
    mine["spec"]["list"].append(2)
    assert objects.get(key(made))["spec"] == {"list": [1]}


def test_generation_counts_changes_of_spec_alone(objects: Objects) -> None:
    made = objects.create(a(spec={"n": 1}))
    made["metadata"]["annotations"] = {"ptahk.dev/request": "x"}
    noted = objects.replace(made)
    assert noted["metadata"]["generation"] == 1
    assert int(noted["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    noted["status"] = {"phase": "InSync"}
    reported = objects.replace_status(noted)
    assert reported["metadata"]["generation"] == 1
    reported["spec"]["n"] = 2
    assert objects.replace(reported)["metadata"]["generation"] == 2


def test_spec_and_status_are_written_apart(objects: Objects) -> None:
    made = objects.create(a(spec={"n": 1}))
    made["status"] = {"phase": "Pending"}
    made["spec"] = {"n": 9}
    reported = objects.replace_status(made)
    assert (reported["spec"], reported["status"]) == ({"n": 1}, {"phase": "Pending"})
    reported["status"] = {"phase": "Drifted"}
    reported["spec"] = {"n": 2}
    replaced = objects.replace(reported)
    assert (replaced["spec"], replaced["status"]) == ({"n": 2}, {"phase": "Pending"})
    assert objects.get(key(made)) == replaced


def test_a_write_that_changes_nothing_is_not_one(backend: Backend) -> None:
    made = backend.objects.create(a(spec={"n": 1}))

    def nothing_was_written() -> bool:
        """An API server writes for itself now and then; these would write every time."""
        before = backend.newest()
        assert backend.objects.replace(made) == made
        assert backend.objects.replace_status(made) == made
        return backend.newest() == before

    until(nothing_was_written, "two replaces without a new version", 10)


@pytest.mark.parametrize("verb", ["replace", "replace_status", "delete"])
def test_a_stale_writer_is_refused(objects: Objects, verb: str) -> None:
    stale = objects.create(a(spec={"n": 1}))
    fresh = objects.get(key(stale))
    fresh["spec"] = {"n": 2}
    stored = objects.replace(fresh)
    stale["spec"], stale["status"] = {"n": 3}, {"phase": "Failed"}
    with pytest.raises(Conflict):
        getattr(objects, verb)(stale)
    assert objects.get(key(stale)) == stored


@pytest.mark.parametrize("verb", ["replace", "replace_status", "delete"])
def test_a_writer_of_a_recreated_object_is_refused(objects: Objects, verb: str) -> None:
    first = objects.create(a(spec={"n": 1}))
    objects.delete(first)
    second = objects.create(a(spec={"n": 1}))
    mixed = {**first, "spec": {"n": 2}, "status": {"x": 1}}
    mixed["metadata"] = {
        **first["metadata"],
        "resourceVersion": second["metadata"]["resourceVersion"],
    }
    with pytest.raises(Conflict):
        getattr(objects, verb)(mixed)
    assert objects.get(key(second)) == second


@pytest.mark.parametrize("verb", ["replace", "replace_status", "delete"])
def test_no_write_without_a_resource_version(objects: Objects, verb: str) -> None:
    made = objects.create(a(spec={"n": 1}))
    blind = {**made, "metadata": {**made["metadata"]}, "spec": {"n": 2}, "status": {"x": 1}}
    del blind["metadata"]["resourceVersion"]
    with pytest.raises(Invalid):
        getattr(objects, verb)(blind)
    assert objects.get(key(made)) == made


@pytest.mark.parametrize("verb", ["replace", "replace_status", "delete"])
def test_nothing_there(objects: Objects, verb: str) -> None:
    made = objects.create(a())
    objects.delete(made)
    with pytest.raises(NotFound):
        objects.get(key(made))
    with pytest.raises(NotFound):
        getattr(objects, verb)(made)


def test_server_owned_fields_cannot_be_written(objects: Objects) -> None:
    made = objects.create(a(spec={}))
    forged = objects.get(key(made))
    forged["metadata"] |= {
        "generation": 77,
        "creationTimestamp": "1999-01-01T00:00:00Z",
        "deletionTimestamp": "1999-01-01T00:00:00Z",
    }
    assert objects.replace(forged) == made


def test_lists_are_ordered_and_narrowed(objects: Objects) -> None:
    for namespace, name, color in [("b", "x", "red"), ("a", "z", "red"), ("a", "y", "blue")]:
        objects.create(a(namespace=namespace, name=name, metadata={"labels": {"color": color}}))
    objects.create(a("PtahPlan", "other"))

    def names(*args: Any) -> list[str]:
        return [item["metadata"]["name"] for item in objects.list("PtahSchema", *args)]

    assert names() == ["y", "z", "x"]
    assert names("a") == ["y", "z"]
    assert names(None, {"color": "red"}) == ["z", "x"]
    assert names("a", {"color": "red", "size": "big"}) == []


def test_a_finalizer_holds_a_deleted_object(backend: Backend) -> None:
    objects = backend.objects
    made = objects.create(a(spec={"n": 1}, metadata={"finalizers": ["ptahk.dev/engine"]}))
    objects.delete(made)
    marked = objects.get(key(made))
    assert marked["metadata"]["deletionTimestamp"] == (
        backend.time or marked["metadata"]["deletionTimestamp"]
    )
    objects.delete(marked)
    assert objects.get(key(made)) == marked
    marked["status"] = {"phase": "Deleting"}
    marked = objects.replace_status(marked)
    marked["metadata"]["finalizers"].append("late/comer")
    with pytest.raises(Invalid):
        objects.replace(marked)
    marked["metadata"]["finalizers"] = []
    objects.replace(marked)
    with pytest.raises(NotFound):
        objects.get(key(made))


def owned(name: str, *owners: Document, kind: str = "ConfigMap", **more: Any) -> Document:
    references = [
        {
            "apiVersion": o["apiVersion"],
            "kind": o["kind"],
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
        }
        for o in owners
    ]
    return a(kind, name, metadata={"ownerReferences": references, **more})


def test_what_an_object_alone_owned_goes_with_it(backend: Backend) -> None:
    objects = backend.objects
    schema = objects.create(a())
    plan = objects.create(owned("plan", schema, kind="PtahPlan"))
    other = objects.create(a(name="two"))
    objects.create(owned("bytes", plan))
    shared = objects.create(owned("shared", plan, other))
    held = objects.create(owned("held", plan, finalizers=["some/one"]))
    if not backend.collects_garbage:
        # Whether and when a controller does it is the cluster's affair; who owns what is kept.
        owners = objects.get(key(plan))["metadata"]["ownerReferences"]
        assert [reference["uid"] for reference in owners] == [schema["metadata"]["uid"]]
        return
    objects.delete(schema)
    assert objects.list("PtahPlan") == ()
    left = {item["metadata"]["name"] for item in objects.list("ConfigMap")}
    assert left == {"shared", "held"}
    assert "deletionTimestamp" in objects.get(key(held))["metadata"]
    assert objects.get(key(shared)) == shared


def test_evidence_is_immutable(objects: Objects) -> None:
    plan = objects.create(a("PtahPlan", spec={"fingerprint": "sha256:1"}))
    data = objects.create(a("ConfigMap", "data", immutable=True, binaryData={"plan": "AAAA"}))
    plan["spec"]["fingerprint"] = "sha256:2"
    data["binaryData"]["plan"] = "BBBB"
    for changed in (plan, data):
        with pytest.raises(Invalid):
            objects.replace(changed)
    thawed = objects.get(key(data))
    thawed["immutable"] = False
    with pytest.raises(Invalid):
        objects.replace(thawed)
    assert objects.get(key(data))["binaryData"] == {"plan": "AAAA"}


def test_large_documents_and_any_text_survive(backend: Backend) -> None:
    odd = "\x00\u2028\U0001f600\ud800é"
    if not backend.any_text:
        odd = base64.b64encode(odd.encode("utf-8", "surrogatepass")).decode()
    text = {"odd": odd, "large": "A" * backend.size_max}
    made = backend.objects.create(a("ConfigMap", binaryData=text))
    assert backend.objects.get(key(made))["binaryData"] == text


def test_a_watch_tells_what_came_after(backend: Backend) -> None:
    objects = backend.objects
    objects.create(a(name="before"))
    since = backend.newest()
    assert changes(objects, since) == []
    one = objects.create(a(spec={"n": 1}))
    objects.create(a("PtahPlan", "of-another-kind"))
    assert changes(objects, since) == [("Added", "one")]
    middle = backend.newest()
    one["spec"]["n"] = 2
    one = objects.replace(one)
    assert changes(objects, middle) == [("Modified", "one")]
    middle = backend.newest()
    objects.delete(one)
    objects.create(a())
    assert changes(objects, middle) == [("Deleted", "one"), ("Added", "one")]


def test_a_watch_tells_the_newest_state_last(backend: Backend) -> None:
    objects = backend.objects
    one = objects.create(a(spec={"n": 0}))
    since = backend.newest()
    for number in range(1, 4):
        one["spec"] = {"n": number}
        one = objects.replace(one)
    told = [c.document["spec"]["n"] for c in objects.watch("PtahSchema", "local", since, 0.0)]
    assert told == ([1, 2, 3] if backend.every_write_watched else [3])
    assert list(objects.watch("PtahSchema", "elsewhere", since, 0.0)) == []


def test_what_came_and_went_between_two_looks_ends_absent(backend: Backend) -> None:
    since = backend.newest()
    backend.objects.delete(backend.objects.create(a()))
    told = changes(backend.objects, since)
    assert told in ([], [("Added", "one"), ("Deleted", "one")])


def test_a_malformed_watch_is_refused(objects: Objects) -> None:
    for since in ("", "x", "-1", "1.5"):
        with pytest.raises(Invalid):
            list(objects.watch("PtahSchema", None, since, 0.0))


def test_what_was_answered_is_there_for_the_next_process(backend: Backend) -> None:
    if backend.reopen is None:
        return
    made = backend.objects.create(a(spec={"n": 1}))
    made["status"] = {"phase": "InSync"}
    made = backend.objects.replace_status(made)
    assert backend.reopen().get(key(made)) == made
