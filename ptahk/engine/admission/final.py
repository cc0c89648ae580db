"""The Pod that an API server makes of a Job's template: what it adds is computed, never guessed.

Pod defaulting and the built-in admission plugins add a handful of things, each of which follows
from the template and the admission snapshot. So the final Pod is known beforehand, as a whole, and
is compared as a whole: whatever else is in it was added on the way, and whatever is missing was
taken out. Order and values follow the sources of Kubernetes 1.36 (``plugin/pkg/admission``).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ptahk.engine.ports import Document

VERSION: Final = 2
"""Of the snapshot's form."""
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
LIMIT_RANGER: Final = "kubernetes.io/limit-ranger"
DEFAULT_SECONDS: Final = 300
"""``--default-not-ready-toleration-seconds`` and its sibling, where nobody set them."""
DIFFERENCES_TOLD: Final = 5

_QOS_RESOURCES: Final = ("cpu", "memory")


class Unforeseen(ValueError):
    """Template or snapshot is not of the form that the final Pod can be told from."""


def behaviour(
    not_ready_s: int | None = DEFAULT_SECONDS,
    unreachable_s: int | None = DEFAULT_SECONDS,
    *,
    always_pull_images: bool = False,
    extended_resource_toleration: bool = False,
) -> dict[str, Any]:
    """The API server's own admission, as the installation declares it; part of every snapshot.

    :param not_ready_s: seconds of the default toleration; None: the plugin is switched off.
    """
    found: dict[str, Any] = {"notReadySeconds": not_ready_s, "unreachableSeconds": unreachable_s}
    if always_pull_images:
        found["alwaysPullImages"] = True
    if extended_resource_toleration:
        found["extendedResourceToleration"] = True
    return found


def spec(template: Mapping[str, Any], snapshot: Mapping[str, Any]) -> Document:
    """``spec`` of the final Pod.

    :param template: ``spec.template`` as read back from the Job: with defaults, canonical.
    :param snapshot: of the claim.
    :raises Unforeseen: one of them is damaged.
    """
    try:
        found = dict(template["spec"])
        found["containers"] = [dict(container) for container in found["containers"]]
        _resources(found["containers"], snapshot["defaults"])
        _service_account(found, snapshot["serviceAccount"])
        admission = snapshot["admission"]
        if admission.get("alwaysPullImages"):
            for container in found["containers"]:
                container["imagePullPolicy"] = "Always"
        _merge_selector(found, admission.get("nodeSelector") or {})
        _priority(found, snapshot["priorityClass"])
        tolerations = list(found.get("tolerations") or [])
        tolerations += _default_tolerations(tolerations, admission)
        tolerations = _of_the_namespace(tolerations, admission, found["containers"])
        if admission.get("extendedResourceToleration"):
            tolerations = _extended(tolerations, found["containers"])
        tolerations = _runtime_class(found, tolerations, snapshot["runtimeClass"])
        if tolerations:
            found["tolerations"] = tolerations
        return found
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise Unforeseen(f"{type(error).__name__}: {error}") from None


def annotations(template: Mapping[str, Any], snapshot: Mapping[str, Any]) -> dict[str, str]:
    """Annotations of the final Pod: the template's, and what LimitRanger says that it did.

    :raises Unforeseen: template or snapshot is damaged.
    """
    try:
        found = dict((template.get("metadata") or {}).get("annotations") or {})
        told = []
        for container in template["spec"]["containers"]:
            limits, requests = _missing(container, snapshot["defaults"])
            for amounts, what in ((requests, "request"), (limits, "limit")):
                if amounts:
                    told.append(f"{', '.join(sorted(amounts))} {what} for container "
                                f"{container['name']}")  # fmt: skip
        if told:
            found[LIMIT_RANGER] = "LimitRanger plugin set: " + "; ".join(told)
        return found
    except (KeyError, TypeError, AttributeError) as error:
        raise Unforeseen(f"{type(error).__name__}: {error}") from None


