"""``ptahk crds``: the CustomResourceDefinitions, for ``kubectl apply --server-side -f -``."""

from __future__ import annotations

import json
from typing import Annotated

from ptahk.commands._options import choice


def crds(
    output: Annotated[
        str,
        choice("--output", "-o", values=("yaml", "json"), help="yaml: one document a kind."),
    ] = "yaml",
) -> int:
    """Print the CRDs: ptahk crds | kubectl apply --server-side -f -"""
    from ptahk.api import crd
    from ptahk.commands import _render

    documents = list(crd.documents())
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": documents}
        _render.write(json.dumps(listed, indent=2) + "\n")
    else:
        _render.write("---\n".join(crd.to_yaml(item) for item in documents))
    return 0
