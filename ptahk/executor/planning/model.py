"""Values the planner works on, and the questions a kind of object answers. Pure.

The rule everything follows from: the user's SQL text is never compared with the server's. Both
sides are read with the same queries from the same server, and facts hold server-deparsed text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

Severity = Literal["safe", "warning", "privilege", "destructive"]
SEVERITIES: tuple[Severity, ...] = ("safe", "warning", "privilege", "destructive")

Facts = Mapping[str, Any]
"""JSON values only; an absent key means the server's default, so ``None`` is never stored.

Reserved keys, the same on every kind:

``@``
    From ``Kind.read`` only, removed by the catalog: the addresses (see ``Address``) that this
    object answers to in ``pg_depend``. The first is its own; a view adds those of its rewrite
    rule and row type, a constraint that of its index, so that no dependency is lost. Comment,
    owner and privileges are looked up by the first.
``owner``, ``acl``, ``comment``
    Filled by the catalog for every kind, in three queries; kinds neither read nor write them
    (``kinds/common.py`` makes the steps). ``owner`` is a role's name. ``acl`` is absent for
    the kind's default, else a sorted list of ``[who, role, privilege, grantable]``, where who
    is ``owner``, ``public`` or ``role`` and role is empty for the first two.
"""

Address = tuple[int, int, int]
"""``(classid, objid, objsubid)`` as in ``pg_depend``; class ids in ``kinds/address.py``."""

Query = Callable[..., Sequence[tuple[Any, ...]]]
"""``query(sql, params=()) -> rows`` on one session with ``search_path = ''``."""


_CALLED: Final = frozenset({"function", "procedure", "aggregate", "operator"})
"""Kinds whose names end in argument types, and read so: ``function public.f(integer, text)``."""


class ObjectId(NamedTuple):
    """One object of a database: its kind and its unquoted name parts.

    Examples: ``("table", ("public", "orders"))``, ``("column", ("public", "orders", "id"))``,
    ``("function", ("public", "f", "integer, text"))`` (identity arguments as the server
    prints them). A tuple, since tens of thousands are hashed in every plan.
    """

    kind: str
    name: tuple[str, ...]

    def __str__(self) -> str:
        if self.kind in _CALLED:
            called, arguments = self.name[:2], self.name[2:]
            return f"{self.kind} {'.'.join(called)}({', '.join(arguments)})"
        return f"{self.kind} {'.'.join(self.name)}"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything read of one database within a scope."""

    objects: Mapping[ObjectId, Facts]
    depends: frozenset[tuple[ObjectId, ObjectId]]
    """Pairs (dependent, referenced)."""
    sizes_bytes: Mapping[ObjectId, int] = field(default_factory=dict)
    """Size of each table, where it was asked for; never fingerprinted."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """Server version and the like; never fingerprinted."""
    digests: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Digests of these very objects, once computed; a copy starts without."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is read and planned (C-10.6)."""

    schemas: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    """Globs over ``schema.name`` (``policy.exclude``)."""


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename that a person declared (C-10.7); sides qualified, ``schema.table[.column]``."""

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
    each_alone: bool = False
    """Every statement commits by itself (``transactionMode: none``)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement before it is ordered, grouped and numbered."""

    sql: str
    kind: str
    """CamelCase verb and object, as ``CreateTable``, ``AlterColumnType``, ``Grant``.

    ``CheckData`` is a read-only query on the live state that answers one message a row for what
    the plan cannot keep; the planner puts these first, and any row (or data error) refuses.
    """
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
    """Answer of ``Kind.alter``: no in-place form exists; drop and create, dependents too.

    Columns cannot be dropped with a type that they use. A type therefore sets ``aside``: the
    statement that renames the old type out of the way, and the one that drops it at the end.
    The columns in between are converted with ``USING``, through text where the type is an enum.
    """

    reason: str
    severity: Severity = "warning"
    aside: tuple[Step, Step] | None = None


@dataclass(frozen=True, slots=True)
class Alter:
    """Answer of ``Kind.alter``: an in-place form before which some dependents must stand aside.

    Live dependents (transitive ones too) of the kinds in ``displaces`` are dropped before the
    steps and created again after them, with comments and grants, whether they changed or not;
    those of ``displaces_changed`` only where they changed too. Foreign keys among the
    constraints are called ``foreign key`` here.
    """

    steps: list[Step]
    displaces: frozenset[str] = frozenset()
    displaces_changed: frozenset[str] = frozenset()
    reason: str = ""


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
    inline: Mapping[ObjectId, tuple[ObjectId, ...]] = field(default_factory=dict)
    """What a created object's own statement carries: columns, defaults and constraints, in the
    order of the catalog."""
    rebuilt: frozenset[ObjectId] = frozenset()
    """Objects that are dropped and created again by this plan."""
    parents: frozenset[ObjectId] = frozenset()
    """Tables that other tables inherit from or are partitions of, on either side."""


class Kind(Protocol):
    """The questions one kind of object answers. The planner orders; the kind only answers.

    The catalog leaves out extension members and excluded objects, and the planner does
    dependencies, comments, owners and grants; none of that is a kind's business. ``alter`` is
    called with facts that differ in more than the reserved keys.
    """

    name: str

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]: ...

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step] | PlanRefusal: ...

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step] | PlanRefusal: ...

    def alter(
        self, ctx: Context, oid: ObjectId, old: Facts, new: Facts
    ) -> list[Step] | Alter | Rebuild | PlanRefusal: ...