def _missing(
    container: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Limits and requests that LimitRanger sets: of keys that the container has not."""
    given = container.get("resources") or {}
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    # Pod defaulting comes first and takes a missing request from its limit.
    stated = set(limits) | set(requests)
    return (
        {key: value for key, value in defaults["limits"].items() if key not in limits},
        {key: value for key, value in defaults["requests"].items() if key not in stated},
    )


def _resources(containers: Iterable[Document], defaults: Mapping[str, Any]) -> None:
    for container in containers:
        given = container.get("resources") or {}
        limits, requests = dict(given.get("limits") or {}), dict(given.get("requests") or {})
        for key, value in limits.items():
            requests.setdefault(key, value)
        more_limits, more_requests = _missing(container, defaults)
        limits |= more_limits
        requests |= more_requests
        whole = dict(given)
        if limits:
            whole["limits"] = limits
        if requests:
            whole["requests"] = requests
        if whole or "resources" in container:
            container["resources"] = whole


def _service_account(found: Document, account: Mapping[str, Any]) -> None:
    name = found.setdefault("serviceAccountName", "default")
    found.setdefault("serviceAccount", name)
    if not found.get("imagePullSecrets") and account["imagePullSecrets"]:
        found["imagePullSecrets"] = [{"name": item} for item in account["imagePullSecrets"]]


def _merge_selector(found: Document, more: Mapping[str, str]) -> None:
    if more:
        found["nodeSelector"] = {**more, **(found.get("nodeSelector") or {})}


def _priority(found: Document, kind: Mapping[str, Any] | None) -> None:
    found["priority"] = 0 if kind is None else kind["value"]
    policy = "PreemptLowerPriority" if kind is None else kind["preemptionPolicy"]
    found["preemptionPolicy"] = policy
    if kind is not None:
        found.setdefault("priorityClassName", kind["name"])


def _default_tolerations(
    tolerations: list[Document], admission: Mapping[str, Any]
) -> Iterator[Document]:
    """DefaultTolerationSeconds: each taint that nothing in the template tolerates."""
    for taint, seconds in (
        (NOT_READY, admission["notReadySeconds"]),
        (UNREACHABLE, admission["unreachableSeconds"]),
    ):
        tolerated = any(
            item.get("key", "") in ("", taint) and item.get("effect", "") in ("", "NoExecute")
            for item in tolerations
        )
        if seconds is not None and not tolerated:
            yield {
                "key": taint, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": seconds,
            }  # fmt: skip


def _of_the_namespace(
    tolerations: list[Document], admission: Mapping[str, Any], containers: list[Document]
) -> list[Document]:
    """PodTolerationRestriction, where the snapshot holds what it adds in this namespace."""
    more = admission.get("namespaceTolerations")
    if more is None:
        return tolerations
    extra = list(more)
    if _quality(containers) != "BestEffort":
        extra.append({"key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"})
    return merged(tolerations, extra) if extra else tolerations


def _extended(tolerations: list[Document], containers: list[Document]) -> list[Document]:
    """ExtendedResourceToleration: one for each resource that is not Kubernetes' own."""
    asked = {
        key
        for container in containers
        for key in (container.get("resources") or {}).get("requests") or {}
        if "/" in key and "kubernetes.io/" not in key and not key.startswith("requests.")
    }
    found = list(tolerations)
    for key in sorted(asked):
        wanted = {"key": key, "operator": "Exists", "effect": "NoSchedule"}
        if wanted not in found:
            found.append(wanted)
    return found


def _runtime_class(
    found: Document, tolerations: list[Document], kind: Mapping[str, Any] | None
) -> list[Document]:
    if kind is None:
        return tolerations
    if kind["overhead"]:
        found["overhead"] = dict(kind["overhead"])
    if not kind["scheduling"]:
        return tolerations
    _merge_selector(found, kind["nodeSelector"])
    return merged(tolerations, kind["tolerations"])


def merged(first: Iterable[Document], second: Iterable[Document]) -> list[Document]:
    """``MergeTolerations`` of Kubernetes: a toleration that another includes is dropped."""
    every = [*first, *second]
    kept: list[Document] = []
    for index, item in enumerate(every):
        if any(_includes(other, item) for other in kept):
            continue
        if any(item != other and _includes(other, item) for other in every[index + 1 :]):
            continue
        kept.append(item)
    return kept


def _includes(wide: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """``isSuperset`` of Kubernetes, its oddities included."""
    if wide == item:
        return True
    key, operator = wide.get("key", ""), wide.get("operator", "")
    if item.get("key", "") != key and (key or operator != "Exists"):
        return False
    effect = wide.get("effect", "")
    if effect and item.get("effect", "") != effect:
        return False
    seconds = wide.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None:
        theirs = item.get("tolerationSeconds")
        if theirs is None or theirs > seconds:
            return False
    if operator in ("", "Equal"):
        same: bool = item.get("value", "") == wide.get("value", "")
        return same and item.get("operator", "") == "Equal"
    return bool(operator == "Exists")


def quality(pod: Mapping[str, Any]) -> str:
    """``status.qosClass`` of a Pod's spec."""
    return _quality(pod["containers"])


def _quality(containers: list[Document]) -> str:
    found = [container.get("resources") or {} for container in containers]
    used = [_amounts(item, which) for item in found for which in ("requests", "limits")]
    if not any(used):
        return "BestEffort"
    guaranteed = all(
        len(_amounts(item, "limits")) == len(_QOS_RESOURCES)
        and _amounts(item, "limits") == _amounts(item, "requests")
        for item in found
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _amounts(resources: Mapping[str, Any], which: str) -> dict[str, str]:
    """Of CPU and memory, those that are not nothing."""
    given = resources.get(which) or {}
    return {key: given[key] for key in _QOS_RESOURCES if given.get(key, "0") != "0"}


def differences(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """What was added to, taken out of, or changed in a document; by path, never by value.

    Strict: ``1`` is not ``true`` and not ``1.0``; what is absent is not what is null.
    """
    if type(wanted) is not type(found):
        yield f"{path} was changed"
    elif isinstance(wanted, dict):
        for key in sorted({*wanted, *found}):
            where = f"{path}.{key}" if path else key
            if key not in found:
                yield f"{where} was taken out"
            elif key not in wanted:
                yield f"{where} was added"
            else:
                yield from differences(wanted[key], found[key], where)
    elif isinstance(wanted, list):
        for index in range(max(len(wanted), len(found))):
            where = f"{path}[{index}]"
            if index >= len(found):
                yield f"{where} was taken out"
            elif index >= len(wanted):
                yield f"{where} was added"
            else:
                yield from differences(wanted[index], found[index], where)
    elif wanted != found:
        yield f"{path} was changed"


def told(found: Iterable[str]) -> str:
    """Differences for a person: the first few. Empty: there is none."""
    every = list(found)
    more = len(every) - DIFFERENCES_TOLD
    text = "; ".join(every[:DIFFERENCES_TOLD])
    return f"{text}; and {more} more" if more > 0 else text
