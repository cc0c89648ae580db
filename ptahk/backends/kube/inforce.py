"""Whether the admission policies are in the cluster as this version has them (C-12.4).

Nothing that the manager may do shows what a policy refuses others, so the policies and their
bindings are read. What is listed at every look is their metadata; the whole is read again when a
resourceVersion says that something changed. An API server without policies, or one that has not
taken them up yet, is another matter: that is tried (``admission``).
"""

from typing import Any, Final

from ptahk.backends.kube import policies, stamps
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.jobs import METADATA
from ptahk.backends.kube.kinds import Kind
from ptahk.backends.kube.policy import API, LABELS
from ptahk.engine.ports import Document

KINDS: Final = (
    Kind("ValidatingAdmissionPolicy", API, "validatingadmissionpolicies", namespaced=False),
    Kind(
        "ValidatingAdmissionPolicyBinding", API, "validatingadmissionpolicybindings",
        namespaced=False, status=False,
    ),
)  # fmt: skip
_OURS: Final = {"labelSelector": ",".join(f"{key}={value}" for key, value in LABELS.items())}
_NOTHING: Final[tuple[Any, ...]] = (None, "", {}, [])

Name = tuple[str, str]
"""Kind and name."""


class KubePolicies:
    """The policies of one cluster. One thread uses it.

    :param namespace: of the release: the manager's identity is part of the policies.
    :param timeout_s: of one request.
    """

    def __init__(self, client: Client, namespace: str, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s
        user = policies.manager(namespace)
        self._wanted: dict[Name, Document] = {
            _name(item["kind"], item): item["spec"]
            for item in (*policies.documents(user), *stamps.documents(user))
        }
        self._good: dict[Name, str] = {}
        """What was found right → the resourceVersion at which it was."""

    def missing(self) -> str | None:
        """Which one is not as it should be, for a person; None: all are.

        :raises PortError: they cannot be read.
        """
        for kind in KINDS:
            listed = self._list(kind, METADATA)
            if all(self._good.get(name) == _version(item) for name, item in listed.items()):
                told = self._absent(kind, listed)
            else:
                told = self._judged(kind, self._list(kind, None))
            if told is not None:
                return told
        return None

    def _list(self, kind: Kind, accept: str | None) -> dict[Name, Document]:
        answer = self._client.request(
            "GET", kind.path(), query=_OURS, accept=accept, timeout_s=self._timeout_s
        )
        listed = answer.document().get("items") or ()
        return {
            name: item for item in listed if (name := _name(kind.name, item)) in self._wanted
        }  # others' policies are their own business

    def _absent(self, kind: Kind, listed: dict[Name, Document]) -> str | None:
        for name in self._wanted:
            if name[0] == kind.name and name not in listed:
                return f"{' '.join(name)} is not in the cluster"
        return None

    def _judged(self, kind: Kind, listed: dict[Name, Document]) -> str | None:
        told = self._absent(kind, listed)
        if told is not None:
            return told
        for name, item in listed.items():
            self._good.pop(name, None)
            if not same(self._wanted[name], item.get("spec")):
                return f"{' '.join(name)} is not as this version of ptahk has it"
            self._good[name] = _version(item)
        return None


def same(wanted: Any, found: Any) -> bool:
    """Whether a stored spec says what was rendered: what the API server adds has to be empty."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and same(item, found[key]) for key, item in wanted.items()) and all(
            item in _NOTHING for key, item in found.items() if key not in wanted
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    return type(wanted) is type(found) and bool(wanted == found)


def _name(kind: str, item: Document) -> Name:
    return kind, str(item["metadata"]["name"])


def _version(item: Document) -> str:
    return str(item["metadata"]["resourceVersion"])
