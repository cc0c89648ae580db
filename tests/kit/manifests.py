"""Manifests that are good, and manifests that are not: what the codec and a cluster must agree on.

Each bad one says what the codec answers and what an API server with our CRDs answers. Where only
the codec can refuse, it says why; the suite of the CRDs holds that list exact (C-2.3).
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahSchema
metadata:
  name: orders
  namespace: shop
  labels: {team: billing}
spec:
  target:
    engine: postgresql
    coordinationKey: production/orders
    sharedRealm: true
    urlFrom: {name: orders-db, key: url}
  desired:
    inline: |
      CREATE TABLE t (a int);
  policy:
    apply: Always
    lockTimeout: 5s
    exclude: ["audit.*"]
    renames: [{from: public.a, to: public.b}]
  execution: {activeDeadlineSeconds: 60}
"""

SHAPED = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahSchema
metadata: {name: shaped.v2, namespace: shop}
spec:
  target:
    engine: PostgreSQL
    coordinationKey: "schlüssel mit Leerraum"
    tlsFrom: {configMap: ca}
  desired: {configMapRef: {name: schema, key: schema.sql}}
  policy:
    apply: Never
    lockTimeout: 1h2m3.5s
    coordinationTimeout: 500ms
    transactionMode: none
    allowDestructive: true
    schemas: [app, '"Weird Name"']
    protectedTables: [app.ledger]
    privileges: Managed
    partitions: Managed
    driftSeverity: destructive
  interval: 0
  suspend: true
  dev: {urlFrom: {name: scratch}, template: template_app}
  execution:
    failureRetryInterval: 2m
    connectTimeout: 0s
    serviceAccountName: runner
    resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 2, nvidia.com/gpu: "1"}}
    nodeSelector: {kubernetes.io/os: linux, disk: ""}
    tolerations:
    - {key: dedicated, operator: Equal, value: db, effect: NoExecute, tolerationSeconds: 30}
    - {operator: Exists}
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 10
          preference: {matchExpressions: [{key: cores, operator: Gt, values: ["3"]}]}
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {app: ptahk}}
    runtimeClassName: gvisor
    priorityClassName: low
    imagePullSecrets: [{name: registry}]
    podMetadata: {labels: {team: billing}, annotations: {note: "any text: ü"}}
"""

BARE = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahSchema
metadata: {name: bare, namespace: shop}
spec: {target: {engine: postgres, coordinationKey: k}}
"""

MIGRATION = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahMigration
metadata: {name: orders}
spec:
  target: {engine: mysql, coordinationKey: k}
  artifact: {configMapRef: {name: files}}
  policy: {ahead: Accept}
  placeholders: {a: b}
  suspend: true
"""

FLYWAY = """
apiVersion: ptahk.dev/v1alpha1
kind: PtahMigration
metadata: {name: flyway, namespace: shop}
spec:
  target: {engine: MariaDB, coordinationKey: k}
  artifact: {ociRef: {reference: registry.example/app@sha256:0}}
  format: flyway
  stream: app
  historyTable: app.flyway_schema_history
  placeholders: "off"
  session: {foreignKeyChecks: false}
  interval: "0"
"""

APPROVAL = f"""
apiVersion: ptahk.dev/v1alpha1
kind: PtahApproval
metadata: {{name: yes-1}}
spec:
  resource: {{kind: PtahSchema, name: orders, uid: u}}
  plan: {{name: p, uid: v}}
  fingerprint: sha256:{"0" * 64}
  approver: {{username: ann}}
"""

GOOD = (SCHEMA, SHAPED, BARE, MIGRATION, FLYWAY, APPROVAL)


@dataclass(frozen=True, slots=True)
class Bad:
    """One manifest that is refused."""

    name: str
    text: str
    line: int
    """Where the codec says it is."""
    field: str
    """Part of the field that the codec names."""
    rule: str
    """Part of the rule that the codec names."""
    server: str | None
    """Field that an API server names; None: it cannot refuse this."""
    codec_only: str = ""
    """Why it cannot."""


def change(old: str, new: str, text: str = SCHEMA) -> str:
    """A manifest with one part changed."""
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _bad(
    name: str, old: str, new: str, line: int, field: str, rule: str,
    server: str | None = "", why: str = "", text: str = SCHEMA,
) -> Bad:  # fmt: skip
    """One part of a good manifest changed; ``server`` "" is the codec's own field."""
    named = field.lstrip(".") if server == "" else server
    return Bad(name, change(old, new, text), line, field, rule, named, why)


