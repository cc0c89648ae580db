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
from ptahk.executor.dialects.mysql import settings
from ptahk.executor.dialects.mysql.catalog import KNOWN, fingerprint
from ptahk.executor.dialects.mysql.session import Session
from ptahk.executor.planning.model import Catalog, ObjectId
from ptahk.wire import canonical
from ptahk.wire.jobspec import JobSpec

_HERE: Final = Path(__file__).parent
_DECIDES: Final = (
    *settings.RUN, "lower_case_table_names", "version", "version_comment", "innodb_page_size",
    "innodb_default_row_format", "innodb_file_per_table", "restrict_fk_on_non_standard_key",
    "log_bin_trust_function_creators",
)  # fmt: skip
"""Variables of the session where a declaration is loaded. What one make does not have is absent."""


def key(session: Session, shop: Session, spec: JobSpec, source: Sequence[tuple[str, str]]) -> str:
    """64 hex digits over whatever the desired facts depend on.

    Declaration, server, its settings, the account that loads, the target's name and defaults,
    scope options, and the code that reads them.

    :param shop: the session where a scratch database would be made.
    """
    names = ", ".join(f"'{name}'" for name in sorted(_DECIDES))
    found = shop.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    defaults = session.query(
        "SELECT default_character_set_name, default_collation_name"
        " FROM information_schema.schemata WHERE schema_name = %s",
        (session.database,),
    )
    parts = [
        keeping.FORMAT, ptahk.__version__, keeping.code_digest((_HERE, _HERE / "kinds")),
        [list(pair) for pair in source], session.database, shop.identity.account,
        sorted([str(name), str(value)] for name, value in found),
        [str(value) for row in defaults for value in row], sorted(spec.policy.exclude),
    ]  # fmt: skip
    return hashlib.sha256(canonical.encode(parts)).hexdigest()


def load(folder: str | None, name: str) -> tuple[Catalog, list[str]] | None:
    """The kept catalog and the declaration's notes; None where there is none that is sound."""
    body = keeping.read(folder, f"desired-{name}")
    try:
        return None if body is None else _decode(json.loads(body))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def store(folder: str | None, name: str, catalog: Catalog, notes: Sequence[str]) -> None:
    """Keep a catalog; best effort. A reader sees a whole file or none."""
    keeping.write(folder, f"desired-{name}", lambda: _encode(catalog, notes))


def _encode(catalog: Catalog, notes: Sequence[str]) -> Mapping[str, Any]:
    return {
        "objects": [[oid.kind, list(oid.name), facts] for oid, facts in catalog.objects.items()],
        "fingerprint": fingerprint(catalog),
        "context": {name: value for name, value in catalog.context.items() if name != KNOWN},
        "notes": list(notes),
    }


def _decode(value: dict[str, Any]) -> tuple[Catalog, list[str]]:
    objects = {ObjectId(kind, tuple(name)): facts for kind, name, facts in value["objects"]}
    catalog = Catalog(objects, frozenset(), {}, value["context"])
    catalog.digests["objects"] = str(value["fingerprint"])
    return catalog, value["notes"]
