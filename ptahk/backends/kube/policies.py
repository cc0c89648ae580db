"""Admission policies: what the API server itself refuses; nothing of ours has to be up (C-12.2).

Rendered from the names and constants of ``pod``, which builds the Jobs, so that shape and policy
are one text. ``charts/ptahk/templates/policies.yaml`` is written from here. Approvals and what is
stamped stand in ``stamps``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ptahk.backends.kube import pod
from ptahk.backends.kube.policy import GROUP, Rule, literal, policy, resources
from ptahk.engine.model.resource import CONFIG_MAP, FINALIZER, RESOURCE_UID
from ptahk.engine.ports import Document
from ptahk.wire import jobspec

SERVICE_ACCOUNT: Final = "ptahk-manager"
PREFIX: Final = pod.NAME_PREFIX
NAME_PATTERN: Final = f"^{PREFIX}[a-z0-9][a-z0-9-]{{0,{pod.NAME_MAX - len(PREFIX) - 2}}}[a-z0-9]$"
IMAGE_PATTERN: Final = "^[^@]+@sha256:[0-9a-f]{64}$"
BUNDLE_PATTERN: Final = "^ptahk-(plan|source)-[0-9a-f]{32}$"
DEADLINE_S: Final = (30, 86400)
GRACE_MAX_S: Final = 45
"""Below the minute of C-3.7."""
JOB_CHECKED: Final = frozenset(
    {*pod.JOB_CONSTANTS, "activeDeadlineSeconds", "podFailurePolicy", "selector", "template"}
)
"""Fields of a Job that have a rule here; ``selector`` is the API server's, for
``manualSelector: false``."""
ENVIRONMENT: Final = (
    jobspec.JOB, jobspec.DATABASE_URL, jobspec.DEV_DATABASE_URL, jobspec.POD_UID,
    jobspec.TERMINATION_LOG, "HOME", "TMPDIR",
)  # fmt: skip
"""What the runner is told; anything else (``LD_PRELOAD``, ``PYTHONPATH``) would be code."""

COLLECTOR: Final = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
"""Takes an owner that is gone off its dependents, where a person deletes with ``orphan``."""


def manager(namespace: str) -> str:
    """The manager's user name, from the namespace of the release."""
    return f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"


def documents(user: str) -> tuple[Document, ...]:
    """Every policy of operations and of what the manager writes, each with its binding.

    :param user: the manager's user name.
    """
    made = (
        _job_create(user), _job_update(user), _job_delete(), _pod(), _pod_connect(),
        _status(user), _plan(user), _bundle(user), _manager(user),
    )  # fmt: skip
    return tuple(document for pair in made for document in pair)


def _is(user: str) -> str:
    return f"request.userInfo.username == '{user}'"


def _only(variable: str, names: Sequence[str], what: str) -> Rule:
    """An allow-list of fields; what is too much is named."""
    return Rule(
        f"{variable}.all(k, k in {literal(list(names))})",
        f"{what}: a field that no operation has",
        detail=f"'{what}: no operation has ' + "
        f"{variable}.map(k, k).filter(k, !(k in {literal(list(names))})).join(', ')",
    )


def _constants(variable: str, constants: Mapping[str, Any], what: str) -> list[Rule]:
    """Each of these fields has its one value; absent is not it."""
    return [
        Rule(
            f"'{name}' in {variable} && {variable}['{name}'] == {literal(value)}",
            f"{what}.{name} must be {literal(value)}",
        )
        for name, value in constants.items()
    ]


def _job_create(user: str) -> tuple[Document, Document]:
    rules = [
        Rule(_is(user), f"only ptahk's manager makes Jobs named {PREFIX}*", forbidden=True),
        Rule(
            f"object.metadata.name.matches('{NAME_PATTERN}')",
            f"ptahk's manager makes Jobs named {PREFIX}* only, of at most {pod.NAME_MAX} "
            "characters",
        ),
        *_job_spec(),
        *_pod_spec(),
        *_container(),
    ]
    return policy(
        "ptahk-job-create",
        [resources(["CREATE"], ["jobs"], "batch")],
        rules,
        when=f"{_is(user)} || object.metadata.?name.orValue('').startsWith('{PREFIX}')",
        variables={
            "j": "dyn(object.spec)",
            "p": "dyn(object.spec.template.spec)",
            "c": "dyn(object.spec.template.spec.containers[0])",
            "a": "object.metadata.?annotations.orValue({})",
            "ta": "object.spec.template.?metadata.?annotations.orValue({})",
        },
    )


