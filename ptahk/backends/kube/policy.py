"""One admission policy as a document: rules in CEL, and a binding; both fail closed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ptahk.engine.ports import Document

API: Final = "admissionregistration.k8s.io/v1"
GROUP: Final = "ptahk.dev"
LABELS: Final = {"app.kubernetes.io/name": "ptahk"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One validation. :ivar forbidden: the answer is 403 instead of 422."""

    expression: str
    message: str
    forbidden: bool = False
    detail: str | None = None
    """A CEL expression whose text replaces the message."""

    def render(self) -> Document:
        found: Document = {"expression": self.expression, "message": self.message}
        if self.detail is not None:
            found["messageExpression"] = self.detail
        if self.forbidden:
            found["reason"] = "Forbidden"
        return found


def literal(value: Any) -> str:
    """A value as CEL writes it; mixed lists and maps by ``dyn``, which compares them all the same.

    :raises TypeError: it is no JSON value, or a text that would need an escape.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str() if "'" not in value and "\\" not in value:
            return f"'{value}'"
        case Mapping():
            inner = (f"{literal(key)}: dyn({literal(item)})" for key, item in value.items())
            return "{" + ", ".join(inner) + "}"
        case list() | tuple():
            if all(isinstance(item, str) for item in value):
                return "[" + ", ".join(literal(item) for item in value) + "]"
            return "[" + ", ".join(f"dyn({literal(item)})" for item in value) + "]"
        case _:
            raise TypeError(f"no CEL literal: {value!r}")


def resources(
    operations: Sequence[str], names: Sequence[str], group: str = "", version: str = "v1"
) -> Document:
    """One resource rule."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(names),
        "scope": "Namespaced",
    }


def policy(
    name: str,
    matched: Sequence[Document],
    rules: Iterable[Rule],
    *,
    when: str | None = None,
    variables: Mapping[str, str] | None = None,
    parameter: str | None = None,
    absent: str = "Deny",
) -> tuple[Document, Document]:
    """A policy and its binding; both fail closed.

    :param when: the one condition, total: several would hide an error behind a false one.
    :param parameter: a kind of ours: the rules must hold for every object of it in the request's
        namespace.
    :param absent: where there is none, ``Deny`` or ``Allow``; judged before ``when``.
    """
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": list(matched)},
        "validations": [rule.render() for rule in rules],
    }
    binding: Document = {"policyName": name, "validationActions": ["Deny"]}
    if when is not None:
        spec["matchConditions"] = [{"name": "ours", "expression": when}]
    if variables is not None:
        spec["variables"] = [{"name": key, "expression": text} for key, text in variables.items()]
    if parameter is not None:
        spec["paramKind"] = {"apiVersion": f"{GROUP}/v1alpha1", "kind": parameter}
        binding["paramRef"] = {"selector": {}, "parameterNotFoundAction": absent}
    metadata = {"name": name, "labels": dict(LABELS)}
    return (
        {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
         "spec": spec},
        {"apiVersion": API, "kind": "ValidatingAdmissionPolicyBinding",
         "metadata": {"name": name, "labels": dict(LABELS)}, "spec": binding},
    )  # fmt: skip
