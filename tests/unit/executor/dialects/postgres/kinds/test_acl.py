"""Grants as sets: what leads from one to another, and what an object has without any."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptahk.executor.dialects.postgres.kinds import acl
from ptahk.executor.planning.model import Catalog, ObjectId

TABLE = ObjectId("table", ("public", "t"))
TARGET = acl.Target(TABLE, "TABLE public.t", "boss")

_grantees = st.sampled_from(
    [acl.OWNER, acl.PUBLIC, acl.Grantee("role", "a"), acl.Grantee("role", "B")]
)
_grants = st.dictionaries(
    st.tuples(_grantees, st.sampled_from(["SELECT", "INSERT"])), st.booleans()
)


def _sql(before: acl.Grants, after: acl.Grants) -> list[str]:
    return [step.sql for step in acl.change(TARGET, before, after)]


@given(_grants, _grants)
def test_statements_say_all_that_differs(before: acl.Grants, after: acl.Grants) -> None:
    """One statement at most for each grantee and verb; none where nothing differs."""
    steps = acl.change(TARGET, before, after)
    assert bool(steps) == (before != after)
    assert len({step.sql for step in steps}) == len(steps)
    assert all(step.severity == "privilege" and step.reason for step in steps)
    verbs = [step.kind for step in steps]
    assert verbs == sorted(verbs, reverse=True), "what is taken goes first"


def test_grant_options() -> None:
    role = acl.Grantee("role", "B")
    plain, option = {(role, "SELECT"): False}, {(role, "SELECT"): True}
    assert _sql(plain, option) == ['GRANT SELECT ON TABLE public.t TO "B" WITH GRANT OPTION']
    assert _sql(option, plain) == ['REVOKE GRANT OPTION FOR SELECT ON TABLE public.t FROM "B"']
    assert _sql(option, {}) == ['REVOKE SELECT ON TABLE public.t FROM "B"']


def test_owner_and_public_by_name() -> None:
    assert _sql({}, {(acl.OWNER, "SELECT"): False}) == ["GRANT SELECT ON TABLE public.t TO boss"]
    assert _sql({(acl.PUBLIC, "SELECT"): False}, {}) == [
        "REVOKE SELECT ON TABLE public.t FROM PUBLIC"
    ]


def test_a_new_owner_takes_over_what_it_had_been_granted() -> None:
    role = acl.Grantee("role", "a")
    before = {(role, "SELECT"): True, (acl.OWNER, "INSERT"): False}
    assert acl.owned_by(before, "a") == {(acl.OWNER, "SELECT"): True, (acl.OWNER, "INSERT"): False}


def test_maintain_came_with_17() -> None:
    assert (acl.OWNER, "MAINTAIN") not in acl.by_type("r", 160000)
    assert (acl.OWNER, "MAINTAIN") in acl.by_type("r", 170000)


def test_kinds_without_privileges() -> None:
    assert acl.default("index", 180000) is None
    assert acl.default("column", 180000) == {}


def _catalog(*entries: tuple[tuple[str, str, str], list[list[object]]]) -> Catalog:
    objects = {ObjectId("default privileges", name): {"grants": grants} for name, grants in entries}
    return Catalog(objects, frozenset(), context={"user": "me", "server_version": 150000})


def test_what_default_privileges_give() -> None:
    """A global entry replaces the built-in default; one of a schema adds to it."""
    function = ObjectId("function", ("app", "f", ""))
    whole = (("me", "", "f"), [["owner", "", "EXECUTE", False]])
    added = (("me", "app", "f"), [["role", "a", "EXECUTE", False]])
    other = (("you", "app", "f"), [["role", "b", "EXECUTE", False]])
    assert acl.created(_catalog(other), function) is None
    assert acl.created(_catalog(whole), function) == whole[1]
    assert acl.created(_catalog(whole, added), function) == [*whole[1], *added[1]]
    assert acl.created(_catalog(whole, added), ObjectId("column", ("app", "t", "c"))) is None
