"""Writes an OCI image archive of one static program, without any container tool."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def _entry(name: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def _layer(program: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        data = program.read_bytes()
        tar.addfile(_entry(program.name, len(data), 0o755), io.BytesIO(data))
    return out.getvalue()


def write(archive: Path, name: str, program: Path) -> None:
    """Write an archive of an image that runs the program as an unprivileged user.

    :param name: of the image, with a tag.
    """
    blobs: dict[str, bytes] = {}

    def keep(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    layer = _layer(program)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": keep(json.dumps(config).encode(), "config.v1+json"),
        "layers": [keep(gzip.compress(layer, mtime=0), "layer.v1.tar+gzip")],
    }
    described = keep(json.dumps(manifest).encode(), "manifest.v1+json")
    described["annotations"] = {"io.containerd.image.name": name}
    index = {"schemaVersion": 2, "manifests": [described]}
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
        **{f"blobs/sha256/{digest}": data for digest, data in blobs.items()},
    }
    with tarfile.open(archive, "w") as tar:
        for path, data in files.items():
            tar.addfile(_entry(path, len(data), 0o644), io.BytesIO(data))
