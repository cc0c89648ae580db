"""The API server of a test, in raw JSON: what it really answers, however our client reads it."""

from __future__ import annotations

import functools
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from ptahk.api import crd
from tests.kit.controlplane import Cluster
from tests.kit.waiting import until

ADMINISTRATORS = ("system:masters",)
ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Answered:
    """Status and document of one answer."""

    status: int
    document: dict[str, Any]

    @property
    def message(self) -> str:
        """What an error says."""
        return str(self.document.get("message", ""))

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that an error names."""
        causes = (self.document.get("details") or {}).get("causes") or ()
        return tuple(str(cause.get("field")) for cause in causes)


@dataclass(frozen=True)
class RawApi:
    """One identity at one cluster."""

    cluster: Cluster
    user: str = "rawapi"
    groups: tuple[str, ...] = ADMINISTRATORS

    @functools.cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context(cafile=str(self.cluster.ca))
        pair = self.cluster.identity(self.user, self.groups)
        context.load_cert_chain(pair.certificate, pair.key)
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json",
        **query: str,
    ) -> Answered:  # fmt: skip
        """One request. An error is an answer too."""
        url = self.cluster.url + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        try:
            with self._opener.open(request, timeout=ANSWER_S) as answer:
                return Answered(answer.status, json.loads(answer.read() or b"{}"))
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return Answered(error.code, json.loads(text))
            except ValueError:
                return Answered(error.code, {"message": text.decode(errors="replace")})

    def make(self, body: dict[str, Any], namespace: str, **query: str) -> Answered:
        """Create a resource of ours, unknown fields refused."""
        query = {"fieldValidation": "Strict", **query}
        return self.call("POST", resources(body["kind"], namespace), body, **query)


def resources(kind: str, namespace: str, name: str = "", *rest: str) -> str:
    """The path of a kind of ours, of one resource, or of a part of it."""
    plural = next((item.plural for item in crd.RESOURCES if item.kind == kind), kind.lower() + "s")
    parts = ["/apis", crd.GROUP, crd.VERSION, "namespaces", namespace, plural]
    return "/".join([*parts, *([name] if name else []), *rest])


def install_crds(cluster: Cluster) -> None:
    """Install the CRDs, or bring them up to date, and wait until they are served."""
    api = RawApi(cluster)
    base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for document in crd.documents():
        path = f"{base}/{document['metadata']['name']}"
        done = api.call(
            "PATCH", path, document, kind="application/apply-patch+yaml",
            fieldManager="tests", force="true",
        )  # fmt: skip
        assert done.status in (200, 201), done.message
    names = [document["metadata"]["name"] for document in crd.documents()]
    until(lambda: all(_served(api, f"{base}/{name}") for name in names), "the CRDs", ANSWER_S)


def _served(api: RawApi, path: str) -> bool:
    conditions = (api.call("GET", path).document.get("status") or {}).get("conditions") or ()
    found = {item["type"]: item["status"] for item in conditions}
    plural = path.rpartition("/")[2].partition(".")[0]
    listed = api.call("GET", f"/apis/{crd.GROUP}/{crd.VERSION}/{plural}", limit="1")
    return found.get("Established") == "True" and listed.status == 200
