"""Manifests on the command line: one resource for a local run, many for a census."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ptahk.api import codec
from ptahk.api.documents import read_documents
from ptahk.commands import _inputs
from ptahk.commands._inputs import Files
from ptahk.engine.model.migration import MIGRATION, MigrationSpec
from ptahk.engine.model.resource import CONFIG_MAP, SCHEMA, Declared, SchemaSpec
from ptahk.errors import UsageError

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
FILES_MAX = 10_000


def one_resource(
    path: str, name: str | None, kind: str | None
) -> tuple[Mapping[str, Any], Files | None]:
    """The resource of a manifest, and the files of the ConfigMap beside it that it names.

    :param name: chooses where the manifest has several.
    :param kind: likewise; None: a PtahSchema, else a PtahMigration.
    :raises UsageError: there is none, or more than one.
    """
    text = _inputs.read_bytes(path, "filename", _inputs.MANIFEST_BYTES_MAX)
    named = [
        item
        for item in codec.read_manifests(text, path, key_needed=False).found
        if name is None or item.name == name
    ]
    wanted = kind or (SCHEMA if any(item.kind == SCHEMA for item in named) else MIGRATION)
    found = [item for item in named if item.kind == wanted]
    if len(found) != 1:
        shown = SCHEMA if kind is None else kind
        what = f"no {shown}" if not found else f"{len(found)} {wanted}s"
        raise UsageError(
            f"manifest does not say which resource (filename={path}): it holds {what}"
            f"{'' if name is None else f' of that name ({name})'}",
            reason="InvalidManifest",
            field="filename",
            hint="Choose one with --name NAME." if found else None,
        )
    spec = found[0].spec
    assert isinstance(spec, SchemaSpec | MigrationSpec), "an approval is no resource"
    return found[0].document, _declared(spec.declared, text, path)


def _declared(declared: Declared | None, text: bytes, path: str) -> Files | None:
    reference = None if declared is None else declared.config_map_ref
    if declared is None or reference is None:
        return None
    for item in read_documents(text, path):
        value = item.value
        if not isinstance(value, dict) or value.get("kind") != CONFIG_MAP:
            continue
        if (value.get("metadata") or {}).get("name") != reference.name:
            continue
        data = value.get("data") or {}
        keys = (
            [reference.key]
            if reference.key
            else sorted(k for k in data if k.endswith(declared.suffixes))
        )
        if not keys or not all(isinstance(data.get(key), str) for key in keys):
            raise UsageError(
                f"ConfigMap {reference.name} holds no declaration ({path}:{item.line})",
                reason="SourceMissing",
                field="filename",
            )
        return tuple((key, data[key]) for key in keys)
    return None


def read_all(paths: Iterable[str]) -> list[codec.Manifest]:
    """Every resource of ours in these files and directories.

    :raises UsageError: one of them is not valid, or they hold none.
    """
    found: list[codec.Manifest] = []
    seen: dict[tuple[str, str | None, str], str] = {}
    for path in _files(paths):
        text = _inputs.read_bytes(path, "filename", _inputs.MANIFEST_BYTES_MAX)
        for item in codec.read_manifests(text, path).found:
            key = (item.kind, item.namespace, item.name)
            if key in seen:
                raise UsageError(
                    f"{item.kind} {item.name} stands twice ({seen[key]}, {item.where})",
                    reason="InvalidManifest",
                    field="filename",
                )
            seen[key] = item.where
            found.append(item)
    return found


def _files(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if path == "-" or not Path(path).is_dir():
            yield path
            continue
        inside = sorted(
            item for item in Path(path).rglob("*") if item.suffix in SUFFIXES and item.is_file()
        )
        if not inside:
            raise UsageError(
                f"no manifest (filename={path}): it holds no .yaml, .yml or .json file",
                field="filename",
            )
        if len(inside) > FILES_MAX:
            raise UsageError(f"too many files (filename={path})", field="filename")
        yield from map(str, inside)
