"""Directories written down as dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ptahk.migrations import reading
from ptahk.migrations.files import SourceFile, read

Reader = Callable[..., reading.Found]


@pytest.fixture
def directory() -> Reader:
    """Read ``{name: text}`` as a migration directory."""

    def read_directory(
        texts: Mapping[str, str | bytes], engine: Any = "postgresql", layout: Any = None,
        **options: Any,
    ) -> reading.Found:  # fmt: skip
        files, before = [], []
        for name, text in texts.items():
            data = text if isinstance(text, bytes) else text.encode()
            found = read(name, data)
            (files if isinstance(found, SourceFile) else before).append(found)  # type: ignore[arg-type]
        whole = reading.read(files, engine=engine, layout=layout, before=before, **options)  # type: ignore[arg-type]
        named = reading.by_names(files, engine=engine, layout=layout)  # type: ignore[arg-type]
        told = {(each.number, each.file) for each in whole.findings}
        assert {(each.number, each.file) for each in named} <= told, "names condemn what is read"
        return whole

    return read_directory