_CLIENT = "no object is sent: it is a property of the file"
_KEYS = "a structural schema has no rule for the names of a map's entries"

BAD: tuple[Bad, ...] = (
    # The whole document.
    Bad("not an object", "- a\n", 1, "document", "an object", None, _CLIENT),
    Bad("nothing of a resource", "a: 1\n", 1, ".apiVersion", "required", None, _CLIENT),
    _bad("unknown kind", "kind: PtahSchema", "kind: PtahThing", 3, ".kind", "must be one of",
         None, "there is no such path"),
    _bad("unknown version", "v1alpha1", "v9", 2, ".apiVersion", "must be ptahk.dev/v1alpha1",
         None, "there is no such path"),
    _bad("spec misspelt", "spec:\n", "sepc:\n", 8, ".sepc", "unknown"),
    # Metadata, which every kind of a cluster shares.
    _bad("upper-case name", "name: orders\n", "name: Orders\n", 5, ".metadata.name", "DNS"),
    _bad("empty label of a name", "name: orders\n", "name: a..b\n", 5, ".metadata.name", "DNS"),
    _bad("dotted namespace", "namespace: shop", "namespace: a.b", 6, ".metadata.namespace", "DNS",
         None, "the namespace is part of the request's path"),
    _bad("namespace misspelt", "namespace: shop", "nmspace: shop", 6, ".metadata.nmspace",
         "unknown"),
    _bad("a label that is a list", "team: billing", "team: [1]", 7, ".metadata.labels", "texts",
         None, "the request is no object metadata: refused without a field's name"),
    _bad("a label's key", "team: billing", "'a b': c", 7, ".metadata.labels", "qualified"),
    _bad("a label's value", "team: billing", "team: 'a b'", 7, ".metadata.labels", "label"),
    # Types, enumerations and unknown fields.
    _bad("field misspelt", "lockTimeout: 5s", "lockTimeuot: 5s", 19, ".spec.policy.lockTimeuot",
         "unknown"),
    _bad("no duration", "lockTimeout: 5s", "lockTimeout: s3cret", 19, ".spec.policy.lockTimeout",
         "durat"),
    _bad("empty duration", "lockTimeout: 5s", "lockTimeout: ''", 19, ".spec.policy.lockTimeout",
         "durat"),
    _bad("a bare number", "lockTimeout: 5s", "lockTimeout: 5", 19, ".spec.policy.lockTimeout",
         "durat"),
    _bad("digits of another script", "lockTimeout: 5s", "lockTimeout: ٥s", 19,
         ".spec.policy.lockTimeout", "durat"),
    _bad("an endless duration", "lockTimeout: 5s", "lockTimeout: 99999h", 19,
         ".spec.policy.lockTimeout", "durat"),
    _bad("no such policy", "apply: Always", "apply: s3cret", 18, ".spec.policy.apply",
         "must be one of"),
    _bad("text for a truth", "sharedRealm: true", "sharedRealm: yes", 12,
         ".spec.target.sharedRealm", "true or"),
    _bad("a null", "sharedRealm: true", "sharedRealm: null", 12, ".spec.target.sharedRealm",
         "true or", None, "a cluster drops it"),
    _bad("text for a list", '["audit.*"]', "audit", 20, ".spec.policy.exclude", "must be a list"),
    _bad("a number for a text", '["audit.*"]', "[1]", 20, ".spec.policy.exclude[0]",
         "must be text"),
    _bad("an empty text", '["audit.*"]', "[a, '']", 20, ".spec.policy.exclude[1]",
         "must not be empty"),
    _bad("a rename without an end", "from: public.a, to: public.b", "from: public.a", 21,
         ".spec.policy.renames[0].to", "required"),
    # Bounds.
    _bad("a short deadline", "activeDeadlineSeconds: 60", "activeDeadlineSeconds: 29", 22,
         ".spec.execution.activeDeadlineSeconds", "at least 30"),
    _bad("a long deadline", "activeDeadlineSeconds: 60", "activeDeadlineSeconds: 86401", 22,
         ".spec.execution.activeDeadlineSeconds", "at most 86400"),
    _bad("a long name", "name: orders-db", f"name: {'x' * 300}", 13, ".spec.target.urlFrom.name",
         "at most 253"),
    _bad("a long glob", '["audit.*"]', f"[{'x' * 600}]", 20, ".spec.policy.exclude[0]",
         "at most 512"),
    _bad("a long list", '["audit.*"]', f"[{', '.join(['a'] * 257)}]", 20, ".spec.policy.exclude",
         "at most 256 items"),
    _bad("a long declaration", "CREATE TABLE t (a int);", "-- " + "x" * 200 * 1024, 15,
         ".spec.desired.inline", "at most"),
    _bad("a declaration of many bytes", "CREATE TABLE t (a int);", "-- " + "ü" * 120 * 1024, 15,
         ".spec.desired.inline", "at most 204800 bytes"),
    # Patterns and rules.
    _bad("no engine of ours", "engine: postgresql", "engine: oracle", 10, ".spec.target.engine",
         "engine"),
    _bad("letters that fold", "engine: postgresql", "engine: poſtgreſql", 10,
         ".spec.target.engine", "engine"),
    _bad("an empty key", "Key: production/orders", "Key: ''", 11, ".spec.target.coordinationKey",
         "must not be empty"),
    _bad("a key of no realm", "Key: production/orders", "Key: 'local:x'", 11,
         ".spec.target.coordinationKey", "local:"),
    _bad("no key", "    coordinationKey: production/orders\n", "", 9,
         ".spec.target.coordinationKey", "required"),
    _bad("a Secret's key", "key: url}", "key: 'a b'}", 13, ".spec.target.urlFrom.key",
         "must be a key"),
    _bad("two sources", "inline: |", "ociRef: {reference: r}\n    inline: |", 14, ".spec.desired",
         "exactly one"),
    _bad("no source", "desired: {configMapRef: {name: schema, key: schema.sql}}", "desired: {}", 10,
         ".spec.desired", "exactly one", text=SHAPED),
    _bad("two places of certificates", "tlsFrom: {configMap: ca}",
         "tlsFrom: {configMap: ca, secret: ca}", 9, ".spec.target.tlsFrom", "exactly one",
         text=SHAPED),
    # The Pod's shape.
    _bad("no quantity", "cpu: 500m", "cpu: half", 29, ".spec.execution.resources.requests.cpu",
         "quantity", text=SHAPED),
    _bad("a negative quantity", "cpu: 2,", "cpu: -2,", 29, ".spec.execution.resources.limits.cpu",
         "quantity", text=SHAPED),
    _bad("a toleration of nothing", "- {operator: Exists}", "- {operator: Equal}", 33,
         ".spec.execution.tolerations[1]", "must have a key", text=SHAPED),
    _bad("a value of Exists", "- {operator: Exists}", "- {operator: Exists, value: x}", 33,
         ".spec.execution.tolerations[1]", "no value", text=SHAPED),
    _bad("seconds of nothing", "effect: NoExecute, ", "", 32, ".spec.execution.tolerations[0]",
         "effect NoExecute", text=SHAPED),
    _bad("In of nothing", "values: [a, b]", "values: []", 38,
         ".spec.execution.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
         ".nodeSelectorTerms[0].matchExpressions[0]", "must fit the operator", text=SHAPED),
    _bad("a weight", "weight: 10", "weight: 101", 40,
         ".spec.execution.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
         "[0].weight", "at most 100", text=SHAPED),
    _bad("a node label's value", "disk: \"\"", "disk: 'a b'", 30,
         ".spec.execution.nodeSelector.disk", "label's value", text=SHAPED),
    _bad("a node label's key", "disk: \"\"", "'a b': x", 30, ".spec.execution.nodeSelector",
         "qualified name", None, _KEYS, text=SHAPED),
    # PtahMigration.
    _bad("placeholders of a word", "placeholders: {a: b}", "placeholders: on", 9,
         ".spec.placeholders", "or off", text=MIGRATION),
    _bad("placeholders in a list", "placeholders: {a: b}", "placeholders: [a]", 9,
         ".spec.placeholders", "or off", text=MIGRATION),
    _bad("a placeholder's number", "placeholders: {a: b}", "placeholders: {a: 1}", 9,
         ".spec.placeholders", "or off", None,
         "a map or a word has no structural type, so what is in the map is not described",
         text=MIGRATION),
    _bad("a format", "format: flyway", "format: liquibase", 8, ".spec.format", "must be one of",
         text=FLYWAY),
    # PtahApproval.
    _bad("no fingerprint", f"sha256:{'0' * 64}", "sha256:0", 8, ".spec.fingerprint", "64 hex",
         text=APPROVAL),
    _bad("no approver", "approver: {username: ann}", "approver: {}", 9,
         ".spec.approver.username", "required", text=APPROVAL),
)  # fmt: skip
