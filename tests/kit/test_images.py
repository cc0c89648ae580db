"""The names under which images are kept: by what went into them, and by nothing else."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.kit import images, ociarchive
from tests.kit.presence import present


def _sources(folder: Path) -> Path:
    (folder / "ptahk" / "__pycache__").mkdir(parents=True)
    (folder / "locks").mkdir()
    (folder / "locks" / "manager.txt").write_text("x==1\n")
    for name in ("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"):
        (folder / name).write_text(name)
    (folder / "ptahk" / "__init__.py").write_text("version = 1\n")
    (folder / "ptahk" / "__pycache__" / "x.pyc").write_text("one")
    return folder


def test_the_bytes_of_the_sources_name_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _sources(tmp_path / "root")
    monkeypatch.setattr(images, "ROOT", root)

    def name() -> str:
        target = tmp_path / f"context-{len(list(tmp_path.iterdir()))}"
        target.mkdir()
        return images.copy_context(target)

    first = name()
    os.utime(root / "README.md", (1, 1))
    (root / "ptahk" / "__pycache__" / "x.pyc").write_text("two")
    (root / "ptahk" / "__init__.py").chmod(0o755)
    assert name() == first
    (root / "ptahk" / "__init__.py").write_text("version = 2\n")
    second = name()
    assert second != first
    (root / "ptahk" / "empty.py").touch()
    assert name() not in (first, second)


def test_an_archive_of_one_program_is_an_oci_image(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    archive = tmp_path / "pause.tar"
    ociarchive.write(archive, "ptahk.test/pause:1", program)
    with tarfile.open(archive) as tar:
        files = {entry.name: _read(tar, entry.name) for entry in tar}
    [described] = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files[_blob(described)])
    config = json.loads(files[_blob(manifest["config"])])
    assert config["config"] == {"Entrypoint": ["/pause"], "User": "65532:65532"}
    [layer] = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(files[_blob(layer)]), mode="r:gz") as tar:
        assert _read(tar, "pause") == b"\x7fELF"
        assert tar.getmember("pause").mode == 0o755


LIMITS = {"executor": 150, "manager": 200}
"""Megabytes above the base, unpacked."""


@pytest.mark.parametrize("target", images.TARGETS)
def test_an_image_is_small_and_runs_as_nobody(target: str) -> None:
    built = present(images.build)[target]
    with tarfile.open(built.archive) as tar:
        index = json.loads(_read(tar, "index.json"))
        manifest = json.loads(_read(tar, _blob(index["manifests"][0])))
        config = json.loads(_read(tar, _blob(manifest["config"])))
        # The first is the base, which is somebody else's.
        size, names = 0, set()
        for layer in manifest["layers"][1:]:
            with tarfile.open(fileobj=io.BytesIO(_read(tar, _blob(layer)))) as files:
                for entry in files:
                    size += entry.size
                    names.add(entry.name)
    assert size <= LIMITS[target] * 10**6, f"{size / 10**6:.0f} MB"
    assert config["config"]["User"] == "65532:65532"
    assert config["created"].startswith("2020-01-01"), "no time of the build is in it"
    packages = {name.partition("site-packages/")[2].partition("/")[0] for name in names}
    assert "ptahk" in packages
    assert ("kubernetes" in packages) == (target == "manager")
    assert not {"pip", "setuptools", "pytest"} & packages


def test_equal_sources_give_equal_images() -> None:
    """Every file of every layer, its time and its owner: a layer's digest covers them all."""
    built = present(images.build)
    first = {target: images.content(Path(image.archive)) for target, image in built.items()}
    assert images.build_again() == first


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    found = tar.extractfile(name)
    assert found is not None
    return found.read()


def _blob(described: dict[str, str]) -> str:
    return f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"
