"""Who approved, who acknowledged, who changed the spec last: stamped by the API server (C-12.3).

A ``MutatingAdmissionPolicy`` writes the requester whatever the client wrote; a
``ValidatingAdmissionPolicy`` demands it, so that nothing depends on the order of the two, nor on a
mutating webhook between them. CEL has no clock: the time is the approval's ``creationTimestamp``,
which no client can set, and of an acknowledgement the moment of its Event.

An approval is compared with the live plan and resource as parameters of a policy: the rules must
hold for every plan of the namespace, and say nothing about plans of another name. A plan's name is
part of its fingerprint, and its uid is the API server's, so an approval of a plan that does not
exist approves nothing, ever.
"""

from typing import Any, Final

from ptahk.backends.kube.policy import API, GROUP, LABELS, Rule, policy, resources
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import (
    ACKNOWLEDGE,
    ACKNOWLEDGED_BY,
    CHANGED_BY,
    PLAN,
    RESOURCE_UID,
    SCHEMA,
)
from ptahk.engine.ports import Document

_RESOURCES: Final = ("ptahschemas", "ptahmigrations")
_KINDS: Final = {SCHEMA: "schema", MIGRATION: "migration"}
_USER: Final = "request.userInfo.username"
_UID: Final = "request.userInfo.?uid.orValue('')"
_GROUPS: Final = "request.userInfo.?groups.orValue([])"
_PERSON: Final = (
    f"'{{\"username\":' + strings.quote({_USER}) + ',\"uid\":' + strings.quote({_UID})"
    f" + ',\"groups\":[' + {_GROUPS}.map(g, strings.quote(g)).join(',') + ']}}'"
)
"""The requester as one JSON text."""
_MAY_APPROVE: Final = (
    f"authorizer.group('{GROUP}').resource('ptahplans').namespace(request.namespace)"
)


def documents(user: str) -> tuple[Document, ...]:
    """The policies that demand what is stamped, each with its binding.

    :param user: the manager's user name.
    """
    made = [_approval(user), _approval_plan(), *map(_approval_resource, _KINDS), _resource(user)]
    return tuple(document for pair in made for document in pair)


def stamping() -> tuple[Document, ...]:
    """The policies that stamp; a cluster has the kind from 1.36 on. Below it the client writes."""
    return (*_stamp("ptahk-approver", ["CREATE"], ["ptahapprovals"], [_APPROVER, _LABEL]),
            *_stamp("ptahk-stamps", ["CREATE", "UPDATE"], _RESOURCES, [_ANNOTATIONS],
                    _stamped())
            )  # fmt: skip


def other_person() -> tuple[Document, ...]:
    """The switch: who changed the spec last does not approve what follows from it."""
    made = [_other_person(kind) for kind in _KINDS]
    return tuple(document for pair in made for document in pair)


_APPROVER: Final = (
    '[JSONPatch{op: "add", path: "/spec/approver", value: Object.spec.approver{'
    f"username: {_USER}, uid: {_UID}, groups: {_GROUPS}"
    "} }]"
)
_LABEL_PATH: Final = f"'/metadata/labels/' + jsonpatch.escapeKey('{RESOURCE_UID}')"
_LABEL: Final = (
    "has(object.metadata.labels)"
    f' ? [JSONPatch{{op: "add", path: {_LABEL_PATH}, value: object.spec.resource.uid}}]'
    ' : [JSONPatch{op: "add", path: "/metadata/labels", value: '
    f"{{'{RESOURCE_UID}': object.spec.resource.uid}} }}]"
)


def _annotation(key: str, wanted: str) -> str:
    path = f"'/metadata/annotations/' + jsonpatch.escapeKey('{key}')"
    return (
        f"({wanted} != '' ? [JSONPatch{{op: \"add\", path: {path}, value: {wanted}}}] : "
        f"('{key}' in variables.given ? [JSONPatch{{op: \"remove\", path: {path}}}] : []))"
    )


_ANNOTATIONS: Final = (
    "(has(object.metadata.annotations) || (variables.changer == '' && variables.person == '')"
    ' ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {} }]) + '
    + _annotation(CHANGED_BY, "variables.changer")
    + " + "
    + _annotation(ACKNOWLEDGED_BY, "variables.person")
)


def _stamped() -> dict[str, str]:
    """What both annotations must be, from the request alone."""
    return {
        "given": "object.metadata.?annotations.orValue({})",
        "kept": "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})",
        "changed": "oldObject == null || object.spec != oldObject.spec",
        "changer": f"variables.changed ? {_USER} : variables.kept[?'{CHANGED_BY}'].orValue('')",
        "word": f"variables.given[?'{ACKNOWLEDGE}'].orValue('')",
        "fresh": "variables.word != '' && "
        f"variables.word != variables.kept[?'{ACKNOWLEDGE}'].orValue('')",
        "person": f"variables.fresh ? {_PERSON} : (variables.word == '' ? '' : "
        f"variables.kept[?'{ACKNOWLEDGED_BY}'].orValue(''))",
    }


def _stamp(
    name: str,
    operations: list[str],
    names: Any,
    expressions: list[str],
    variables: dict[str, str] | None = None,
) -> tuple[Document, Document]:
    spec: Document = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": [resources(operations, names, GROUP, "v1alpha1")],
        },
    }
    if variables:
        spec["variables"] = [{"name": key, "expression": text} for key, text in variables.items()]
    spec["mutations"] = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        for expression in expressions
    ]
    metadata = {"name": name, "labels": dict(LABELS)}
    return (
        {"apiVersion": API, "kind": "MutatingAdmissionPolicy", "metadata": metadata,
         "spec": spec},
        {"apiVersion": API, "kind": "MutatingAdmissionPolicyBinding",
         "metadata": {"name": name, "labels": dict(LABELS)}, "spec": {"policyName": name}},
    )  # fmt: skip