_DEADLINE: Final = "int(variables.p.?activeDeadlineSeconds.orValue(0))"


def _job_spec() -> list[Rule]:
    return [
        _only("variables.j", pod.JOB_FIELDS, "spec"),
        *_constants("variables.j", pod.JOB_CONSTANTS, "spec"),
        Rule(
            "variables.j.?podFailurePolicy.orValue({}) == "
            + literal({"rules": [dict(rule) for rule in pod.FAILURE_RULES]}),
            "spec.podFailurePolicy must fail the Job at every failure",
        ),
        Rule(
            f"'activeDeadlineSeconds' in variables.j && "
            f"int(variables.j.activeDeadlineSeconds) > {_DEADLINE}",
            "spec.activeDeadlineSeconds must be above the Pod's, which keeps its log",
        ),
        Rule(
            "object.metadata.?ownerReferences.orValue([]).size() == 1 && "
            "object.metadata.ownerReferences.all(o, o.?controller.orValue(false) == true && "
            f"o.apiVersion.startsWith('{GROUP}/'))",
            "the one owner must be the resource that asked for the operation",
        ),
        Rule(
            f"{literal(list(pod.CLAIM_ANNOTATIONS))}.all(k, k in variables.a && k in variables.ta "
            "&& variables.a[k] == variables.ta[k])",
            "Job and Pod template must carry the claim's annotations, equal",
        ),
    ]


def _pod_spec() -> list[Rule]:
    low, high = DEADLINE_S
    grace = "int(variables.p.?terminationGracePeriodSeconds.orValue(3600))"
    return [
        _only("variables.p", pod.POD_FIELDS, "spec.template.spec"),
        *_constants("variables.p", pod.POD_CONSTANTS, "spec.template.spec"),
        Rule(
            f"variables.p.?securityContext.orValue({{}}) == {literal(pod.pod_security(pod.USER))}",
            "spec.template.spec.securityContext must be the operation's own",
        ),
        Rule(
            f"{_DEADLINE} >= {low} && {_DEADLINE} <= {high}",
            f"spec.template.spec.activeDeadlineSeconds must be {low} to {high}",
        ),
        Rule(
            f"{grace} <= {GRACE_MAX_S}",
            f"spec.template.spec.terminationGracePeriodSeconds must be at most {GRACE_MAX_S}",
        ),
        Rule(
            "variables.p.?volumes.orValue([]).all(v, dyn(v).all(k, k in "
            f"{literal(['name', *pod.VOLUME_KINDS])}))",
            f"spec.template.spec.volumes must be of {', '.join(pod.VOLUME_KINDS)}",
        ),
        Rule(
            "object.spec.template.spec.containers.size() == 1",
            "spec.template.spec.containers must be the one of the operation",
        ),
    ]


def _container() -> list[Rule]:
    where = "spec.template.spec.containers[0]"
    command = [*pod.RUNNER_ARGV, "--job", pod.JOB_DIRECTORY]
    return [
        _only("variables.c", pod.CONTAINER_FIELDS, where),
        *_constants(
            "variables.c",
            {
                "name": pod.CONTAINER,
                "command": command,
                "securityContext": pod.CONTAINER_SECURITY,
                "terminationMessagePath": pod.TERMINATION_PATH,
                "terminationMessagePolicy": "File",
            },
            where,
        ),
        Rule("!('args' in variables.c)", f"{where}.args must not be there"),
        Rule(
            f"variables.c.?image.orValue('').matches('{IMAGE_PATTERN}')",
            f"{where}.image must be named by digest",
        ),
        Rule(
            f"variables.c.?env.orValue([]).all(e, e.name in {literal(list(ENVIRONMENT))})",
            f"{where}.env must be what the runner is told, and nothing else",
        ),
        Rule(
            "variables.c.?env.orValue([]).all(e, !has(e.valueFrom) || dyn(e.valueFrom).all(k, "
            "k == 'secretKeyRef' || (k == 'fieldRef' && e.valueFrom.fieldRef.fieldPath == "
            "'metadata.uid')))",
            f"{where}.env must come from a Secret or be the Pod's uid",
        ),
    ]


