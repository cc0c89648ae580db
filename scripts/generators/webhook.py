"""The chart's webhook configuration, from what the guard itself is built of (C-12.1)."""

import yaml

from ptahk.backends.kube import admission, vault
from ptahk.serve import webhook

HEAD = "# Written by `scripts/generate.py webhook` from ptahk/backends/kube; do not edit.\n"
INJECTED = """\
  {{- if .Values.certManager.enabled }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/ptahk-webhook
  {{- end }}
"""


def files() -> dict[str, str]:
    """The file of the chart. The bundle is written by the manager, or by cert-manager."""
    service = {
        "namespace": "{{ .Release.Namespace }}", "name": vault.SERVICE, "path": webhook.PATH,
        "port": 443,
    }  # fmt: skip
    document = admission.configuration({"service": service}, vault.CONFIGURATION)
    document["metadata"]["labels"] = {"app.kubernetes.io/name": "ptahk"}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    head, webhooks = text.split("webhooks:\n")
    path = "charts/ptahk/templates/webhook-configuration.yaml"
    return {path: f"{HEAD}{head}{INJECTED}webhooks:\n{webhooks}"}
