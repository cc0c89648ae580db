"""Asks for an observation, and turns what it found into a report or a declaration."""

from __future__ import annotations

from typing import Any

from ptahk.commands import _documents
from ptahk.commands._drive import failure, store_faults
from ptahk.commands._local import Session
from ptahk.commands._render import document
from ptahk.commands._text import SEVERITIES
from ptahk.engine.families.schema.results import DECLARATION_KEY
from ptahk.engine.model import reasons
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import CONFIG_MAP
from ptahk.engine.model.source import unbase64, unpack
from ptahk.engine.ports import Key
from ptahk.errors import InternalError, Refused, UsageError

DECLARATION_BYTES_MAX = 64 * 1024 * 1024


def report(session: Session, severity: str) -> dict[str, Any]:
    """The ``DriftReport`` document of a fresh observation.

    :param severity: lowest severity that counts.
    :raises PtahkError: it was refused, or could not be made.
    """
    seen = _observed(session, declaration=False)
    drift = seen["drift"]
    least = SEVERITIES.index(severity)
    items = [item for item in drift["items"] if SEVERITIES.index(item["severity"]) >= least]
    counts = dict(drift["counts"])
    if least > 0:
        # Which severities a dropped item had is not kept: what is counted is what is shown.
        counts = {}
        for item in items:
            counts[item["category"]] = counts.get(item["category"], 0) + 1
    highest = drift["highest"]
    drifted = highest is not None and SEVERITIES.index(highest) >= least
    return document(
        "DriftReport",
        resource=_documents.resource(session.wanted.document),
        engine=_documents.engine(session.wanted.document),
        observedAt=seen["time"],
        inSync=not drifted,
        digest=drift["digest"],
        highest=highest if drifted else None,
        counts=counts if drifted else {},
        items=items if drifted else [],
        itemsDropped=drift.get("itemsDropped", 0) if drifted else 0,
        scopeFingerprint=seen.get("scopeFingerprint"),
        observedFingerprint=seen.get("observedFingerprint"),
    )


def declaration(session: Session) -> str:
    """The live schema as SQL that declares it.

    :raises PtahkError: it was refused, or could not be read.
    """
    seen = _observed(session, declaration=True)
    reference = seen["declaration"]
    key = Key(CONFIG_MAP, session.wanted.key.namespace, reference["configMap"])
    with store_faults():
        stored = session.objects.get(key)
    data = unpack(unbase64(stored["binaryData"][DECLARATION_KEY]), DECLARATION_BYTES_MAX)
    text = data.decode("utf-8")
    return text if text.endswith("\n") or not text else text + "\n"


def _observed(session: Session, *, declaration: bool) -> dict[str, Any]:
    if declaration and session.wanted.kind == MIGRATION:
        raise UsageError(
            "the live schema is printed for a declared one (output=sql)",
            field="output",
            hint="ptahk observe -o sql --local --url-env NAME prints it.",
        )
    answer = session.drive.ask(session.wanted, "observe", declaration=declaration)
    if answer.exit_code != 0:
        raise failure(answer)
    seen = session.drive.status().last_observation
    refused = None if seen is None else seen.get("driftRefused")
    if refused is not None:
        raise Refused(
            refused["message"], reason=refused["reason"], hint=reasons.advice(refused["reason"])
        )
    if seen is None or ("declaration" if declaration else "drift") not in seen:
        raise InternalError("the observation left no evidence")
    return dict(seen)
