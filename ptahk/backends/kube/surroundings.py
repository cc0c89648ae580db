"""The admission snapshot (contract section 3, step 3): what of a cluster shapes an operation's Pod.

ServiceAccount, LimitRanges, RuntimeClass and PriorityClass, each by name, uid and
resourceVersion, with what the API server will add to the Pod because of it. Where that cannot be
foretold the answer is a refusal that names the object: a Pod that differs from its snapshot
would be denied later, with the claim dispatched.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ptahk.backends.kube.client import Client
from ptahk.backends.kube.kinds import KINDS
from ptahk.backends.kube.pod import quantity
from ptahk.backends.kube.reading import fault_of, list_all
from ptahk.engine.admission import final
from ptahk.engine.ports import Document, NotFound, Refusal, Unavailable
from ptahk.wire import digest

PLUGINS: Final = (
    "AlwaysPullImages", "ExtendedResourceToleration", "PodNodeSelector", "PodTolerationRestriction",
)  # fmt: skip
"""Plugins that change Pods and that an administrator may have switched on."""
NODE_SELECTOR: Final = "scheduler.alpha.kubernetes.io/node-selector"
TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
_FIELD: Final = "spec.execution"


@dataclass(frozen=True, slots=True)
class Declared:
    """The API server's own admission, as the installation states it.

    :ivar not_ready_s: seconds of the default toleration; None: the plugin is switched off.
    :ivar plugins: of ``PLUGINS``, those that are switched on.
    """

    not_ready_s: int | None = final.DEFAULT_SECONDS
    unreachable_s: int | None = final.DEFAULT_SECONDS
    plugins: frozenset[str] = frozenset()


class Unpredictable(Exception):
    """The final Pod cannot be foretold; ``args``: message and field."""


class KubeSurroundings:
    """Surroundings of one cluster.

    :param declared: what the API server does beyond the objects that are read here.
    """

    def __init__(self, client: Client, *, declared: Declared | None = None) -> None:
        self._client = client
        self._declared = declared or Declared()

    def snapshot(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any] | Refusal:
        """The snapshot now, or what is absent or cannot be foretold."""
        try:
            return {
                "version": final.VERSION,
                "serviceAccount": self._service_account(namespace, execution),
                **self._limits(namespace, execution),
                "runtimeClass": self._runtime_class(execution),
                "priorityClass": self._priority_class(execution),
                "admission": self._admission(namespace, execution),
                # A change of it moves what is built, as a change of any object here does.
                "execution": digest.input_fingerprint("execution", dict(execution)),
            }
        except Unpredictable as error:
            message, field = error.args
            return Refusal("ExecutionRefused", message, field)

    def _service_account(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any]:
        name = execution.get("serviceAccountName") or "default"
        found = self._named("ServiceAccount", name, f"{_FIELD}.serviceAccountName", namespace)
        secrets = [] if execution.get("imagePullSecrets") else found.get("imagePullSecrets") or []
        return {**_identity(found), "imagePullSecrets": [str(item["name"]) for item in secrets]}

    def _limits(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any]:
        items, _ = list_all(self._client, KINDS["LimitRange"], namespace)
        ranges = sorted(_checked(items, "LimitRange"), key=lambda item: item["metadata"]["name"])
        given = execution.get("resources") or {}
        limits, requests = given.get("limits") or {}, given.get("requests") or {}
        more = _defaults(ranges, "default", set(limits))
        for resource, amount in requests.items():
            if resource in more and quantity(amount) > quantity(more[resource]):
                names = ", ".join(item["metadata"]["name"] for item in ranges)
                text = f"the request of {resource} is above the limit that LimitRange {names} sets"
                raise Unpredictable(text, f"{_FIELD}.resources")
        return {
            "limitRanges": [_identity(item) for item in ranges],
            "defaults": {
                "limits": more,
                # Pod defaulting comes first and takes a missing request from its limit.
                "requests": _defaults(ranges, "defaultRequest", set(requests) | set(limits)),
            },
        }

    def _admission(self, namespace: str, execution: Mapping[str, Any]) -> dict[str, Any]:
        declared = self._declared
        found = final.behaviour(
            declared.not_ready_s,
            declared.unreachable_s,
            always_pull_images="AlwaysPullImages" in declared.plugins,
            extended_resource_toleration="ExtendedResourceToleration" in declared.plugins,
        )
        if not declared.plugins & {"PodNodeSelector", "PodTolerationRestriction"}:
            return found
        place = self._named("Namespace", namespace, "metadata.namespace")
        annotations = place["metadata"].get("annotations") or {}
        if "PodNodeSelector" in declared.plugins:
            selector = _labels(annotations.get(NODE_SELECTOR) or "")
            _agreeing(selector, execution, f"namespace {namespace}")
            found["nodeSelector"] = selector
        if "PodTolerationRestriction" in declared.plugins:
            found["namespaceTolerations"] = _tolerations(annotations.get(TOLERATIONS) or "[]")
        return found

    def _runtime_class(self, execution: Mapping[str, Any]) -> dict[str, Any] | None:
        name = execution.get("runtimeClassName")
        if not name:
            return None
        field = f"{_FIELD}.runtimeClassName"
        found = self._named("RuntimeClass", name, field)
        scheduling = found.get("scheduling") or {}
        selector = dict(scheduling.get("nodeSelector") or {})
        _agreeing(selector, execution, f"RuntimeClass {name}")
        return {
            **_identity(found),
            "handler": str(found.get("handler", "")),
            # Where there is any, the Pod's own tolerations are tidied up too.
            "scheduling": found.get("scheduling") is not None,
            "overhead": dict((found.get("overhead") or {}).get("podFixed") or {}),
            "nodeSelector": selector,
            "tolerations": list(scheduling.get("tolerations") or []),
        }

    def _priority_class(self, execution: Mapping[str, Any]) -> dict[str, Any] | None:
        field = f"{_FIELD}.priorityClassName"
        name = execution.get("priorityClassName")
        if name:
            found = self._named("PriorityClass", name, field)
        else:
            items, _ = list_all(self._client, KINDS["PriorityClass"])
            defaults = [
                item for item in _checked(items, "PriorityClass") if item.get("globalDefault")
            ]
            if not defaults:
                return None
            if len(defaults) > 1:
                names = ", ".join(sorted(item["metadata"]["name"] for item in defaults))
                raise Unpredictable(f"several PriorityClasses are the default: {names}", field)
            found = defaults[0]
        return {
            **_identity(found),
            "value": int(found.get("value") or 0),
            "preemptionPolicy": str(found.get("preemptionPolicy") or "PreemptLowerPriority"),
            "globalDefault": not name,
        }

    def _named(self, kind: str, name: str, field: str, namespace: str | None = None) -> Document:
        """An object that must exist. :raises Unpredictable: it does not."""
        served = KINDS[kind]
        try:
            found = self._client.request("GET", served.path(namespace, name)).document()
        except NotFound:
            where = "" if namespace is None else f" in namespace {namespace}"
            raise Unpredictable(f"{kind} {name} does not exist{where}", field) from None
        (document,) = _checked([found], kind)
        if document["metadata"]["name"] != name:
            raise Unavailable(f"{kind} {name}: the answer is another object")
        return document


def _checked(items: Iterable[Any], kind: str) -> list[Document]:
    found = list(items)
    for item in found:
        fault = fault_of(item, KINDS[kind])
        if fault is not None:
            raise Unavailable(f"{kind}: {fault}")
    return found


def _identity(document: Document) -> dict[str, Any]:
    metadata = document["metadata"]
    return {key: metadata[key] for key in ("name", "uid", "resourceVersion")}


def _agreeing(selector: Mapping[str, str], execution: Mapping[str, Any], who: str) -> None:
    for key, value in (execution.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            text = f"{who} wants another value of node label {key}"
            raise Unpredictable(text, f"{_FIELD}.nodeSelector")


def _labels(text: str) -> dict[str, str]:
    """``a=b,c=d``, as PodNodeSelector reads it."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(separator and key.strip() for key, separator, _ in pairs):
        raise Unpredictable(f"annotation {NODE_SELECTOR} is not as a=b,c=d", "metadata.namespace")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _tolerations(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise Unpredictable(
            f"annotation {TOLERATIONS} is no list of tolerations", "metadata.namespace"
        )
    return found


def _defaults(ranges: list[Document], field: str, given: set[str]) -> dict[str, str]:
    """What LimitRanger sets of each resource that the container does not name itself.

    With two LimitRanges that disagree, whichever the API server happens to see first counts.
    """
    found: dict[str, dict[str, str]] = {}
    for item in ranges:
        for limit in (item.get("spec") or {}).get("limits") or []:
            if limit.get("type") != "Container":
                continue
            for resource, amount in (limit.get(field) or {}).items():
                if resource not in given:
                    found.setdefault(resource, {})[item["metadata"]["name"]] = str(amount)
    for resource, amounts in sorted(found.items()):
        if len(set(amounts.values())) > 1:
            names = ", ".join(sorted(amounts))
            text = f"LimitRanges {names} give different defaults of {resource}"
            raise Unpredictable(text, f"{_FIELD}.resources")
    return {resource: next(iter(amounts.values())) for resource, amounts in sorted(found.items())}
