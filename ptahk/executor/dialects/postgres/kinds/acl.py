"""Grants as sets, and the statements that lead from one set to another. Pure.

An entry says who (``owner``, ``public`` or ``role``), which role, which privilege and whether it
may be granted on. The owner is a word and not a name, so that two databases whose objects belong
to different roles compare equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ....planning.model import Catalog, ObjectId, Step
from ..quote import ident


class Grantee(NamedTuple):
    """Who holds a privilege."""

    who: str
    role: str


Grants = dict[tuple[Grantee, str], bool]
"""(who, privilege) → may be granted on."""

DEFAULT_PRIVILEGES = "default privileges"
"""Key of a settled catalog's context: live default privileges that are not compared."""

OWNER = Grantee("owner", "")
PUBLIC = Grantee("public", "")

_RELATION = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
_OBJECT_TYPES = {
    "table": "r",
    "view": "r",
    "matview": "r",
    "column": "c",
    "sequence": "S",
    "function": "f",
    "procedure": "f",
    "aggregate": "f",
    "enum": "T",
    "domain": "T",
    "composite": "T",
    "range": "T",
    "schema": "n",
}


@dataclass(frozen=True, slots=True)
class Target:
    """What a GRANT names after ON, and the role that ``owner`` stands for (None: ourselves)."""

    oid: ObjectId
    text: str
    owner: str | None
    columns: str = ""
    prefix: str = ""
    """Stands before GRANT or REVOKE; ALTER DEFAULT PRIVILEGES puts its own head here."""


def by_type(object_type: str, server_version: int) -> Grants:
    """The server's ``acldefault`` for one object type letter of ``pg_default_acl``."""
    privileges: tuple[str, ...] = {
        "r": _RELATION + (("MAINTAIN",) if server_version >= 170000 else ()),
        "S": ("USAGE", "SELECT", "UPDATE"),
        "f": ("EXECUTE",),
        "T": ("USAGE",),
        "n": ("USAGE", "CREATE"),
        "L": ("SELECT", "UPDATE"),
    }.get(object_type, ())
    grants = {(OWNER, privilege): False for privilege in privileges}
    if object_type in ("f", "T"):
        grants[(PUBLIC, privileges[0])] = False
    return grants


def default(kind: str, server_version: int) -> Grants | None:
    """What an object of ``kind`` has without any GRANT; None where it has no privileges."""
    letter = _OBJECT_TYPES.get(kind)
    return None if letter is None else by_type(letter, server_version)


def entries(acl: Iterable[Sequence[Any]] | None, initial: Grants) -> Grants:
    """Facts as a set; ``None`` stands for the default."""
    if acl is None:
        return dict(initial)
    grants: Grants = {}
    for who, role, privilege, grantable in acl:
        key = (Grantee(str(who), str(role)), str(privilege))
        grants[key] = grants.get(key, False) or bool(grantable)
    return grants


def owned_by(grants: Grants, role: str) -> Grants:
    """``grants`` after ALTER … OWNER TO ``role``: what the role had been granted is merged."""
    merged: Grants = {}
    for (grantee, privilege), grantable in grants.items():
        holder = OWNER if grantee == Grantee("role", role) else grantee
        merged[(holder, privilege)] = merged.get((holder, privilege), False) or grantable
    return merged


def created(catalog: Catalog, oid: ObjectId) -> list[list[Any]] | None:
    """The ``acl`` fact of an object that ``catalog``'s user creates there without any GRANT.

    None: the built-in default, or a kind without privileges.
    """
    letter = _OBJECT_TYPES.get(oid.kind)
    user = catalog.context.get("user")
    if letter is None or letter == "c" or user is None:
        return None
    initial = by_type(letter, catalog.context["server_version"])
    grants = initial
    known = catalog.context.get(DEFAULT_PRIVILEGES, catalog.objects)
    whole = known.get(ObjectId("default privileges", (user, "", letter)))
    if whole is not None:
        grants = entries(whole["grants"], {})
    added = known.get(ObjectId("default privileges", (user, oid.name[0], letter)))
    if added is not None:
        grants = {**grants, **entries(added["grants"], {})}
    if grants == initial:
        return None
    return sorted([who, role, what, option] for ((who, role), what), option in grants.items())


def change(target: Target, before: Grants, after: Grants) -> list[Step]:
    """Statements from ``before`` to ``after``: revocations first, one for each grantee."""
    revoked: dict[Grantee, list[str]] = {}
    option_revoked: dict[Grantee, list[str]] = {}
    granted: dict[tuple[Grantee, bool], list[str]] = {}
    for (grantee, privilege), grantable in sorted(before.items()):
        kept = after.get((grantee, privilege))
        if kept is None:
            revoked.setdefault(grantee, []).append(privilege)
        elif grantable and not kept:
            option_revoked.setdefault(grantee, []).append(privilege)
    for (grantee, privilege), grantable in sorted(after.items()):
        had = before.get((grantee, privilege))
        if had is None or (grantable and not had):
            granted.setdefault((grantee, grantable), []).append(privilege)
    steps = []
    for grantee, privileges in revoked.items():
        what = _privileges(target, privileges)
        sql = f"REVOKE {what} ON {target.text} FROM {_name(target, grantee)}"
        steps.append(_step(target, sql, "Revoke"))
    for grantee, privileges in option_revoked.items():
        what = "GRANT OPTION FOR " + _privileges(target, privileges)
        sql = f"REVOKE {what} ON {target.text} FROM {_name(target, grantee)}"
        steps.append(_step(target, sql, "Revoke"))
    for (grantee, grantable), privileges in granted.items():
        option = " WITH GRANT OPTION" if grantable else ""
        what = _privileges(target, privileges)
        sql = f"GRANT {what} ON {target.text} TO {_name(target, grantee)}{option}"
        steps.append(_step(target, sql, "Grant"))
    return steps


def _privileges(target: Target, privileges: Sequence[str]) -> str:
    return ", ".join(privilege + target.columns for privilege in privileges)


def _name(target: Target, grantee: Grantee) -> str:
    if grantee == PUBLIC:
        return "PUBLIC"
    if grantee == OWNER:
        return "CURRENT_USER" if target.owner is None else ident(target.owner)
    return ident(grantee.role)


def _step(target: Target, sql: str, verb: str) -> Step:
    what = "gives" if verb == "Grant" else "takes"
    preposition = "on" if verb == "Grant" else "away on"
    reason = f"{what} rights {preposition} {target.oid}"
    kind = verb if not target.prefix else "AlterDefaultPrivileges"
    return Step(target.prefix + sql, kind, target.oid, "privilege", "", reason)
