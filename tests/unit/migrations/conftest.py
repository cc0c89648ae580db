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
        return reading.read(files, engine=engine, layout=layout, before=before, **options)  # type: ignore[arg-type]

    return read_directory
