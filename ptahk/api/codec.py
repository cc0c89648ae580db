"""Manifests → resources: PtahSchema, PtahMigration and PtahApproval, strictly (C-2.3).

The model's own reader decides what a spec may hold, so there is no second set of models; here
are the document's head, its metadata, and errors that name file, line, field and rule.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ptahk.api.documents import Read, read_documents
from ptahk.engine.model.bounds import SUBDOMAIN
from ptahk.engine.model.fields import FieldError, read
from ptahk.engine.model.migration import MIGRATION, MigrationSpec, parse_migration_spec
from ptahk.engine.model.plan import ApprovalSpec
from ptahk.engine.model.resource import (
    API_VERSION,
    APPROVAL,
    IMPLICIT_KEY,
    SCHEMA,
    SchemaSpec,
    parse_spec,
)
from ptahk.errors import UsageError

GROUP: Final = "ptahk.dev/"
NAME_LENGTH_MAX: Final = 253
TEXT_LENGTH_MAX: Final = 4096
"""Longest text of one field, ``spec.desired.inline`` apart."""
ANNOTATIONS_BYTES_MAX: Final = 256 * 1024

Spec = SchemaSpec | MigrationSpec | ApprovalSpec

_NAME = re.compile(rf"{SUBDOMAIN}\Z")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?\Z")
_LABEL_KEY = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z"
)

_METADATA = frozenset(
    {
        "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences",
        # What `kubectl get -o yaml` adds; read past, never believed.
        "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "managedFields", "selfLink", "generateName",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Manifest:
    """One resource as its manifest declares it."""

    kind: str
    namespace: str | None
    """None where the manifest leaves it open."""
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Spec
    """Checked and typed."""
    document: Mapping[str, Any]
    """The spec as written, with apiVersion, kind, name, namespace, labels and annotations."""
    where: str
    """``FILE:LINE``, for messages."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """What a file holds."""

    found: tuple[Manifest, ...]
    others: int
    """Documents of other API groups, which are not ours to read."""


def read_manifests(text: bytes, source: str, *, key_needed: bool = True) -> Manifests:
    """Every resource of ours in a YAML stream or JSON text; a ``List`` is unfolded.

    :param source: the file's name, or ``-``, for messages.
    :param key_needed: refuse a target without ``coordinationKey``; a local command may bring
        the key itself (C-14.5). Without one the typed spec has the key ``local:``.
    :raises UsageError: names file, line, field and rule; never a value that could be a secret.
    """
    found: list[Manifest] = []
    others = 0
    names: dict[tuple[str, str | None, str], str] = {}
    for item, path, read_from in _unfolded(read_documents(text, source)):
        where = f"{source}:{read_from.lines.get(path, read_from.line)}"
        try:
            manifest = _manifest(item, where, key_needed)
        except FieldError as error:
            raise _invalid(source, path, read_from, error) from None
        if manifest is None:
            others += 1
            continue
        name = (manifest.kind, manifest.namespace, manifest.name)
        if name in names:
            raise UsageError(
                f"{manifest.kind} {manifest.name} stands twice ({names[name]}, {where})",
                reason="InvalidManifest",
                field="-f",
            )
        names[name] = where
        found.append(manifest)
    return Manifests(tuple(found), others)


def _unfolded(documents: tuple[Read, ...]) -> list[tuple[Any, str, Read]]:
    """Each document with its path inside the text; the items of a List one by one."""
    out: list[tuple[Any, str, Read]] = []
    for document in documents:
        value = document.value
        if isinstance(value, dict) and value.get("kind") == "List":
            items = value.get("items")
            if isinstance(items, list):
                out += [(item, f".items[{n}]", document) for n, item in enumerate(items)]
                continue
        out.append((value, "", document))
    return out


def _invalid(source: str, prefix: str, document: Read, error: FieldError) -> UsageError:
    path = prefix + error.path
    place = path
    while place and place not in document.lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    line = document.lines.get(place, document.line)
    return UsageError(
        f"manifest is not valid ({source}:{line}, {path}): {error.rule}",
        reason="InvalidManifest",
        field=path,
    )


def _manifest(value: Any, where: str, key_needed: bool) -> Manifest | None:
    if type(value) is not dict:
        raise FieldError("document", "must be an object")
    version, kind = value.get("apiVersion"), value.get("kind")
    for name, given in (("apiVersion", version), ("kind", kind)):
        if type(given) is not str or not given:
            raise FieldError(f".{name}", "required")
    assert isinstance(version, str) and isinstance(kind, str), "checked above"
    if not version.startswith(GROUP):
        return None
    if version != API_VERSION:
        raise FieldError(".apiVersion", f"must be {API_VERSION}")
    if kind not in _KINDS:
        raise FieldError(".kind", f"must be one of {', '.join(sorted(_KINDS))}")
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            raise FieldError(f".{key[:64]}", "unknown field")
    metadata = _metadata(value.get("metadata"))
    if "spec" not in value:
        raise FieldError(".spec", "required")
    _bound_texts(value["spec"], ".spec")
    spec = _KINDS[kind](_with_key(value["spec"], key_needed))
    document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": value["spec"]}
    return Manifest(
        kind=kind,
        namespace=metadata.get("namespace"),
        name=metadata["name"],
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
        spec=spec,
        document=document,
        where=where,
    )


def _with_key(spec: Any, key_needed: bool) -> Any:
    target = spec.get("target") if type(spec) is dict else None
    if type(target) is not dict:
        return spec
    key = target.get("coordinationKey")
    if type(key) is str and key.startswith(IMPLICIT_KEY):
        rule = f"must not begin with {IMPLICIT_KEY}, which names no realm"
        raise FieldError(".spec.target.coordinationKey", rule)
    if key_needed or "coordinationKey" in target:
        return spec
    return {**spec, "target": {**target, "coordinationKey": IMPLICIT_KEY}}


def _metadata(value: Any) -> dict[str, Any]:
    """Name, namespace, labels and annotations of a manifest; the rest is the server's."""
    if type(value) is not dict:
        raise FieldError(".metadata", "must be an object")
    for key in value:
        if key not in _METADATA:
            raise FieldError(f".metadata.{key[:64]}", "unknown field")
    out: dict[str, Any] = {"name": _matching(value.get("name"), _NAME, ".metadata.name")}
    if value.get("namespace") is not None:
        out["namespace"] = _matching(value["namespace"], _NAMESPACE, ".metadata.namespace")
    labels = _texts(value.get("labels"), ".metadata.labels")
    if not all(_LABEL_VALUE.match(item) for item in labels.values()):
        raise FieldError(".metadata.labels", "a value is not a label")
    annotations = _texts(value.get("annotations"), ".metadata.annotations")
    if sum(len(key) + len(text) for key, text in annotations.items()) > ANNOTATIONS_BYTES_MAX:
        rule = f"must be at most {ANNOTATIONS_BYTES_MAX} bytes in all"
        raise FieldError(".metadata.annotations", rule)
    if labels:
        out["labels"] = labels
    if annotations:
        out["annotations"] = annotations
    return out


