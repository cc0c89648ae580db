"""What a watch of many resources costs: start-up, memory, and one event's work for the census.

The API server is a thread that answers with prepared bytes, so the figures are ours: reading,
checking against the model, indexing. Each size runs in a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks._report import Row, median
from ptahk.backends.kube.census import CensusIndex
from ptahk.backends.kube.client import Client
from ptahk.backends.kube.informer import Informer
from ptahk.engine.model.status import Status, render
from ptahk.engine.ports import Document, Key
from tests.kit.loopback import Reply, Request, loopback

SIZES = (100, 1000)
EVENT_BOUND = 1.5
"""An event among 1,000 resources costs at most so many times one among 100 (C-6.4)."""
SQL = "CREATE TABLE account (id bigint PRIMARY KEY, name text NOT NULL, balance numeric);\n"


def rows(rounds: int, version: int) -> list[Row]:
    """The figures. ``version`` plays no part."""
    found: dict[int, list[dict[str, float]]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.watching", str(size)],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            found[size].append(json.loads(done.stdout))

    def figure(size: int, name: str) -> float:
        return median(each[name] for each in found[size])

    small, large = SIZES
    ratio = median(
        b["event_s"] / a["event_s"] for a, b in zip(found[small], found[large], strict=True)
    )
    return [
        Row(f"watch: {large} resources listed, checked, indexed", figure(large, "sync_s"), "s"),
        Row("… for each resource", figure(large, "sync_s") / large * 1e6, "µs"),
        Row("… memory for each", figure(large, "bytes") / large / 1024, "KiB"),
        Row(f"census: one event among {large}", figure(large, "event_s") * 1e6, "µs"),
        Row(f"… against {small}", ratio, "x", EVENT_BOUND),
    ]


def resource_of(number: int) -> Document:
    """A resource of some 4 KiB, at rest."""
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return {
        "apiVersion": "ptahk.dev/v1alpha1",
        "kind": "PtahSchema",
        "metadata": {
            "namespace": f"team-{number % 20}", "name": f"schema-{number}", "uid": uid,
            "resourceVersion": str(1000 + number), "generation": 1,
        },
        "spec": {
            "target": {
                "engine": "postgresql", "coordinationKey": f"database-{number}",
                "urlFrom": {"name": "url", "key": "url"},
            },
            "desired": {"inline": SQL * 40},
        },
        "status": render(Status(uid, observed_generation=1, phase="InSync")),
    }  # fmt: skip


def _measure(size: int) -> dict[str, float]:
    items = [json.dumps(resource_of(number)) for number in range(size)]

    def handler(request: Request, reply: Reply) -> None:
        query = parse_qs(urlsplit(request.target).query)
        if "watch" in query:
            reply.chunked()
            reply.hang()
            return
        start, page = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        more = str(start + page) if start + page < size else ""
        head = json.dumps({"resourceVersion": "9999", "continue": more})
        part = ",".join(items[start : start + page])
        reply.body(200, f'{{"metadata":{head},"items":[{part}]}}'.encode())

    with tempfile.TemporaryDirectory() as folder, loopback(handler) as server:
        client = Client.load(server.kubeconfig(Path(folder)), None)
        informer = Informer(client, "PtahSchema", on_change=lambda key: None)
        index = CensusIndex(informer)
        client.request("GET", "/warm", query={"limit": "1"})
        before = _memory()
        began = time.perf_counter()
        informer.start()
        informer.synced.wait(120.0)
        lasted = time.perf_counter() - began
        used = _memory() - before
        event_s = _event(informer, index, size)
        informer.stop()
        client.close()
    return {"sync_s": lasted, "bytes": used, "event_s": event_s}


def _event(informer: Informer, index: CensusIndex, size: int) -> float:
    """Median seconds of processor time of one event's work for the index."""
    spent: list[float] = []
    for number in range(0, size, max(1, size // 100)):
        key = Key("PtahSchema", f"team-{number % 20}", f"schema-{number}")
        old: Any = informer.get(key)
        new = {**old, "spec": old["spec"] | {"suspend": True}}
        began = time.thread_time()
        index.update(old, new)
        spent.append(time.thread_time() - began)
    return median(spent)


def _memory() -> float:
    """Bytes in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
