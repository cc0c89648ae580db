"""The chart's manifests without helm: plain values put in, and nothing else understood.

Whatever a template uses beyond ``{{ .Release.Namespace }}`` and ``{{ .Values.x.y }}`` is an error
here, so that a test never takes half a template for the whole.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2] / "charts" / "ptahk"
ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
NAME = re.compile(r"\.(Release\.Namespace|Values(?:\.\w+)+)")


def values(**changes: Any) -> dict[str, Any]:
    """The chart's values, with top-level ones changed."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "values.yaml").read_text())
    return found | changes


def render(template: str, namespace: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The documents of one template.

    :raises ValueError: it uses what this does not understand.
    """

    def put(match: "re.Match[str]") -> str:
        action = match[1].strip()
        named = NAME.fullmatch(action)
        if named is None:
            raise ValueError(f"{template}: {action}")
        if named[1] == "Release.Namespace":
            return namespace
        found: Any = given
        for part in named[1].split(".")[1:]:
            found = found[part]
        return str(found)

    text = ACTION.sub(put, (ROOT / "templates" / template).read_text())
    return [document for document in yaml.safe_load_all(text) if document is not None]
