"""The CRDs, rendered from the dataclasses and bounds that the codec reads (C-2.3).

No second set of models: a field, its bound, its rule and its description stand once, in
``engine.model``. Here is only what a cluster wants besides: names, columns, and the CEL form of
the rules that a dataclass checks in ``__post_init__``.

The schemas carry no ``default``: the engine's reader fills in what is left out, so that what is
stored is what a person wrote, an absent ``activeDeadlineSeconds`` still says that nobody chose it
(C-10.8), and a default that changes with a version is not frozen into every stored object.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ptahk.engine.model import migration, plan, podshape, resource
from ptahk.engine.model.claim import Claim
from ptahk.engine.model.fields import (
    DURATION,
    DURATION_LENGTH_MAX,
    ITEMS_MAX,
    TEXT_MAX,
    Matches,
    Reads,
    camel,
    parse_duration,
)
from ptahk.engine.model.limits import Ge, Le, MaxLen, MinLen
from ptahk.engine.model.status import Status

Schema = dict[str, Any]

GROUP: Final = "ptahk.dev"
VERSION: Final = "v1alpha1"
DESCRIPTION_WIDTH = 4096
INT64 = "int64"


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; ``wide`` only with ``kubectl get -o wide``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind, as a cluster names and shows it."""

    kind: str
    plural: str
    short: str
    about: str
    spec: type[Any]
    columns: tuple[Column, ...]
    status: type[Any] | None = None
    immutable: bool = False


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_READY = '.status.conditions[?(@.type=="Ready")]'
_RESOURCE_COLUMNS: Final = (
    Column("Phase", ".status.phase"),
    Column("Ready", f"{_READY}.status"),
    Column("Plan", ".status.lastPlan.name"),
    _AGE,
    Column("Reason", f"{_READY}.reason", wide=True),
    Column("Engine", ".spec.target.engine", wide=True),
    Column("Operation", ".status.activeOperation.type", wide=True),
    Column("Next", ".status.nextStep", wide=True),
)

