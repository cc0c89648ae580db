"""Values the planner works on, and the questions a kind of object answers. Pure.

The rule everything follows from: the user's SQL text is never compared with the server's. Both
sides are read with the same queries from the same server, and facts hold server-deparsed text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Severity = Literal["safe", "warning", "privilege", "destructive"]
SEVERITIES: tuple[Severity, ...] = ("safe", "warning", "privilege", "destructive")

Facts = Mapping[str, Any]
"""JSON values only. ``owner``, ``acl`` and ``comment`` mean the same on every kind."""

Query = Callable[..., Sequence[tuple[Any, ...]]]
"""``query(sql, params=()) -> rows`` on one session with ``search_path = ''``."""


@dataclass(frozen=True, order=True, slots=True)
class ObjectId:
    """One object of a database: its kind and its unquoted name parts.

    Examples: ``("table", ("public", "orders"))``, ``("column", ("public", "orders", "id"))``,
    ``("function", ("public", "f", "integer, text"))`` (identity arguments as the server
    prints them).
    """

    kind: str
    name: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(self.name)}"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything read of one database within a scope."""

    objects: Mapping[ObjectId, Facts]
    depends: frozenset[tuple[ObjectId, ObjectId]]
    """Pairs (dependent, referenced)."""
    sizes_bytes: Mapping[ObjectId, int] = field(default_factory=dict)
    """Total size of each table; never fingerprinted."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """Server version and the like; never fingerprinted."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is read and planned (C-10.6)."""

    schemas: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    """Globs over ``schema.name`` (``policy.exclude``)."""


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename that a person declared (C-10.7); both sides qualified, ``schema.table[.column]``."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """The part of ``spec.policy`` that planning reads."""

    allow_destructive: bool = False
    protected_tables: tuple[str, ...] = ()
    privileges: Literal["Declared", "Managed"] = "Declared"
    partitions: Literal["Declared", "Managed"] = "Declared"
    renames: tuple[Rename, ...] = ()
    lock_timeout_s: float = 3.0
    deadline_s: int = 900
    deadline_explicit: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One statement before it is ordered, grouped and numbered."""

    sql: str
    kind: str
    """CamelCase verb and object, as ``CreateTable``, ``AlterColumnType``, ``Grant``."""
    object: ObjectId
    severity: Severity = "safe"
    lock: str = ""
    """Strongest lock it takes on an existing relation, as ``AccessExclusiveLock public.orders``."""
    reason: str = ""
    """Why the severity is what it is; never empty above ``safe``."""
    transaction: bool = True
    """False for what cannot run in a transaction block (CREATE INDEX CONCURRENTLY and its kind)."""
    commit_before: bool = False
    """True where the statement uses what an earlier one must have committed (new enum values)."""
    lock_timeout_s: float | None = None
    """None: ``policy.lockTimeout``; 0: unbounded within the execution deadline."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Answer of ``Kind.alter``: no in-place form exists; drop and create, dependents too."""

    reason: str
    severity: Severity = "warning"


@dataclass(frozen=True, slots=True)
class PlanRefusal:
    """The plan cannot be made. Names the object; never silent."""

    reason: str
    message: str
    object: ObjectId | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a builder may look at beside its own object."""

    current: Catalog
    desired: Catalog
    policy: Policy
    server_version: int
    """As ``server_version_num``."""


class Kind(Protocol):
    """The questions one kind of object answers. The planner orders; the kind only answers."""

    name: str

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]: ...

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step]: ...

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]: ...

    def alter(
        self, ctx: Context, oid: ObjectId, old: Facts, new: Facts
    ) -> list[Step] | Rebuild | PlanRefusal: ...
