"""The two resources that a world begins with."""

from typing import Any

from ptahk.engine.model.resource import API_VERSION, REQUEST, Request, request_text
from ptahk.engine.ports import Document
from tests.kit import toy

NAMES = ("a", "b")


def resource(name: str, local: bool) -> Document:
    """As a person declares it; on a local store with a request that is open."""
    metadata: dict[str, Any] = {"namespace": "local", "name": name}
    if local:
        request = Request(NAMES[NAMES.index(name)] * 32, "plan")
        metadata["annotations"] = {REQUEST: request_text(request)}
    target: dict[str, Any] = {
        "engine": "postgresql", "coordinationKey": "test/db", "sharedRealm": not local,
    }  # fmt: skip
    if not local:
        target["urlFrom"] = {"name": "database"}
    return {
        "apiVersion": API_VERSION,
        "kind": toy.KIND,
        "metadata": metadata,
        "spec": {
            "target": target,
            "mark": name,
            "execution": {"activeDeadlineSeconds": 30, "failureRetryInterval": "30s"},
        },
    }  # fmt: skip


def uid(name: str) -> str:
    """Its uid, the same in every run."""
    return f"00000000-0000-4000-8000-00000000000{name}"