RESOURCES: Final = (
    Resource(
        resource.SCHEMA, "ptahschemas", "psch",
        "A database that is converged to a declared schema.",
        resource.SchemaSpec, _RESOURCE_COLUMNS, status=Status,
    ),
    Resource(
        migration.MIGRATION, "ptahmigrations", "pmig",
        "A database that a versioned sequence of migrations is run on.",
        migration.MigrationSpec, _RESOURCE_COLUMNS, status=Status,
    ),
    Resource(
        resource.PLAN, "ptahplans", "pplan",
        "Immutable evidence of one plan. Written by ptahk.",
        plan.PlanSpec,
        (
            Column("Resource", ".spec.resource.name"),
            Column("Statements", ".spec.statements", "integer"),
            Column("Destructive", ".spec.destructive", "boolean"),
            Column("Privileges", ".spec.privileges", "boolean"),
            _AGE,
            Column("Fingerprint", ".spec.fingerprint", wide=True),
        ),
        immutable=True,
    ),
    Resource(
        resource.APPROVAL, "ptahapprovals", "pappr",
        "A person's approval of exactly one plan. Used by one apply, once.",
        plan.ApprovalSpec,
        (
            Column("Resource", ".spec.resource.name"),
            Column("Plan", ".spec.plan.name"),
            Column("Approver", ".spec.approver.username"),
            _AGE,
            Column("Fingerprint", ".spec.fingerprint", wide=True),
        ),
        immutable=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule, in the codec's words."""

    expression: str
    message: str

    def render(self) -> Schema:
        return {"rule": self.expression, "message": self.message}


def _one_of(*names: str) -> Rule:
    given = ", ".join(f"has(self.{name})" for name in names)
    words = " and ".join([", ".join(names[:-1]), names[-1]])
    return Rule(f"[{given}].exists_one(x, x)", f"must have exactly one of {words}")


_OTHER_CLAIM = "self.operationId != oldSelf.operationId"


def _kept(*names: str) -> str:
    """These texts stand, and are as they were; not by optionals, whose cost cannot be told."""
    return " && ".join(f"has(self.{n}) && self.{n} == oldSelf.{n}" for n in names)


RULES: Final[Mapping[type[Any], tuple[Rule, ...]]] = {
    resource.Desired: (_one_of("inline", "configMapRef", "ociRef"),),
    migration.Artifact: (_one_of("configMapRef", "ociRef"),),
    resource.TlsFrom: (_one_of("secret", "configMap"),),
    podshape.Toleration: (
        Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            podshape.NEEDS_KEY,
        ),
        Rule(
            "!has(self.operator) || self.operator != 'Exists' || self.?value.orValue('') == ''",
            podshape.NEEDS_NO_VALUE,
        ),
        Rule(
            "!has(self.tolerationSeconds) || self.?effect.orValue('') == 'NoExecute'",
            podshape.NEEDS_EFFECT,
        ),
    ),
    podshape.Requirement: (
        Rule(
            "self.operator in ['In', 'NotIn'] ? self.?values.orValue([]).size() > 0 : "
            "self.?values.orValue([]).size() == (self.operator in ['Gt', 'Lt'] ? 1 : 0)",
            podshape.VALUES_FIT,
        ),
    ),
    # What was written at the dispatch boundary stays (invariant 3); the manager is bound too.
    Claim: (
        Rule(
            f"{_OTHER_CLAIM} || !has(oldSelf.dispatchNonce) || "
            "(has(self.dispatchStarted) && self.dispatchStarted && "
            + _kept("jobName", "realm", "dispatchNonce", "snapshotDigest")
            + ")",
            "a dispatched claim keeps its mark, Job, realm and snapshot",
        ),
        Rule(
            f"{_OTHER_CLAIM} || !has(oldSelf.jobUid) || ({_kept('jobUid')})",
            "a confirmed Job's uid stays",
        ),
    ),
}
"""Class → the CEL form of what its ``__post_init__`` refuses."""

FIELD_RULES: Final[Mapping[tuple[type[Any], str], tuple[Rule, ...]]] = {
    (resource.Target, "coordination_key"): (
        Rule(
            f"!self.startsWith('{resource.IMPLICIT_KEY}')",
            f"must not begin with {resource.IMPLICIT_KEY}, which names no realm",
        ),
    ),
    (resource.Desired, "inline"): (
        Rule(
            f"bytes(self).size() <= {resource.INLINE_BYTES_MAX}",
            f"must be at most {resource.INLINE_BYTES_MAX} bytes",
        ),
    ),
}

_FIELDS: Final[Mapping[tuple[type[Any], str], Schema]] = {
    # Spelled out: (?i) would also match letters that only fold to these.
    (resource.Target, "engine"): {
        "pattern": "^([Pp][Oo][Ss][Tt][Gg][Rr][Ee][Ss]([Qq][Ll])?|[Mm][Yy][Ss][Qq][Ll]"
        "|[Mm][Aa][Rr][Ii][Aa][Dd][Bb])$",
    },
    (Status, "conditions"): {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
}
"""What one field has besides its type."""

_FORMS: Final[Mapping[Callable[[Any], Any], Schema]] = {
    parse_duration: {
        "x-kubernetes-int-or-string": True,
        "pattern": f"^({DURATION})$",
        "minLength": 1,
        "maxLength": DURATION_LENGTH_MAX,
        "minimum": 0,
        "maximum": 0,
    },
    podshape.parse_quantity: {
        "x-kubernetes-int-or-string": True,
        "pattern": f"^({podshape.QUANTITY})$",
        "maxLength": podshape.QUANTITY_LENGTH_MAX,
        "minimum": 0,
    },
    # A map or one word: no structural type is both. The bounds hold for whichever it is.
    migration.parse_placeholders: {
        "x-kubernetes-preserve-unknown-fields": True,
        "pattern": "^off$",
        "maxLength": 3,
        "maxProperties": migration.PLACEHOLDERS_MAX,
        "maxItems": 0,
    },
}
"""Reader of a type with a written form of its own → that form."""

_SCALARS: Final[Mapping[Any, Schema]] = {
    str: {"type": "string", "maxLength": TEXT_MAX},
    int: {"type": "integer", "format": INT64},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time", "maxLength": 64},
}


def documents() -> tuple[Schema, ...]:
    """The CustomResourceDefinitions, one a kind."""
    return tuple(_definition(item) for item in RESOURCES)


def to_yaml(document: Schema) -> str:
    """One definition as the chart and ``ptahk crds`` carry it."""
    # Imported late: the tests and the generator read the documents themselves.
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=100)
    return text


def _definition(item: Resource) -> Schema:
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(item)},
        "additionalPrinterColumns": [_column(column) for column in item.columns],
    }
    if item.status is not None:
        version["subresources"] = {"status": {}}
        version["selectableFields"] = [{"jsonPath": ".status.phase"}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{item.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": item.kind,
                "listKind": f"{item.kind}List",
                "plural": item.plural,
                "singular": item.kind.lower(),
                "shortNames": [item.short],
                "categories": ["ptahk"],
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _root(item: Resource) -> Schema:
    spec = schema_of(item.spec)
    if item.immutable:
        rules = spec.setdefault("x-kubernetes-validations", [])
        rules.append(Rule("self == oldSelf", "is immutable: make a new one").render())
    properties: Schema = {
        "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
        "kind": {"type": "string", "description": item.kind},
        "metadata": {"type": "object"},
        "spec": spec,
    }
    if item.status is not None:
        properties["status"] = schema_of(item.status)
    return {
        "type": "object",
        "description": item.about,
        "required": ["spec"],
        "properties": properties,
    }


def _column(column: Column) -> Schema:
    found: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return found | {"priority": 1} if column.wide else found


def schema_of(hint: Any) -> Schema:
    """The structural schema of one type; every text, list and map in it is bounded."""
    origin = typing.get_origin(hint)
    if hasattr(hint, "__supertype__"):
        return schema_of(hint.__supertype__)
    if origin is typing.Annotated:
        first, *rest = hint.__metadata__
        if isinstance(first, Reads):
            if first.shape:
                return schema_of(podshape.SHAPES[first.shape])
            return dict(_FORMS[first.reader])
        return functools.reduce(_bounded, [first, *rest], schema_of(hint.__origin__))
    if origin is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    if origin in (typing.Union, types.UnionType):
        inner = [item for item in typing.get_args(hint) if item is not type(None)]
        assert len(inner) == 1, "only X | None"
        return schema_of(inner[0])
    if origin is tuple:
        items = schema_of(typing.get_args(hint)[0])
        return {
            "type": "array",
            "items": items,
            "maxItems": ITEMS_MAX,
            "x-kubernetes-list-type": "atomic",
        }
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(typing.get_args(hint)[1])
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _object(hint)
    return dict(_SCALARS[hint])


def _mapping(value: Any) -> Schema:
    found: Schema = {"type": "object", "maxProperties": ITEMS_MAX}
    if value is Any:
        # JSON that a family, a backend or the executor owns; the whole object is bounded by
        # what a cluster stores.
        return found | {"x-kubernetes-preserve-unknown-fields": True}
    return found | {"additionalProperties": schema_of(value)}


def _bounded(schema: Schema, bound: Any) -> Schema:
    match bound:
        case MaxLen(limit):
            return schema | {_LONGEST[schema["type"]]: limit}
        case MinLen(limit):
            return schema | {_SHORTEST[schema["type"]]: limit}
        case Ge(limit):
            return schema | {"minimum": limit}
        case Le(limit):
            return schema | {"maximum": limit}
        case Matches(regex, _):
            return schema | {"pattern": f"^({regex})$"}
        case _:
            raise AssertionError(f"no such bound: {bound!r}")


_LONGEST = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}
_SHORTEST = {"string": "minLength", "array": "minItems", "object": "minProperties"}


def _object(cls: type[Any]) -> Schema:
    hints = typing.get_type_hints(cls, include_extras=True)
    about, described = _described(cls)
    properties: Schema = {}
    required = []
    for item in dataclasses.fields(cls):
        if not item.init:
            continue
        key = str(item.metadata.get("key", camel(item.name)))
        schema = schema_of(hints[item.name]) | _FIELDS.get((cls, item.name), {})
        text = described.get(item.name) or schema.get("description", "")
        words = " ".join(part for part in (text, _default(item)) if part)
        rules = FIELD_RULES.get((cls, item.name), ())
        if words:
            schema = {**schema, "description": words}
            schema = {"description": schema.pop("description"), **schema}
        if rules:
            schema["x-kubernetes-validations"] = [rule.render() for rule in rules]
        properties[key] = schema
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            required.append(key)
    found: Schema = {"description": about, "type": "object", "properties": properties}
    if required:
        found["required"] = required
    if cls in RULES:
        found["x-kubernetes-validations"] = [rule.render() for rule in RULES[cls]]
    return found


def _default(item: dataclasses.Field[Any]) -> str:
    """What is taken where the field is left out, in words."""
    value = item.default
    match value:
        case bool():
            return f"Default: {str(value).lower()}."
        case float():
            whole = int(value)
            return f"Default: {whole // 60}m." if whole >= 60 else f"Default: {whole}s."
        case str() if value:
            return f"Default: {value}."
        case _:
            return ""


def _described(cls: type[Any]) -> tuple[str, dict[str, str]]:
    """The docstring of a class, and the text under each of its fields."""
    found: dict[str, str] = {}
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[node.target.id] = _plain(str(after.value.value))
    return _plain((inspect.getdoc(cls) or "").split("\n\n")[0]), found


_CITED = re.compile(r"\s*\((?:C-[0-9.]+|step [0-9]+|hazards? \w+|invariant [0-9]+|D19)[^()]*\)")


def _plain(text: str) -> str:
    """A docstring as ``kubectl explain`` shows it: without marks and rule numbers."""
    return _CITED.sub("", " ".join(text.replace("``", "").split()))[:DESCRIPTION_WIDTH]


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node of a schema with its path, the node itself first."""
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from walk(schema[key], f"{path}[]")
