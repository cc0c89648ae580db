"""Which resources a changed object wakes."""

from typing import Any

from ptahk.engine.ports import Document, Key
from ptahk.serve.wakes import Wakes

ONE, TWO = Key("PtahSchema", "apps", "one"), Key("PtahSchema", "apps", "two")
WAKES = ("PtahSchema",)


def reading(name: str, config_map: Any) -> Document:
    spec = {"desired": {"configMapRef": {"name": config_map}}}
    return {"metadata": {"namespace": "apps", "name": name}, "spec": spec}


def owned(kind: str, *owners: Any) -> Document:
    return {"kind": kind, "metadata": {"namespace": "apps", "ownerReferences": list(owners)}}


def test_a_resource_wakes_itself() -> None:
    assert Wakes(WAKES).of(ONE, None) == (ONE,)


def test_a_job_wakes_its_owner_and_once_more_when_it_is_gone() -> None:
    wakes, job = Wakes(WAKES), Key("Job", "apps", "ptahk-op-apply-1")
    document = owned("Job", {"kind": "PtahSchema", "name": "one"}, {"kind": "Other", "name": "x"})
    assert wakes.of(job, document) == (ONE,)
    assert wakes.of(job, None) == (ONE,)
    assert wakes.of(job, None) == ()


def test_a_changed_owner_wakes_both() -> None:
    wakes, job = Wakes(WAKES), Key("Job", "apps", "j")
    wakes.of(job, owned("Job", {"kind": "PtahSchema", "name": "one"}))
    assert wakes.of(job, owned("Job", {"kind": "PtahSchema", "name": "two"})) == (ONE, TWO)


def test_an_approval_wakes_what_it_names() -> None:
    document = {
        "kind": "PtahApproval",
        "metadata": {"namespace": "apps"},
        "spec": {"resource": {"kind": "PtahSchema", "name": "two", "uid": "u"}},
    }
    assert Wakes(WAKES).of(Key("PtahApproval", "apps", "a"), document) == (TWO,)


def test_a_config_map_wakes_who_reads_it_now() -> None:
    wakes, declared = Wakes(WAKES), Key("ConfigMap", "apps", "declared")
    wakes.resource(ONE, reading("one", "declared"))
    wakes.resource(TWO, reading("two", "declared"))
    assert wakes.of(declared, None) == (ONE, TWO)
    wakes.resource(ONE, reading("one", "other"))
    wakes.resource(TWO, None)
    assert wakes.of(declared, None) == ()
    assert wakes.of(Key("ConfigMap", "apps", "other"), None) == (ONE,)


def test_a_migration_is_woken_by_the_config_map_of_its_directory() -> None:
    kinds = ("PtahSchema", "PtahMigration")
    wakes, key = Wakes(kinds), Key("PtahMigration", "apps", "one")
    spec = {"artifact": {"configMapRef": {"name": "files"}}}
    wakes.resource(key, {"metadata": {"namespace": "apps", "name": "one"}, "spec": spec})
    assert wakes.of(Key("ConfigMap", "apps", "files"), None) == (key,)


def test_what_makes_no_sense_wakes_nobody() -> None:
    wakes = Wakes(WAKES)
    odd: list[Any] = [None, "x", {"desired": 1}, {"desired": {"configMapRef": []}},
                      {"desired": {"configMapRef": {"name": 7}}}]  # fmt: skip
    for spec in odd:
        wakes.resource(ONE, {"metadata": {"namespace": "apps"}, "spec": spec})
    document = owned("Job", None, "x", {"kind": "PtahSchema"}, {"kind": "PtahSchema", "name": 1})
    assert wakes.of(Key("Job", "apps", "j"), document) == ()
