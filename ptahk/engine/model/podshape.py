"""The parts of a Pod that ``spec.execution`` may set, by Kubernetes' own names and rules.

What the create of a Job would refuse is refused before there is a claim. Only checked: the Pod is
built from what was written. Imported late, when a spec sets one of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from ptahk.engine.model.bounds import LabelValue, ObjectName, QualifiedName
from ptahk.engine.model.fields import FieldError, Reads, reader_of
from ptahk.engine.model.limits import Ge, Le, MaxLen

QUANTITY = r"([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?"

QUANTITY_LENGTH_MAX = 40


def parse_quantity(value: Any) -> Any:
    """A quantity as text, or a whole number. :raises FieldError: anything else."""
    if type(value) is int and value >= 0:
        return value
    fits = type(value) is str and len(value) <= QUANTITY_LENGTH_MAX
    if not fits or re.fullmatch(QUANTITY, value) is None:
        raise FieldError("", "must be a quantity as 500m or 1Gi")
    return value


Quantity = Annotated[str | int, Reads(parse_quantity)]


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests and limits of the operation's container."""

    requests: Annotated[Mapping[QualifiedName, Quantity], MaxLen(16)] | None = None
    """What the node must have free."""
    limits: Annotated[Mapping[QualifiedName, Quantity], MaxLen(16)] | None = None
    """What the container may not exceed."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """One taint of a node that the Pod tolerates."""

    key: QualifiedName | None = None
    """Key of the taint; without it, operator Exists tolerates every taint."""
    operator: Literal["Equal", "Exists"] | None = None
    """Equal: value counts. Exists: any value."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Only taints of this effect."""
    toleration_seconds: int | None = None
    """How long a NoExecute taint is tolerated."""

    def __post_init__(self) -> None:
        for broken, rule in (
            (self.key is None and self.operator != "Exists", NEEDS_KEY),
            (self.operator == "Exists" and bool(self.value), NEEDS_NO_VALUE),
            (self.toleration_seconds is not None and self.effect != "NoExecute", NEEDS_EFFECT),
        ):
            if broken:
                raise FieldError("", rule)


NEEDS_KEY = "must have a key, or operator Exists"
NEEDS_NO_VALUE = "must have no value with operator Exists"
NEEDS_EFFECT = "must have effect NoExecute with tolerationSeconds"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement of a selector."""

    key: QualifiedName
    """Key of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How key and values relate. Gt and Lt: of nodes only."""
    values: Annotated[tuple[LabelValue, ...], MaxLen(64)] | None = None
    """Values of In and NotIn, one of Gt and Lt, none of the others."""

    def __post_init__(self) -> None:
        count = len(self.values or ())
        wanted = {"In": count > 0, "NotIn": count > 0, "Gt": count == 1, "Lt": count == 1}
        if not wanted.get(self.operator, count == 0):
            raise FieldError(".values", VALUES_FIT)


VALUES_FIT = "must fit the operator: some for In and NotIn, one for Gt and Lt, else none"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A selector of labels; all of it must hold."""

    match_labels: Annotated[Mapping[QualifiedName, LabelValue], MaxLen(64)] | None = None
    """Labels with exactly these values."""
    match_expressions: Annotated[tuple[Requirement, ...], MaxLen(64)] | None = None
    """Requirements of labels."""


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements of a node; all of them must hold."""

    match_expressions: Annotated[tuple[Requirement, ...], MaxLen(64)] | None = None
    """Requirements of the node's labels."""
    match_fields: Annotated[tuple[Requirement, ...], MaxLen(64)] | None = None
    """Requirements of the node's fields."""


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms of which one must hold."""

    node_selector_terms: Annotated[tuple[NodeTerm, ...], MaxLen(64)]
    """The terms."""


Weight = Annotated[int, Ge(1), Le(100)]


@dataclass(frozen=True, slots=True)
class PreferredNode:
    """A term that counts for a node, with its weight."""

    weight: Weight
    """1 to 100."""
    preference: NodeTerm
    """The term."""


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Which nodes the Pod may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """What a node must have."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[tuple[PreferredNode, ...], MaxLen(64)] | None
    ) = None
    """What counts for a node."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Other Pods, and the part of the cluster that is shared with them or not."""

    topology_key: QualifiedName
    """Label of the nodes whose equal values make one place."""
    label_selector: LabelSelector | None = None
    """Which Pods."""
    namespaces: Annotated[tuple[ObjectName, ...], MaxLen(64)] | None = None
    """In which namespaces; without any, in the Pod's own."""
    namespace_selector: LabelSelector | None = None
    """In namespaces with these labels."""


@dataclass(frozen=True, slots=True)
class PreferredPods:
    """A term that counts for a node, with its weight."""

    weight: Weight
    """1 to 100."""
    pod_affinity_term: PodTerm
    """The term."""


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """Which Pods the Pod should be near to, or far from."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[tuple[PodTerm, ...], MaxLen(64)] | None
    ) = None
    """What must hold."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[tuple[PreferredPods, ...], MaxLen(64)] | None
    ) = None
    """What counts for a node."""


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where the Pod may or should run."""

    node_affinity: NodeAffinity | None = None
    """By the nodes."""
    pod_affinity: PodAffinity | None = None
    """Near to other Pods."""
    pod_anti_affinity: PodAffinity | None = None
    """Far from other Pods."""


@dataclass(frozen=True, slots=True)
class LocalReference:
    """An object of the resource's namespace."""

    name: ObjectName
    """Its name."""


@dataclass(frozen=True, slots=True)
class PodMetadata:
    """Labels and annotations to add to the operation's Pod."""

    labels: Annotated[Mapping[QualifiedName, LabelValue], MaxLen(64)] | None = None
    """Labels; those of ptahk and of Kubernetes cannot be set."""
    annotations: Annotated[Mapping[QualifiedName, str], MaxLen(64)] | None = None
    """Annotations; those of ptahk cannot be set."""


SHAPES: Final[Mapping[str, Any]] = {
    "resources": Resources,
    "tolerations": Annotated[tuple[Toleration, ...], MaxLen(64)],
    "affinity": Affinity,
    "imagePullSecrets": Annotated[tuple[LocalReference, ...], MaxLen(16)],
    "podMetadata": PodMetadata,
}
"""Field of ``spec.execution`` → its type."""


def check(name: str, value: Any) -> None:
    """Check what was written for one of them. :raises FieldError: it is not of its type."""
    reader_of(SHAPES[name])(value)
