"""``charts/ptahk/crds``: one CustomResourceDefinition a file (C-2.3)."""

from ptahk.api import crd

HEAD = "# Written by `scripts/generate.py crds` from ptahk/engine/model; do not edit.\n"


def files() -> dict[str, str]:
    """The files of the chart."""
    return {
        f"charts/ptahk/crds/{item['spec']['names']['plural']}.yaml": HEAD + crd.to_yaml(item)
        for item in crd.documents()
    }
