"""What only a real API server can tell about the Objects port."""

import base64
from datetime import UTC, datetime

import pytest

from ptahk.backends.kube.answers import NotServed
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS, Kind, table
from ptahk.backends.kube.objects import KubeObjects
from ptahk.backends.kube.reading import list_all
from ptahk.engine.model import lease as leases
from ptahk.engine.model.lease import Holder, LeaseRecord
from ptahk.engine.ports import (
    AlreadyExists,
    Conflict,
    Document,
    Forbidden,
    Invalid,
    Key,
    NotFound,
    object_reference,
)
from ptahk.wire.digest import coordination_digest
from ptahk.wire.epoch import Epoch
from tests.kit.controlplane import Cluster
from tests.kit.kubecolumn import MASTERS, Column

REALM = coordination_digest("postgresql", "orders")
HOLDER = Holder("PtahSchema", "n", "orders", "uid-1", "0" * 32, "Apply")
MOMENT = datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)


@pytest.fixture
def client(control_plane: Cluster) -> Client:
    return Client.load(control_plane.kubeconfig("ptahk-store", [MASTERS]), None)


@pytest.fixture
def objects(client: Client) -> KubeObjects:
    return KubeObjects(client)


def lease_of(namespace: str, number: int = 1) -> Document:
    epoch = Epoch.parse(f"{number}.0123456789abcdef")
    document = leases.new_document(namespace, REALM)
    return leases.held(document, epoch, "holder", HOLDER, 90, MOMENT)


def test_a_lease_of_ours_survives_the_api_server(objects: KubeObjects, namespace: str) -> None:
    made = objects.create(lease_of(namespace))
    first = leases.parse(made)
    assert isinstance(first, LeaseRecord)
    assert (first.holder, first.duration_s, str(first.epoch)) == (
        HOLDER, 90, "1.0123456789abcdef",
    )  # fmt: skip
    assert first.renewed == first.acquired == leases.parse(lease_of(namespace)).renewed  # type: ignore[union-attr]
    renewed = objects.replace(leases.renewed(made, 120, MOMENT))
    assert leases.parse(renewed).duration_s == 120  # type: ignore[union-attr]
    freed = objects.replace(leases.released(renewed, MOMENT))
    record = leases.parse(freed)
    assert isinstance(record, LeaseRecord)
    assert (record.identity, record.holder, str(record.epoch)) == (
        None, None, "1.0123456789abcdef",
    )  # fmt: skip
    assert leases.parse(objects.replace(leases.held(freed, record.epoch, "h", HOLDER, 90, MOMENT)))


def test_a_lease_that_is_gone_is_not_made_anew(
    client: Client, objects: KubeObjects, namespace: str
) -> None:
    """An API server creates a Lease on PUT; the uid in it is what refuses that."""
    made = objects.create(lease_of(namespace))
    objects.delete(made)
    for document in (made, leases.renewed(made, 120, MOMENT)):
        with pytest.raises(NotFound):
            objects.replace(document)
    path = KINDS["Lease"].path(namespace, made["metadata"]["name"])
    with pytest.raises(NotFound):
        client.request("GET", path)
    blind = {**made, "metadata": {"namespace": namespace, "name": made["metadata"]["name"]}}
    assert client.request("PUT", path, body=blind).status == 201, "or the guard is for nothing"


def test_a_lease_that_was_made_anew_is_not_written(objects: KubeObjects, namespace: str) -> None:
    first = objects.create(lease_of(namespace))
    objects.delete(first)
    second = objects.create(lease_of(namespace, 2))
    version = second["metadata"]["resourceVersion"]
    mixed = {**first, "metadata": first["metadata"] | {"resourceVersion": version}}
    for verb in (objects.replace, objects.delete):
        for document in (first, mixed):
            with pytest.raises(Conflict):
                verb(document)
    assert objects.get(Key("Lease", namespace, second["metadata"]["name"])) == second


