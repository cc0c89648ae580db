"""The chart's admission policies, from the same definitions as the Job builder (C-12.2, C-12.3)."""

from collections.abc import Iterable
from typing import Any

import yaml

from ptahk.backends.kube import policies, policy, stamps

HEAD = "# Written by `scripts/generate.py policies` from ptahk/backends/kube; do not edit.\n"
USER = policies.manager("{{ .Release.Namespace }}")
HAS_STAMPS = f'.Capabilities.APIVersions.Has "{policy.API}/MutatingAdmissionPolicy"'


def _text(documents: Iterable[dict[str, Any]], only_if: str | None = None) -> str:
    listed = yaml.safe_dump_all(
        documents, sort_keys=False, allow_unicode=True, width=100, explicit_start=True
    )
    if only_if is None:
        return HEAD + listed
    return f"{HEAD}{{{{- if {only_if} }}}}\n{listed}{{{{- end }}}}\n"


def files() -> dict[str, str]:
    """The files of the chart."""
    templates = "charts/ptahk/templates"
    return {
        f"{templates}/policies.yaml": _text([*policies.documents(USER), *stamps.documents(USER)]),
        f"{templates}/policies-stamps.yaml": _text(stamps.stamping(), HAS_STAMPS),
        f"{templates}/policies-other-person.yaml": _text(
            stamps.other_person(), ".Values.approvals.byAnotherPerson"
        ),
    }
