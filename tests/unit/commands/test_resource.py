"""The document of a local resource."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from ptahk.commands import _resource as resource
from ptahk.commands._options import Place, PolicyOptions, Source
from ptahk.errors import UsageError
from ptahk.wire import digest, dsn

IDENTITY = dsn.identify("postgresql://u:p@db.example/orders", engine="postgresql")
FILES = (("schema.sql", "CREATE TABLE t ();"),)


def wanted(
    place: Place | None = None,
    source: Source | None = None,
    policy: PolicyOptions | None = None,
    **extra: Any,
) -> resource.Wanted:
    given: dict[str, Any] = {"ref": None, "identity": IDENTITY, "files": FILES, **extra}
    return resource.wanted(place or Place(), source or Source(), policy or PolicyOptions(), **given)


def test_a_run_without_a_key_names_no_realm() -> None:
    found = wanted()
    assert found.spec.target.coordination_key == "local:db.example:5432/orders"
    assert not found.spec.target.explicit_key
    realm = digest.coordination_digest("postgres", "local:db.example:5432/orders")
    assert found.uid == digest.local_resource_uid(realm, "PtahSchema", "default")
    assert found.key.name == "default"


def test_the_uid_depends_on_key_and_name_alone() -> None:
    place = Place(key="production/orders", name="orders")
    first = wanted(place)
    other = dsn.identify("postgresql://x@other/db", engine="postgresql")
    again = wanted(place, identity=other, files=(("b.sql", "SELECT 1"),))
    assert first.uid == again.uid and first.key == again.key
    assert first.spec.target.explicit_key
    assert wanted(Place(key="production/orders")).uid != first.uid
    assert wanted(Place(key="k", name="orders")).key != first.key


def test_options_are_the_fields_of_the_same_names() -> None:
    policy = PolicyOptions(
        allow_destructive=True,
        protect=["public.a,public.b"],
        exclude=["public.x*"],
        schemas=["one", "two"],
        lock_timeout="1.5s",
        coordination_timeout="2m",
        rename=["public.a=public.b"],
        privileges="Managed",
        partitions="Managed",
        transaction_mode="none",
        deadline=60,
    )
    spec = wanted(policy=policy, source=Source(dev_template="t")).spec
    assert spec.policy.allow_destructive
    assert spec.policy.protected_tables == ("public.a", "public.b")
    assert spec.policy.exclude == ("public.x*",)
    assert spec.policy.schemas == ("one", "two")
    assert (spec.policy.lock_timeout, spec.policy.coordination_timeout) == (1.5, 120.0)
    assert (spec.policy.renames[0].old, spec.policy.renames[0].new) == ("public.a", "public.b")
    assert (spec.policy.privileges, spec.policy.partitions) == ("Managed", "Managed")
    assert spec.policy.transaction_mode == "none"
    assert spec.execution.active_deadline_seconds == 60
    assert spec.dev.template == "t"


def test_options_override_a_manifest() -> None:
    manifest = {
        "metadata": {"name": "orders"},
        "spec": {
            "target": {
                "engine": "postgres",
                "coordinationKey": "production/orders",
                "urlFrom": {"name": "secret"},
            },
            "policy": {"exclude": ["a"], "lockTimeout": "9s"},
        },
    }
    found = wanted(policy=PolicyOptions(lock_timeout="1s"), manifest=manifest)
    assert found.key.name == "orders"
    assert found.spec.target.url_from is None
    assert found.spec.target.coordination_key == "production/orders"
    assert found.spec.policy.exclude == ("a",)
    assert found.spec.policy.lock_timeout == 1.0
    assert manifest["spec"]["target"]["urlFrom"] == {"name": "secret"}, "left as it was"


def test_the_bundle_holds_the_declaration() -> None:
    found = wanted()
    assert found.bundle is not None and found.spec.desired is not None
    assert found.spec.desired.config_map_ref is not None
    assert found.bundle["metadata"]["name"] == found.spec.desired.config_map_ref.name
    data = base64.b64decode(found.bundle["binaryData"]["source.json.gz"])
    assert json.loads(gzip.decompress(data)) == {
        "files": [{"name": "schema.sql", "text": "CREATE TABLE t ();"}]
    }
    assert found.bundle == wanted().bundle
    assert found.bundle["immutable"] is True


@pytest.mark.parametrize(
    ("place", "source", "policy", "reason"),
    [
        (Place(key="local:x"), Source(), PolicyOptions(), "InvalidCoordinationKey"),
        (Place(key=""), Source(), PolicyOptions(), "InvalidCoordinationKey"),
        (Place(), Source(engine="oracle"), PolicyOptions(), "UnknownEngine"),
        (Place(), Source(), PolicyOptions(lock_timeout="x"), "InvalidDuration"),
        (Place(), Source(), PolicyOptions(rename=["x"]), "InvalidInput"),
    ],
)
def test_what_is_refused(place: Place, source: Source, policy: PolicyOptions, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        wanted(place, source, policy)
    assert caught.value.reason == reason


def test_an_invalid_manifest_names_the_field() -> None:
    manifest = {"spec": {"target": {"coordinationKey": "k"}, "policy": {"apply": "Sometimes"}}}
    with pytest.raises(UsageError, match=r"spec\.policy\.apply") as caught:
        wanted(manifest=manifest)
    assert caught.value.field == "spec.policy.apply"
