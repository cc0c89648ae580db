"""PtahMigration's spec (C-2.1), as far as the census and the codec read it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ptahk.engine.model.fields import FieldError, read
from ptahk.engine.model.resource import (
    ApplyPolicy,
    ConfigMapKey,
    Execution,
    OciReference,
    Target,
    parse_duration,
)

MIGRATION = "PtahMigration"

Format = Literal["ptahk", "atlas", "golang-migrate", "goose", "dbmate", "flyway", "diesel"]


def _placeholders(value: Any) -> Any:
    if value == "off":
        return value
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise FieldError("", "must be a map of texts, or off")
    return value


def _duration(seconds: float) -> float:
    return field(default=seconds, metadata={"read": parse_duration})


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """``spec.policy`` of a PtahMigration."""

    apply: ApplyPolicy = "OnApproval"
    lock_timeout: float = _duration(3.0)
    coordination_timeout: float = _duration(60.0)
    transaction_mode: Literal["file", "none"] = "file"
    ahead: Literal["Refuse", "Accept"] = "Refuse"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Exactly one place of the migration directory."""

    config_map_ref: ConfigMapKey | None = None
    oci_ref: OciReference | None = None

    def __post_init__(self) -> None:
        if (self.config_map_ref is None) == (self.oci_ref is None):
            raise FieldError("", "must have exactly one of configMapRef and ociRef")


@dataclass(frozen=True, slots=True)
class Session:
    """Session settings of the MySQL family."""

    foreign_key_checks: bool = True


@dataclass(frozen=True, slots=True)
class MigrationSpec:
    """``spec`` of a PtahMigration."""

    target: Target
    artifact: Artifact | None = None
    policy: MigrationPolicy = field(default_factory=MigrationPolicy)
    format: Format | None = None
    stream: str = "default"
    history_table: str | None = None
    placeholders: Mapping[str, str] | str | None = field(
        default=None, metadata={"read": _placeholders}
    )
    session: Session = field(default_factory=Session)
    interval: float = _duration(600.0)
    suspend: bool = False
    execution: Execution = field(default_factory=Execution)


def parse_migration_spec(document: Any) -> MigrationSpec:
    """``spec`` of a PtahMigration document. :raises FieldError: path and rule."""
    return read(MigrationSpec, document, ".spec")
