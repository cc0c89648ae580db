"""Desired facts kept between runs, so that an unchanged declaration costs no load (planner.md).

The key covers everything that decides how the server reads the declaration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import ptahk
from ptahk.executor import keeping
from ptahk.executor.dialects.postgres.catalog import fingerprint
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.planning.model import Catalog, ObjectId
from ptahk.wire import canonical
from ptahk.wire.jobspec import JobSpec

_HERE: Final = Path(__file__).parent
_ATTACHED: Final = "attached"


def key(session: Session, spec: JobSpec, source: Sequence[tuple[str, str]]) -> str:
    """64 hex digits over whatever the desired facts depend on.

    Declaration, server version, database settings, extensions on offer, roles, the role that
    loads, template, scope options, and the code that reads them.
    """
    row = session.query(
        "SELECT version(), current_user, d.encoding, d.datcollate, d.datctype,"
        " (SELECT md5(string_agg(name || ' ' || version, ',' ORDER BY name, version))"
        "   FROM pg_catalog.pg_available_extension_versions),"
        " (SELECT md5(string_agg(concat_ws(' ', rolname, rolsuper), ',' ORDER BY rolname))"
        "   FROM pg_catalog.pg_roles),"
        " (SELECT md5(string_agg(r.rolname || ' ' || m.rolname, ',' ORDER BY 1))"
        "   FROM pg_catalog.pg_auth_members a JOIN pg_catalog.pg_roles r ON r.oid = a.roleid"
        "   JOIN pg_catalog.pg_roles m ON m.oid = a.member)"
        " FROM pg_catalog.pg_database d WHERE d.datname = current_database()"
    )[0]
    policy = spec.policy
    parts = [
        keeping.FORMAT, ptahk.__version__, keeping.code_digest((_HERE, _HERE / "kinds")),
        [list(pair) for pair in source], [str(value) for value in row], session.search_path,
        policy.dev_template, sorted(policy.schemas), sorted(policy.exclude),
    ]  # fmt: skip
    return hashlib.sha256(canonical.encode(parts)).hexdigest()


def load(folder: str | None, name: str) -> tuple[Catalog, dict[str, Any]] | None:
    """The kept catalog and what was noted with it; None where there is none that is sound."""
    body = keeping.read(folder, f"desired-{name}")
    try:
        return None if body is None else _decode(json.loads(body))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def store(folder: str | None, name: str, catalog: Catalog, notes: Mapping[str, Any]) -> None:
    """Keep a catalog; best effort. A reader sees a whole file or none."""
    keeping.write(folder, f"desired-{name}", lambda: _encode(catalog, notes))


def _encode(catalog: Catalog, notes: Mapping[str, Any]) -> dict[str, Any]:
    index = {oid: number for number, oid in enumerate(catalog.objects)}
    context = {name: value for name, value in catalog.context.items() if name != _ATTACHED}
    attached = catalog.context.get(_ATTACHED, {})
    return {
        "objects": [[oid.kind, list(oid.name), facts] for oid, facts in catalog.objects.items()],
        "depends": [[index[a], index[b]] for a, b in catalog.depends],
        "fingerprint": fingerprint(catalog),
        "context": context,
        _ATTACHED: [[oid.kind, list(oid.name), facts] for oid, facts in attached.items()],
        "notes": dict(notes),
    }


def _decode(value: dict[str, Any]) -> tuple[Catalog, dict[str, Any]]:
    oids = [ObjectId(kind, tuple(name)) for kind, name, _ in value["objects"]]
    facts = [item[2] for item in value["objects"]]
    catalog = Catalog(
        objects=dict(zip(oids, facts, strict=True)),
        depends=frozenset((oids[a], oids[b]) for a, b in value["depends"]),
        context={
            **value["context"],
            _ATTACHED: {ObjectId(kind, tuple(name)): item for kind, name, item in value[_ATTACHED]},
        },
    )
    catalog.digests["objects"] = str(value["fingerprint"])
    return catalog, value["notes"]