_JOB_METADATA: Final = (
    "object.metadata.?labels == oldObject.metadata.?labels"
    " && object.metadata.?annotations == oldObject.metadata.?annotations"
    " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences"
)


def _without(side: str, field: str) -> str:
    return f"dyn({side}.spec).transformMap(k, v, k != '{field}', v)"


def _job_update(user: str) -> tuple[Document, Document]:
    ttl = "ttlSecondsAfterFinished"
    fresh = (
        "object.metadata.?finalizers.orValue([]).exists(f, "
        "!(f in oldObject.metadata.?finalizers.orValue([])))"
    )
    return policy(
        "ptahk-job-update",
        [resources(["UPDATE"], ["jobs"], "batch")],
        [
            Rule(_is(user), "only ptahk's manager changes an operation's Job", forbidden=True),
            Rule(
                f"oldObject.metadata.name.startsWith('{PREFIX}')",
                f"ptahk's manager changes Jobs named {PREFIX}* only",
                forbidden=True,
            ),
            Rule(
                f"{_without('object', ttl)} == {_without('oldObject', ttl)}",
                f"of an operation's Job only spec.{ttl} is ever changed",
            ),
            Rule(
                f"object.spec.?{ttl}.orValue(-1) == {pod.TTL_S}",
                f"spec.{ttl} must be {pod.TTL_S}",
            ),
            Rule(
                f"!has(oldObject.spec.{ttl})",
                f"spec.{ttl} is set once",
            ),
            Rule(
                "variables.over || variables.apply",
                f"spec.{ttl} is set once the Job has ended (before, on a schema Apply alone)",
            ),
            Rule(f"{_JOB_METADATA} && !({fresh})", "an operation's Job keeps its metadata"),
        ],
        when=f"({_is(user)} || oldObject.metadata.name.startsWith('{PREFIX}'))"
        f" && (object.spec != oldObject.spec || !({_JOB_METADATA}) || {fresh})",
        variables={
            "over": "oldObject.?status.?conditions.orValue([])"
            ".exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')",
            # C-3.4: a schema Apply whose Lease changed hands is given up while it runs.
            "apply": f"oldObject.metadata.?annotations[?'{pod.OPERATION}'].orValue('')"
            " == 'schema/Apply'",
        },
    )


def _job_delete() -> tuple[Document, Document]:
    return policy(
        "ptahk-job-delete",
        [resources(["DELETE"], ["jobs"], "batch")],
        [
            Rule(
                "request.options.?propagationPolicy.orValue('Orphan') in "
                "['Background', 'Foreground']",
                "an operation's Job is not deleted without its Pod: use --cascade=background",
            )
        ],
        when=f"oldObject.metadata.name.startsWith('{PREFIX}')",
    )


_OWNED: Final = (
    "x.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'Job' && "
    f"o.name.startsWith('{PREFIX}'))"
)


def _pod() -> tuple[Document, Document]:
    main = "variables.sub != ''"
    return policy(
        "ptahk-pod",
        [resources(["UPDATE"], ["pods", "pods/ephemeralcontainers", "pods/resize", "pods/status"])],
        [
            Rule(
                "variables.sub != 'ephemeralcontainers'",
                "an operation's Pod holds database credentials: no debug container",
                forbidden=True,
            ),
            Rule("variables.sub != 'resize'", "an operation's Pod is not resized", forbidden=True),
            Rule(
                "variables.sub != 'status' || variables.system",
                "only the cluster's own parts write the status of an operation's Pod",
                forbidden=True,
            ),
            Rule(
                f"{main} || (object.spec == oldObject.spec && {_JOB_METADATA})",
                "an operation's Pod never changes",
                forbidden=True,
            ),
            Rule(
                f"{main} || variables.system || object.metadata.?finalizers.orValue([]) == "
                "oldObject.metadata.?finalizers.orValue([])",
                "the finalizers of an operation's Pod are the Job controller's",
                forbidden=True,
            ),
        ],
        when=f"oldObject.metadata.name.startsWith('{PREFIX}')"
        f" || [object, oldObject].exists(x, {_OWNED})",
        variables={
            "system": "request.userInfo.?groups.orValue([]).exists(g, g in "
            "['system:nodes', 'system:serviceaccounts:kube-system']) || request.userInfo.username"
            " in ['system:kube-scheduler', 'system:kube-controller-manager']",
            "sub": "request.?subResource.orValue('')",
        },
    )


