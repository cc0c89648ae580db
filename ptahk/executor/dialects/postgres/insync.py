"""A database that was in sync and whose every answer is still the same is in sync.

The planner is a pure function of the answers that the server gives, the declared facts and the
policy. Where it found nothing to do, the digests of the answers are kept; where they are
the same again, there is nothing to make facts of and nothing to compare. An answer is the same, and
is not asked for, where the catalogs that it is made of hold the very row versions they held then,
in the same life of the same server; everything else is asked (C-10.2: and looked at twice).
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ptahk.executor import keeping
from ptahk.executor.dialects.postgres.inspecting import Bench, Desired, Files
from ptahk.executor.dialects.postgres.marks import LongMark, Mark, long_mark, of_plain, unchanged
from ptahk.executor.dialects.postgres.marks import mark as take_mark
from ptahk.executor.dialects.postgres.reading import Answered, Asked, Inspection, Rows, ask_all
from ptahk.executor.dialects.postgres.session import Session
from ptahk.executor.planning.result import PlanResult

_MARSHAL: Final = 2
"""A version without references to what was written before: equal values, equal bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Questions, their answers' digests, and the row versions that the answers were made of."""

    asked: Asked
    answers: Sequence[str]
    long: LongMark | None

    def beyond(self, now: LongMark) -> list[int]:
        """The questions to ask again: all, or those that the equal row versions do not answer."""
        if self.long is None or not self.long.same(now):
            return [*range(len(self.asked))]
        return [i for i, (sql, _) in enumerate(self.asked) if not now.covers(sql)]

    def same(self, rows: Rows, places: Sequence[int]) -> bool:
        """Whether the answers at these places are what they were."""
        return _digests(rows) == [self.answers[i] for i in places]


@dataclass(frozen=True, slots=True)
class InSync:
    """Nothing to do, as it was found before from the very same answers."""

    made: PlanResult
    schemas: tuple[str, ...]
    """The planning scope."""
    notes: tuple[str, ...]
    """Of the declaration."""
    kept: Kept
    mark: Mark
    """Without row versions: those do not answer every question."""

    def still(self, session: Session) -> bool:
        """The second inspection (C-10.2): all is asked again, unless nothing at all happened, or
        only the questions that equal row versions do not answer."""
        with session.snapshot():
            if unchanged(session.query, self.mark):
                return True
            return _look(session, self.kept)[0] is None


def look(bench: Bench, files: Files) -> InSync | None:
    """Whether the live database is what it was when it was last in sync.

    :returns: None where nothing is kept or the answers differ; they serve as the first reading.
    """
    name = _name(bench, files)
    if not name:
        return None
    with bench.timed("readCache"):
        found = _read(bench, name)
    if found is None:
        return None
    asked = [(str(sql), tuple(params)) for sql, params in found["asked"]]
    kept = Kept(asked, found["answers"], of_plain(found["long"]))
    schemas = tuple(found["schemas"])
    with bench.timed("readLive"), bench.session.snapshot():
        differing, mark, now = _look(bench.session, kept)
    if differing is not None:
        bench.early = Answered(bench.scope(schemas), differing, mark)
        return None
    if kept.long is None or not kept.long.same(now):
        with bench.timed("writeCache"):
            keeping.write(bench.cache_dir, name, lambda: {**found, "long": now.plain()})
    made = PlanResult((), (), tuple(found["planNotes"]), {}, found["observed"], found["desired"])
    kept = replace(kept, long=now)
    return InSync(made, schemas, tuple(found["notes"]), kept, Mark(mark.snapshot))


def _look(session: Session, kept: Kept) -> tuple[Rows | None, Mark, LongMark]:
    """Compare what the session's snapshot shows with what was kept.

    :returns: None, or every answer where one differs; and marks of what the snapshot shows.
    """
    mark = take_mark(session.query, versions=True)
    now = long_mark(session.query, mark)
    places = kept.beyond(now)
    rows = ask_all(session, [kept.asked[i] for i in places])
    if kept.same(rows, places):
        return None, mark, now
    return (rows if len(places) == len(kept.asked) else ask_all(session, kept.asked)), mark, now


def keep(bench: Bench, files: Files, declared: Desired, seen: Inspection, made: PlanResult) -> None:
    """Remember what there was to see, where there was nothing to do."""
    name = _name(bench, files)
    if not name or made.statements or made.refusals or made.differences:
        return
    answers = _digests(seen.rows)
    if answers is None:
        return
    long = _long(bench.session, seen.mark)
    found = {
        "asked": seen.asked,
        "answers": answers,
        "long": long.plain() if long is not None else None,
        "schemas": list(seen.scope.schemas),
        "notes": list(declared.notes),
        "planNotes": list(made.notes),
        "observed": made.observed_fingerprint,
        "desired": made.desired_fingerprint,
    }
    keeping.write(bench.cache_dir, name, lambda: found)


def _long(session: Session, seen: Mark) -> LongMark | None:
    """The row versions that a reading saw. None: something happened since, so they are unknown."""
    with session.snapshot():
        now = take_mark(session.query, versions=True)
        if now.snapshot != seen.snapshot and now.versions != seen.versions:
            return None
        return long_mark(session.query, now)


def _name(bench: Bench, files: Files) -> str:
    return keeping.in_sync_name(bench.facts_name(files), bench.session.identity, bench.spec)


def _read(bench: Bench, name: str) -> dict[str, Any] | None:
    body = keeping.read(bench.cache_dir, name)
    return None if body is None else dict(json.loads(body))


def _digests(rows: Rows) -> list[str] | None:
    """One for each question and its answer. None: an answer holds what has no plain form."""
    try:
        return [
            hashlib.sha256(marshal.dumps((sql, list(params), list(answer)), _MARSHAL)).hexdigest()
            for sql, params, answer in rows
        ]
    except ValueError:
        return None