def test_bytes_in_an_immutable_config_map_with_an_owner(
    objects: KubeObjects, namespace: str
) -> None:
    owner = objects.create(lease_of(namespace))
    data = {"plan.json.gz": base64.b64encode(bytes(range(256)) * 3600).decode()}
    document: Document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": namespace,
            "name": "plan",
            "ownerReferences": [object_reference(owner)],
        },
        "binaryData": data,
        "immutable": True,
    }
    made = objects.create(document)
    assert (made["binaryData"], made["immutable"]) == (data, True)
    assert made["metadata"]["ownerReferences"] == document["metadata"]["ownerReferences"]
    with pytest.raises(AlreadyExists):
        objects.create(document)
    for change in ({"binaryData": {}}, {"immutable": False}):
        with pytest.raises(Invalid, match="immutable"):
            objects.replace({**made, **change})
    objects.delete(made)


def test_pages_are_one_state(client: Client, objects: KubeObjects, namespace: str) -> None:
    for number in range(7):
        objects.create({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": f"c{number}", "labels": {"a": "b"}},
        })  # fmt: skip
    kind = KINDS["ConfigMap"]
    items, version = list_all(client, kind, namespace, {"a": "b"}, page=3)
    assert [item["metadata"]["name"] for item in items] == [f"c{n}" for n in range(7)]
    assert items == list_all(client, kind, namespace, {"a": "b"}, page=100)[0]
    # A controller puts one of its own into every new namespace, some time or other.
    later = [change.document for change in objects.watch("ConfigMap", namespace, version, 0.0)]
    assert [item for item in later if item["metadata"]["name"] != "kube-root-ca.crt"] == []


def test_a_kind_that_is_not_installed_is_not_an_absent_object(
    client: Client, namespace: str
) -> None:
    for api in ("nowhere.ptahk.test/v1", "coordination.k8s.io/v1"):
        objects = KubeObjects(client, kinds=table(Kind("Odd", api, "oddities")))
        document: Document = {
            "apiVersion": api, "kind": "Odd", "metadata": {"namespace": namespace, "name": "x"},
        }  # fmt: skip
        with pytest.raises(NotServed, match="CRDs"):
            objects.get(Key("Odd", namespace, "x"))
        with pytest.raises(NotServed):
            objects.list("Odd")
        with pytest.raises(NotServed):
            objects.create(document)
        with pytest.raises(NotServed):
            list(objects.watch("Odd", None, "1", 0.0))


def test_a_namespace_that_is_not_there(objects: KubeObjects) -> None:
    with pytest.raises(Invalid, match="ptahk-nowhere"):
        objects.create(lease_of("ptahk-nowhere"))
    with pytest.raises(NotFound):
        objects.get(Key("Lease", "ptahk-nowhere", "x"))
    assert objects.list("Lease", "ptahk-nowhere") == ()


def test_who_may_not_is_told_what(control_plane: Cluster, namespace: str) -> None:
    nobody = KubeObjects(Client.load(control_plane.kubeconfig("ptahk-nobody"), None))
    with pytest.raises(Forbidden, match=r"ptahk-nobody.*cannot get.*leases"):
        nobody.get(Key("Lease", namespace, "x"))
    with pytest.raises(Forbidden, match="cannot create"):
        nobody.create(lease_of(namespace))
    with pytest.raises(Forbidden, match="cannot watch"):
        list(nobody.watch("Lease", namespace, "1", 0.0))


def test_the_store_is_the_cluster(client: Client, control_plane: Cluster) -> None:
    told = control_plane.kubectl("get", "namespace", "kube-system", "-o=jsonpath={.metadata.uid}")
    assert client.cluster_uid() == told


def test_a_status_write_touches_nothing_else(column: Column) -> None:
    objects = column.objects
    document: Document = {
        "apiVersion": column.group.api_version, "kind": "PtahSchema",
        "metadata": {"namespace": column.namespace("a"), "name": "x"}, "spec": {"n": 1},
    }  # fmt: skip
    made = objects.create(document | {"status": {"early": True}})
    assert "status" not in made
    forged = {**made, "spec": {"n": 2}, "status": {"phase": "InSync"}}
    forged["metadata"] = made["metadata"] | {"labels": {"x": "y"}, "finalizers": ["a/b"]}
    written = objects.replace_status(forged)
    assert written["spec"] == {"n": 1}
    assert not {"labels", "finalizers"} & written["metadata"].keys()
    assert written["metadata"]["generation"] == 1
