"""A database that was in sync and whose every answer is still the same is in sync.

The planner is a pure function of the answers that the server gives, the declared facts and the
policy. Where it found nothing to do, the answers' digest is kept with what it found; where they are
the same again, there is nothing to make facts of and nothing to compare (C-10.2: the server is
still asked everything, and looked at twice).
"""

from __future__ import annotations

import hashlib
import json
import marshal
from dataclasses import dataclass
from typing import Any, Final

from ptahk.executor import keeping
from ptahk.executor.dialects.postgres.inspecting import Bench, Desired, Files
from ptahk.executor.dialects.postgres.marks import Mark, unchanged
from ptahk.executor.dialects.postgres.reading import Answered, Asked, Inspection, Rows, ask_all
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.planning.result import PlanResult

_MARSHAL: Final = 2
"""A version without references to what was written before: equal values, equal bytes."""


@dataclass(frozen=True, slots=True)
class InSync:
    """Nothing to do, as it was found before from the very same answers."""

    made: PlanResult
    schemas: tuple[str, ...]
    """The planning scope."""
    notes: tuple[str, ...]
    """Of the declaration."""
    asked: Asked
    answers: str
    mark: Mark

    def still(self, session: Session) -> bool:
        """The second inspection (C-10.2): all is asked again, unless nothing at all happened."""
        with session.snapshot():
            if unchanged(session.query, self.mark):
                return True
        rows, _ = ask_all(session, self.asked)
        return _digest(rows) == self.answers


def look(bench: Bench, files: Files) -> InSync | None:
    """Ask the live database what was asked when it was last in sync.

    :returns: None where nothing is kept or the answers differ; they serve as the first reading.
    """
    name = _name(bench, files)
    if not name:
        return None
    with bench.timed("readCache"):
        kept = _kept(bench, name)
    if kept is None:
        return None
    asked = [(str(sql), tuple(params)) for sql, params in kept["asked"]]
    with bench.timed("readLive"):
        rows, mark = ask_all(bench.session, asked)
        same = _digest(rows) == kept["answers"]
    schemas = tuple(kept["schemas"])
    if not same:
        bench.early = Answered(bench.scope(schemas), rows, mark)
        return None
    made = PlanResult((), (), tuple(kept["planNotes"]), {}, kept["observed"], kept["desired"])
    return InSync(made, schemas, tuple(kept["notes"]), asked, kept["answers"], mark)


def keep(bench: Bench, files: Files, declared: Desired, seen: Inspection, made: PlanResult) -> None:
    """Remember what there was to see, where there was nothing to do."""
    name = _name(bench, files)
    if not name or made.statements or made.refusals or made.differences:
        return
    answers = _digest(seen.rows)
    if answers is None:
        return
    found = {
        "asked": seen.asked,
        "answers": answers,
        "schemas": list(seen.scope.schemas),
        "notes": list(declared.notes),
        "planNotes": list(made.notes),
        "observed": made.observed_fingerprint,
        "desired": made.desired_fingerprint,
    }
    keeping.write(bench.cache_dir, name, lambda: found)


def _name(bench: Bench, files: Files) -> str:
    return keeping.in_sync_name(bench.facts_name(files), bench.session.identity, bench.spec)


def _kept(bench: Bench, name: str) -> dict[str, Any] | None:
    body = keeping.read(bench.cache_dir, name)
    return None if body is None else dict(json.loads(body))


def _digest(rows: Rows) -> str | None:
    """Over questions and answers. None: an answer holds what has no plain form."""
    plain = [(sql, list(params), list(answer)) for sql, params, answer in rows]
    try:
        return hashlib.sha256(marshal.dumps(plain, _MARSHAL)).hexdigest()
    except ValueError:
        return None
