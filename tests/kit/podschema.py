"""Every field of a Pod, from the API server's own OpenAPI, changed one at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

POD = "io.k8s.api.core.v1.Pod"
DEPTH_MAX = 7
OWN = frozenset({"metadata.uid", "metadata.creationTimestamp", "metadata.managedFields"})
"""What the API server writes into every object, and nobody else can."""
OPTIONAL = frozenset({"metadata", "metadata.generation", "status"})
"""Never taken out: nothing is left of a Pod then, or another version leaves it out."""

Schema = dict[str, Any]


def schemas(openapi: dict[str, Any]) -> dict[str, Schema]:
    """The schemas of an OpenAPI v3 document, by name."""
    found: dict[str, Schema] = openapi["components"]["schemas"]
    return found


def changed_pods(
    known: dict[str, Schema], pod: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pods with one difference each, and where it is."""
    for path, keys, value in _changes(known, known[POD], pod, (), ()):
        if path in OWN or path.startswith(tuple(f"{own}[" for own in OWN)):
            continue
        if path in OPTIONAL and value is _GONE:
            continue
        yield path, _put(pod, keys, value)


_GONE: Any = object()
Keys = tuple[str | int, ...]


def _put(pod: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(pod)
    inner: Any = changed
    for key in keys[:-1]:
        inner = inner[key]
    if value is _GONE:
        del inner[keys[-1]]
    elif isinstance(inner, list) and keys[-1] == len(inner):
        inner.append(value)
    else:
        inner[keys[-1]] = value
    return changed


def _named(keys: Keys) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.lstrip(".")


def _resolved(known: dict[str, Schema], schema: Schema) -> tuple[Schema, str]:
    if "allOf" in schema:
        schema = schema["allOf"][0]
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return (known[name], name) if name else (schema, "")


def _changes(
    known: dict[str, Schema], schema: Schema, value: Any, keys: Keys, seen: tuple[str, ...]
) -> Iterator[tuple[str, Keys, Any]]:
    """Every way to change a value that is there."""
    schema, _ = _resolved(known, schema)
    if keys:
        yield _named(keys), keys, _GONE
    if isinstance(value, dict) and "properties" in schema:
        for name, inner in schema["properties"].items():
            where = (*keys, name)
            if name in value:
                yield from _changes(known, inner, value[name], where, seen)
            else:
                for sample in _samples(known, inner, seen):
                    yield _named(where), where, sample
    elif isinstance(value, dict):
        inner = schema.get("additionalProperties", {"type": "string"})
        yield _named((*keys, "added")), (*keys, "added"), next(_samples(known, inner, seen))
        for name in value:
            yield from _changes(known, inner, value[name], (*keys, name), seen)
    elif isinstance(value, list):
        for sample in _samples(known, schema["items"], seen):
            yield _named((*keys, len(value))), (*keys, len(value)), sample
        for index, item in enumerate(value):
            yield from _changes(known, schema["items"], item, (*keys, index), seen)
    else:
        yield _named(keys), keys, _other(value)


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}x"


def _samples(known: dict[str, Schema], schema: Schema, seen: tuple[str, ...]) -> Iterator[Any]:
    """Values of a field that is not there: one for each field that may be inside it."""
    schema, name = _resolved(known, schema)
    kind = schema.get("type", "string")
    if name in seen or len(seen) >= DEPTH_MAX:
        return
    inside = (*seen, name) if name else seen
    if kind == "array":
        yield []
        for sample in _samples(known, schema["items"], inside):
            yield [sample]
    elif kind == "object" and "properties" in schema:
        yield {}
        for key, inner in schema["properties"].items():
            for sample in _samples(known, inner, inside):
                yield {key: sample}
    elif kind == "object":
        yield {"added": "x"}
    else:
        yield {"boolean": True, "integer": 7, "number": 7}.get(kind, "x")
