"""A database that was in sync and whose every answer is still the same is in sync.

As on PostgreSQL: where there was nothing to do, the digest of what the server answered is kept with
what was found; where the answers are the same again, nothing is made of them (C-10.2: the server is
still asked everything, and looked at twice).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ptahk.executor import keeping
from ptahk.executor.dialects.mysql.inspecting import Bench, Desired, Files
from ptahk.executor.dialects.mysql.reading import Asked, Inspection, ask_all, digest_of
from ptahk.executor.planning.result import PlanResult


@dataclass(frozen=True, slots=True)
class InSync:
    """Nothing to do, as it was found before from the very same answers."""

    made: PlanResult
    notes: tuple[str, ...]
    """Of the declaration."""
    asked: Asked
    answers: str

    def still(self, bench: Bench) -> bool:
        """Ask everything again, and see whether it is answered the same (C-10.2)."""
        with bench.timed("readLive"):
            rows = ask_all(bench.session, self.asked)
            return rows is not None and digest_of(self.asked, rows) == self.answers


def look(bench: Bench, files: Files) -> InSync | None:
    """What was kept, where the live database answers as it did then; else None."""
    name = _name(bench, files)
    if not name:
        return None
    with bench.timed("readCache"):
        body = keeping.read(bench.cache_dir, name)
        if body is None:
            return None
        kept = json.loads(body)
    made = PlanResult((), (), tuple(kept["planNotes"]), {}, kept["observed"], kept["desired"])
    asked = [(str(sql), tuple(params)) for sql, params in kept["asked"]]
    known = InSync(made, tuple(kept["notes"]), asked, kept["answers"])
    return known if known.still(bench) else None


def keep(bench: Bench, files: Files, declared: Desired, seen: Inspection, made: PlanResult) -> None:
    """Remember what there was to see, where there was nothing to do."""
    name = _name(bench, files)
    if not name or made.statements or made.refusals or made.differences:
        return
    asked, answers = seen.lasting()
    found = {
        "asked": [[sql, list(params)] for sql, params in asked],
        "answers": answers,
        "notes": list(declared.notes),
        "planNotes": list(made.notes),
        "observed": made.observed_fingerprint,
        "desired": made.desired_fingerprint,
    }
    with bench.timed("writeCache"):
        keeping.write(bench.cache_dir, name, lambda: found)


def _name(bench: Bench, files: Files) -> str:
    return keeping.in_sync_name(bench.facts_name(files), bench.session.identity, bench.spec)