def _pod_connect() -> tuple[Document, Document]:
    return policy(
        "ptahk-pod-connect",
        [
            resources(["CREATE"], ["pods/binding", "bindings"]),
            resources(["CONNECT"], ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"]),
        ],
        [
            Rule(
                "request.operation != 'CONNECT'",
                "an operation's Pod holds database credentials: no exec, attach, port-forward or "
                "proxy",
                forbidden=True,
            ),
            # A binding's labels and annotations are copied to the Pod.
            Rule(
                "request.operation != 'CREATE' || "
                "(object.metadata.?annotations.orValue({}).size() == 0 && object.metadata"
                ".?labels.orValue({}).all(k, k.startsWith('topology.kubernetes.io/')))",
                "a binding adds nothing to an operation's Pod",
                forbidden=True,
            ),
        ],
        when=f"request.?name.orValue('').startsWith('{PREFIX}')",
    )


_KINDS: Final = ("ptahschemas", "ptahmigrations")


def _status(user: str) -> tuple[Document, Document]:
    return policy(
        "ptahk-status",
        [resources(["UPDATE"], [f"{kind}/status" for kind in _KINDS], GROUP, "*")],
        [Rule(_is(user), "only ptahk's manager writes status", forbidden=True)],
    )


_KEPT: Final = (
    "object.metadata.?labels == oldObject.metadata.?labels"
    " && object.metadata.?annotations == oldObject.metadata.?annotations"
    " && (object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences"
    f" || request.userInfo.username in {literal(list(COLLECTOR))})"
)


def _plan(user: str) -> tuple[Document, Document]:
    return policy(
        "ptahk-plan",
        [resources(["CREATE", "UPDATE"], ["ptahplans"], GROUP, "*")],
        [
            Rule(
                f"oldObject != null || {_is(user)}",
                "only ptahk's manager publishes plans",
                forbidden=True,
            ),
            Rule(
                f"oldObject == null || (object.spec == oldObject.spec && {_KEPT})",
                "a plan never changes: make a new one",
            ),
        ],
    )


def _bundle(user: str) -> tuple[Document, Document]:
    """The bytes of plans and declarations; ``immutable`` alone freezes only a ConfigMap's data."""
    return policy(
        "ptahk-bundle",
        [resources(["CREATE", "UPDATE"], ["configmaps"])],
        [
            Rule(
                f"oldObject != null || {_is(user)}",
                "only ptahk's manager publishes the bytes of plans and declarations",
                forbidden=True,
            ),
            Rule(
                f"object.metadata.name.matches('{BUNDLE_PATTERN}')",
                f"ptahk's manager writes no {CONFIG_MAP} but plans and declarations",
                forbidden=True,
            ),
            Rule(
                "object.?immutable.orValue(false) == true && "
                f"'{RESOURCE_UID}' in object.metadata.?labels.orValue({{}})",
                "the bytes of a plan are immutable and labelled with their resource",
            ),
            Rule(
                "oldObject == null || (object.?data == oldObject.?data && "
                f"object.?binaryData == oldObject.?binaryData && {_KEPT})",
                "the bytes of a plan never change",
            ),
        ],
        when=f"{_is(user)} || object.metadata.?name.orValue('').matches('{BUNDLE_PATTERN}')",
    )


def _manager(user: str) -> tuple[Document, Document]:
    """What the manager's own identity may do to a person's resources: its finalizer, no more."""
    finalizers = "metadata.?finalizers.orValue([])"
    return policy(
        "ptahk-manager",
        [resources(["CREATE", "UPDATE"], list(_KINDS), GROUP, "*")],
        [
            Rule("oldObject != null", "ptahk's manager makes no resources", forbidden=True),
            Rule(
                f"oldObject == null || (object.spec == oldObject.spec && {_JOB_METADATA})",
                "ptahk's manager changes the finalizer of a resource alone",
                forbidden=True,
            ),
            Rule(
                f"oldObject == null || (object.{finalizers}.all(f, f == '{FINALIZER}' || "
                f"f in oldObject.{finalizers}) && oldObject.{finalizers}.all(f, "
                f"f == '{FINALIZER}' || f in object.{finalizers}))",
                "ptahk's manager changes no finalizer but its own",
                forbidden=True,
            ),
        ],
        when=_is(user),
    )
