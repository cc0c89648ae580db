"""``spec.execution``: how Jobs run. What only a cluster reads is checked and kept as written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ptahk.engine.model.bounds import LabelValue, ObjectName, QualifiedName
from ptahk.engine.model.fields import Duration, Reads
from ptahk.engine.model.limits import Ge, Le, MaxLen

DEADLINE_S = 900


def _shape(name: str) -> Reads:
    """A part of the Pod, checked by ``podshape`` and kept as written."""

    def reader(value: Any) -> Any:
        # Imported late: most specs set none of them, and no local run reads them.
        from ptahk.engine.model import podshape

        podshape.check(name, value)
        return value

    return Reads(reader, name)


@dataclass(frozen=True, slots=True)
class Execution:
    """How operations run. All but the deadline, the retry interval and the connect timeout shape
    the operation's Pod, and are for a cluster only."""

    active_deadline_seconds: Annotated[int, Ge(30), Le(86400)] | None = None
    """Seconds that one operation may run; 900 without it. A rewrite or an index build of a table
    above 1 GiB is refused unless it is set."""
    failure_retry_interval: Duration = 60.0
    """Longest time between two attempts of an operation that only reads."""
    connect_timeout: Duration = 10.0
    """How long one attempt to connect to the database may take."""
    service_account_name: ObjectName | None = None
    """The Pod's ServiceAccount; its token is never mounted."""
    resources: Annotated[Any, _shape("resources")] | None = None
    """Requests and limits of the container."""
    node_selector: Annotated[Mapping[QualifiedName, LabelValue], MaxLen(64)] | None = None
    """Labels that the node must have."""
    tolerations: Annotated[Any, _shape("tolerations")] | None = None
    """Taints that the Pod tolerates."""
    affinity: Annotated[Any, _shape("affinity")] | None = None
    """Where the Pod may or should run."""
    runtime_class_name: ObjectName | None = None
    """The Pod's RuntimeClass."""
    priority_class_name: ObjectName | None = None
    """The Pod's PriorityClass."""
    image_pull_secrets: Annotated[Any, _shape("imagePullSecrets")] | None = None
    """Secrets to pull the image with."""
    pod_metadata: Annotated[Any, _shape("podMetadata")] | None = None
    """Labels and annotations to add to the Pod."""

    @property
    def deadline_s(self) -> int:
        """Seconds an operation may run."""
        return DEADLINE_S if self.active_deadline_seconds is None else self.active_deadline_seconds
