"""What baseline, repair, acknowledge and ``migrate status`` do with a migration directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ptahk.commands import (
    _apply,
    _cluster,
    _documents,
    _inputs,
    _job,
    _local,
    _lookup,
    _resource,
    _wiring,
)
from ptahk.commands._drive import read_status
from ptahk.commands._local import Session, Told
from ptahk.commands._options import Cluster, Common, Place, is_local, resource_kind
from ptahk.commands._render import Messages, document
from ptahk.commands._text import Document, Line, count, table, visible
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SOURCE_KEY
from ptahk.engine.model.source import unbase64
from ptahk.errors import Refused, UsageError
from ptahk.migrations.findings import TITLES, WARNINGS
from ptahk.migrations.model import REPEATABLE


def told_of_migration(told: Told, change: Mapping[str, str]) -> Told:
    """The same command line, about a migration, with what is to be recorded.

    :raises UsageError: REF names a schema.
    """
    kind = resource_kind(told.ref)
    if kind not in (None, MIGRATION):
        raise UsageError(f"only a migration has a history (REF={told.ref})", field="ref")
    name = told.ref or told.place.name
    ref = told.ref if kind else f"migration/{name or _resource.DEFAULT_NAME}"
    person = _inputs.os_user() or ""
    return replace(told, ref=ref, change={**change, "person": person})


@contextlib.contextmanager
def _opened(told: Told, cluster: Cluster) -> Iterator[Session]:
    """A session; a local one without ``--migrations`` takes the directory that it was given last.

    :raises UsageError: there is none.
    """
    if not is_local(told.place, told.source, told.directory):
        with _cluster.session(told, cluster) as session:
            yield session
        return
    found, url = _local.interpret(told)
    with _local.session(told, found, url, "required") as session:
        stored = session.drive.resource()
        if found.spec.declared is None and stored is not None:
            named = told.directory.history_table
            table = {} if named is None else {"historyTable": named}
            kept = {**found.document, "spec": {**stored["spec"], **table}}
            found = replace(found, document=kept, spec=_resource.checked(kept))
        _local.require_source(found)
        yield replace(session, wanted=found)


def record(told: Told, cluster: Cluster, change: Mapping[str, str]) -> dict[str, Any]:
    """Plan rows, show them, and record them: the person's command is the approval (C-11.17).

    :returns: the ``ApplyResult`` document.
    """
    meant = told_of_migration(told, change)
    with _opened(meant, cluster) as session:
        made = _local.make_plan(session)
        return _apply.apply_plan(session, made, _apply.Consent(automatic=True))


def settle(told: Told, cluster: Cluster, operation: str, word: str, reason: str) -> dict[str, Any]:
    """A person's word on a run that stopped within a file (C-11.14)."""
    change = {"action": "settle", "operation": operation, "as": word, "reason": reason}
    done = record(told, cluster, change)
    return document(
        "Acknowledgement",
        resource=done["resource"],
        what=word,
        reason=reason,
        person=done["approver"] or "",
        nextStep="Plan again: what is left of the file, and what follows it, is pending."
        if word != "resolved"
        else "Plan again: what follows the file is pending.",
    )


def status(told: Told) -> dict[str, Any]:
    """Compare a directory with the database. :returns: the ``MigrationStatus`` document."""
    directory = told.directory.migrations
    assert directory is not None, "the command's argument"
    found, url = _local.interpret(told_of_migration(told, {}))
    messages = Messages(told.common)
    assert found.bundle is not None, "it holds the directory"
    data = unbase64(found.bundle["binaryData"][SOURCE_KEY])
    state = _inputs.state_directory(told.place)
    with _wiring.local_world(state, "preferred", _local.Progress(messages), url=url) as world:
        spec = _job.reading_history(world, found.document, data)
        result = _job.run(
            world,
            found.document,
            spec,
            lambda result: "entries" in result.get("history", {}),
            source=data,
        )
    return _status_document(directory, found.document, result)


