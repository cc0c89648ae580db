"""PtahMigration's spec (C-2.1), as far as the census and the codec read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ptahk.engine.model.bounds import Identifier
from ptahk.engine.model.execution import Execution
from ptahk.engine.model.fields import Duration, FieldError, Reads, read
from ptahk.engine.model.limits import MaxLen, MinLen
from ptahk.engine.model.resource import ApplyPolicy, ConfigMapKey, Declared, OciReference, Target

MIGRATION = "PtahMigration"
PLACEHOLDERS_MAX = 256

READ_SUFFIXES = (".sql", ".sum", ".conf", ".toml")
"""Files of a migration directory that say something; others are left alone."""

Format = Literal["ptahk", "atlas", "golang-migrate", "goose", "dbmate", "flyway", "diesel"]


def parse_placeholders(value: Any) -> Any:
    """A map of texts, or ``off``. :raises FieldError: anything else."""
    if value == "off":
        return value
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise FieldError("", "must be a map of texts, or off")
    if len(value) > PLACEHOLDERS_MAX:
        raise FieldError("", f"has more than {PLACEHOLDERS_MAX} entries")
    return value


Placeholders = Annotated[Mapping[str, str] | str, Reads(parse_placeholders)]


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """What may be applied."""

    apply: ApplyPolicy = "OnApproval"
    """OnApproval: a person approves each sequence. Always: no approval is needed, save where one
    always is. Never: what is pending is only shown."""
    lock_timeout: Duration = 3.0
    """How long one statement waits for a relation or metadata lock."""
    coordination_timeout: Duration = 60.0
    """How long an operation waits for the database's advisory lock."""
    transaction_mode: Literal["file", "none"] = "file"
    """file: one transaction a file. none: each statement commits alone."""
    ahead: Literal["Refuse", "Accept"] = "Refuse"
    """Accept: a database that is ahead of the files (an application rolled back) is Ready."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Exactly one place of the migration directory."""

    config_map_ref: ConfigMapKey | None = None
    """The files in a ConfigMap."""
    oci_ref: OciReference | None = None
    """The files in a registry."""

    def __post_init__(self) -> None:
        if (self.config_map_ref is None) == (self.oci_ref is None):
            raise FieldError("", "must have exactly one of configMapRef and ociRef")


@dataclass(frozen=True, slots=True)
class Session:
    """Session settings of the MySQL family."""

    foreign_key_checks: bool = True
    """Checks foreign keys while the files run."""


@dataclass(frozen=True, slots=True)
class MigrationSpec:
    """What is wanted of one database: a versioned sequence of files, run in order."""

    target: Target
    """Which database."""
    artifact: Artifact | None = None
    """The migration directory. Without it nothing runs yet."""
    policy: MigrationPolicy = field(default_factory=MigrationPolicy)
    """What may be applied."""
    format: Format | None = None
    """Layout of the directory. Without it: detected."""
    stream: Annotated[str, MinLen(1), MaxLen(64)] = "default"
    """Names this sequence in the database, so that several share it."""
    history_table: Identifier | None = None
    """Another tool's history table, qualified."""
    placeholders: Placeholders | None = None
    """Values of flyway's placeholders, or off."""
    session: Session = field(default_factory=Session)
    """Session settings of the MySQL family."""
    interval: Duration = 600.0
    """Time between readings of the history; 0: none."""
    suspend: bool = False
    """Starts nothing new; what runs or is owed is brought to its end."""
    execution: Execution = field(default_factory=Execution)
    """How operations run."""

    @property
    def apply_policy(self) -> ApplyPolicy:
        return self.policy.apply

    @property
    def coordination_timeout_s(self) -> float:
        return self.policy.coordination_timeout

    @property
    def declared(self) -> Declared | None:
        if self.artifact is None:
            return None
        artifact = self.artifact
        return Declared("artifact", None, artifact.config_map_ref, artifact.oci_ref, READ_SUFFIXES)


def parse_migration_spec(document: Any) -> MigrationSpec:
    """``spec`` of a PtahMigration document. :raises FieldError: path and rule."""
    return read(MigrationSpec, document, ".spec")