def _approvals(*operations: str) -> list[Document]:
    return [resources(operations, ["ptahapprovals"], GROUP, "*")]


def _approval(user: str) -> tuple[Document, Document]:
    spec = "object.spec"
    return policy(
        "ptahk-approval",
        _approvals("CREATE", "UPDATE"),
        [
            Rule(
                f"oldObject != null || {_USER} != '{user}'",
                "ptahk's manager approves nothing",
                forbidden=True,
            ),
            Rule(
                f"oldObject != null || ({spec}.?approver.?username.orValue('') == {_USER}"
                f" && {spec}.?approver.?uid.orValue('') == {_UID}"
                f" && {spec}.?approver.?groups.orValue([]) == {_GROUPS})",
                "spec.approver must be who makes the approval",
            ),
            Rule(
                f"oldObject != null || {_MAY_APPROVE}.name({spec}.plan.name)"
                ".check('approve').allowed()",
                "an approval needs the verb approve on ptahplans",
                forbidden=True,
            ),
            Rule(
                f"{spec}.plan.name == 'ptahk-plan-' + {spec}.fingerprint.substring(7, 39)",
                "spec.fingerprint is not that of the plan in spec.plan.name",
            ),
            Rule(
                f"{spec}.resource.kind in ['{SCHEMA}', '{MIGRATION}']",
                f"spec.resource.kind must be {SCHEMA} or {MIGRATION}",
            ),
            Rule(
                f"object.metadata.?labels[?'{RESOURCE_UID}'].orValue('') == {spec}.resource.uid",
                f"the label {RESOURCE_UID} must be spec.resource.uid",
            ),
            Rule(
                f"oldObject == null || {spec} == oldObject.spec",
                "an approval never changes: make a new one",
            ),
        ],
    )


def _approval_plan() -> tuple[Document, Document]:
    other = "params.metadata.name != object.spec.plan.name"
    return policy(
        "ptahk-approval-plan",
        _approvals("CREATE"),
        [
            Rule(
                f"{other} || params.metadata.uid == object.spec.plan.uid",
                "spec.plan.uid is not that of the plan of this name",
            ),
            Rule(
                f"{other} || params.spec.fingerprint == object.spec.fingerprint",
                "spec.fingerprint is not that of the plan of this name",
            ),
            Rule(
                f"{other} || (params.spec.resource.uid == object.spec.resource.uid"
                " && params.spec.resource.kind == object.spec.resource.kind"
                " && params.spec.resource.name == object.spec.resource.name)",
                "spec.resource is not what the plan is for",
            ),
        ],
        parameter=PLAN,
    )


def _approval_resource(kind: str) -> tuple[Document, Document]:
    return policy(
        f"ptahk-approval-{_KINDS[kind]}",
        _approvals("CREATE"),
        [
            Rule(
                "params.metadata.name != object.spec.resource.name"
                " || params.metadata.uid == object.spec.resource.uid",
                "spec.resource.uid is not that of the resource of this name",
            )
        ],
        when=f"object.spec.resource.kind == '{kind}'",
        parameter=kind,
        # A namespace may hold one family alone; that there is a plan is demanded above.
        absent="Allow",
    )


def _other_person(kind: str) -> tuple[Document, Document]:
    return policy(
        f"ptahk-other-person-{_KINDS[kind]}",
        _approvals("CREATE"),
        [
            Rule(
                "params.metadata.uid != object.spec.resource.uid || "
                f"!(params.metadata.?annotations[?'{CHANGED_BY}'].orValue({_USER}) == {_USER})",
                "who changed the spec last may not approve what follows from it: ask somebody else",
                forbidden=True,
            )
        ],
        when=f"object.spec.resource.kind == '{kind}'",
        parameter=kind,
        # A namespace may hold one family alone; that there is a plan is demanded above.
        absent="Allow",
    )


_NUMBER: Final = "variables.word.find('\"frozen\": *[0-9]+')"


def _resource(user: str) -> tuple[Document, Document]:
    """What stands on a resource besides its spec: stamps, and a person's word."""
    return policy(
        "ptahk-resource",
        [resources(["CREATE", "UPDATE"], list(_RESOURCES), GROUP, "*")],
        [
            Rule(
                "variables.changed ? "
                f"variables.given[?'{CHANGED_BY}'].orValue({_USER}) == {_USER} : "
                f"variables.given[?'{CHANGED_BY}'].orValue('') == variables.changer",
                f"{CHANGED_BY} is written by the cluster",
            ),
            Rule(
                f"variables.given[?'{ACKNOWLEDGED_BY}'].orValue('') == variables.person",
                f"{ACKNOWLEDGED_BY} must be who acknowledges",
            ),
            Rule(
                f"!variables.fresh || {_USER} != '{user}'",
                "ptahk's manager acknowledges nothing",
                forbidden=True,
            ),
            Rule(
                f"!variables.fresh || {_MAY_APPROVE}.check('approve').allowed()",
                "an acknowledgement needs the verb approve on ptahplans",
                forbidden=True,
            ),
            Rule(
                f"!variables.fresh || {_NUMBER} == '' || (oldObject != null"
                f" && int({_NUMBER}.find('[0-9]+$')) == variables.frozen)",
                f"{ACKNOWLEDGE} names another number than the realm is frozen over",
            ),
        ],
        variables={
            **_stamped(),
            "frozen": "oldObject == null ? -1 : int(oldObject.?status.?frozen.?number.orValue(-1))",
        },
    )