def status_of_resource(common: Common, place: Place, cluster: Cluster, ref: str) -> dict[str, Any]:
    """What the last reading of a stored resource's history found, here or in a cluster.

    :raises UsageError: there is no such resource.
    :raises Refused: its history was not read yet.
    """
    if is_local(place):
        state = _inputs.state_directory(place)
        progress = _local.Progress(Messages(common))
        with _wiring.local_world(state, "unless absent", progress) as world:
            owner = _lookup.one_resource(world, place, ref)
    else:
        with _wiring.cluster_reader(cluster.kubeconfig, cluster.context) as reader:
            owner = _cluster.one_resource(reader, cluster, place, ref)
    seen = read_status(owner).last_observation
    if seen is None:
        raise Refused(
            f"no history was read yet (REF={ref})", reason="NothingToRecord", hint="Plan first."
        )
    known = dict.fromkeys(("file", "line", "column", "hint"))
    findings = [
        {**known, "title": TITLES.get(item["number"], ""), "severity": _severity(item), **item}
        for item in seen["findings"]
    ]
    return document(
        "MigrationStatus",
        directory="",
        engine=_documents.engine(owner),
        stream=owner["spec"].get("stream", "default"),
        **{key: seen[key] for key in
           ("format", "verdict", "reason", "message", "nextStep", "fingerprint")},
        findings=findings,
        files=[],
        summary={
            "files": seen["applied"] + seen["pending"],
            "applied": seen["applied"],
            "pending": seen["pending"],
        },
    )  # fmt: skip


def _severity(item: Mapping[str, Any]) -> str:
    return "warning" if item["number"] in WARNINGS else "error"


def _status_document(
    directory: str, owner: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    history = result["history"]
    return document(
        "MigrationStatus",
        directory=directory,
        engine=_documents.engine(dict(owner)),
        stream=owner["spec"].get("stream", "default"),
        format=history["format"],
        verdict=history["verdict"],
        reason=history["reason"],
        message=history["message"],
        nextStep=history["nextStep"],
        fingerprint=history["fingerprint"],
        findings=history["findings"],
        files=list(_files(history)),
        summary={
            "files": len(history["files"]),
            "applied": history["applied"],
            "pending": history["pending"],
        },
    )


def _files(history: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A file a line, in order, then rows whose file is gone."""
    rows = {entry["version"]: entry for entry in history["entries"]}
    for file in history["files"]:
        prefix = REPEATABLE if file["kind"] == "repeatable" else ""
        row = rows.pop(prefix + file["version"], None)
        yield _file(file["version"], file["file"], file["pending"], file["statements"], row)
    for version, row in rows.items():
        yield _file(version, row["file"], False, row["total"], row)


def _file(
    version: str, name: str, pending: bool, total: int, row: Mapping[str, Any] | None
) -> dict[str, Any]:
    told = row or {}
    state = told.get("state", "pending" if pending else "not applied")
    done = state == "applied"
    return {
        "version": version,
        "file": name,
        "state": state,
        "kind": told.get("kind"),
        "appliedAt": told.get("finishedAt") if done else None,
        "durationMs": told.get("durationMs"),
        "verified": told.get("verified") if done else None,
        "statements": total,
        "statementsDone": told.get("applied", 0),
        "operationId": told.get("claim"),
        "error": told.get("error"),
        "errorLine": told.get("errorLine"),
        "pending": pending,
    }


def is_clean(value: Document) -> bool:
    """Nothing is pending and nothing blocks."""
    return value["reason"] is None and not value["summary"]["pending"]


def status_lines(value: Document) -> Iterator[Line]:
    """A file a line, then the findings, the verdict and what to do."""
    rows = table(
        ("version", "state", "done", "applied at", "ms", "file"),
        (
            (
                each["version"],
                each["state"] + ("" if each["verified"] is not False else " (unverified)"),
                f"{each['statementsDone']}/{each['statements']}",
                each["appliedAt"] or "",
                "" if each["durationMs"] is None else str(each["durationMs"]),
                each["file"],
            )
            for each in value["files"]
        ),
    )
    yield from rows if value["files"] else ()
    for each in value["files"]:
        if each["error"] and each["state"] != "applied":
            line = f":{each['errorLine']}" if each["errorLine"] else ""
            yield visible(f"{each['file']}{line}: {each['error']}"), "bad"
    for each in value["findings"]:
        hint = f" ({each['hint']})" if each["hint"] else ""
        text = f"{each['file'] or 'directory'}: {each['number']} {each['message']}{hint}"
        yield visible(text), "bad" if each["severity"] == "error" else "warning"
    summary = value["summary"]
    text = f"{count(summary['files'], 'file')}, {summary['pending']} pending: {value['verdict']}"
    yield text, "good" if is_clean(value) else "warning"
    if value["message"] and value["reason"]:
        yield visible(f"{value['reason']}: {value['message']}"), "bad"
    yield visible(f"next: {value['nextStep']}"), "bold"