def _matching(value: Any, pattern: re.Pattern[str], path: str) -> str:
    if type(value) is not str or len(value) > NAME_LENGTH_MAX or not pattern.match(value):
        raise FieldError(path, "must be a DNS name in lower case")
    return value


def _texts(value: Any, path: str) -> dict[str, str]:
    if value is None:
        return {}
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise FieldError(path, "must be a map of texts")
    if not all(_LABEL_KEY.match(key) for key in value):
        raise FieldError(path, "a key is not a qualified name")
    return value


def _bound_texts(value: Any, path: str) -> None:
    """Every text of a spec has a bound; the declaration's own is larger, and the model's."""
    if isinstance(value, dict):
        for key, item in value.items():
            if len(key) > NAME_LENGTH_MAX:
                raise FieldError(path, "a key is too long")
            _bound_texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _bound_texts(item, f"{path}[{index}]")
    elif isinstance(value, str) and len(value) > TEXT_LENGTH_MAX and path != ".spec.desired.inline":
        raise FieldError(path, f"must be at most {TEXT_LENGTH_MAX} characters")


def _approval(document: Any) -> ApprovalSpec:
    return read(ApprovalSpec, document, ".spec")


_KINDS: Final[Mapping[str, Callable[[Any], Spec]]] = {
    SCHEMA: parse_spec,
    MIGRATION: parse_migration_spec,
    APPROVAL: _approval,
}
