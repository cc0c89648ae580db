"""Every kind of object that the planner claims, in the order in which equals are created."""

from __future__ import annotations

from ptahk.executor.dialects.postgres.kinds.aggregate import AggregateKind
from ptahk.executor.dialects.postgres.kinds.column import ColumnKind
from ptahk.executor.dialects.postgres.kinds.composite import CompositeKind
from ptahk.executor.dialects.postgres.kinds.constraint import ConstraintKind
from ptahk.executor.dialects.postgres.kinds.default import DefaultKind
from ptahk.executor.dialects.postgres.kinds.domain import DomainConstraintKind, DomainKind
from ptahk.executor.dialects.postgres.kinds.enum import EnumKind
from ptahk.executor.dialects.postgres.kinds.extension import ExtensionKind
from ptahk.executor.dialects.postgres.kinds.function import FunctionKind
from ptahk.executor.dialects.postgres.kinds.index import IndexKind
from ptahk.executor.dialects.postgres.kinds.lineage import InheritanceKind, PartitionKind
from ptahk.executor.dialects.postgres.kinds.operator import OperatorKind
from ptahk.executor.dialects.postgres.kinds.policy import PolicyKind
from ptahk.executor.dialects.postgres.kinds.privileges import DefaultPrivilegesKind
from ptahk.executor.dialects.postgres.kinds.range import RangeKind
from ptahk.executor.dialects.postgres.kinds.rule import RuleKind
from ptahk.executor.dialects.postgres.kinds.schema import SchemaKind
from ptahk.executor.dialects.postgres.kinds.sequence import SequenceKind, SequenceOwnerKind
from ptahk.executor.dialects.postgres.kinds.table import TableKind
from ptahk.executor.dialects.postgres.kinds.trigger import TriggerKind
from ptahk.executor.dialects.postgres.kinds.unsupported import UNSUPPORTED
from ptahk.executor.dialects.postgres.kinds.view import MaterializedViewKind, ViewKind
from ptahk.executor.planning.model import Kind

KINDS: tuple[Kind, ...] = (
    *UNSUPPORTED,
    SchemaKind(),
    ExtensionKind(),
    EnumKind(),
    DomainKind(),
    DomainConstraintKind(),
    CompositeKind(),
    RangeKind(),
    FunctionKind("function", ("f", "w")),
    FunctionKind("procedure", ("p",)),
    AggregateKind(),
    OperatorKind(),
    SequenceKind(),
    TableKind(),
    ColumnKind(),
    DefaultKind(),
    SequenceOwnerKind(),
    ConstraintKind(),
    PartitionKind(),
    InheritanceKind(),
    IndexKind(),
    ViewKind(),
    MaterializedViewKind(),
    RuleKind(),
    TriggerKind(),
    PolicyKind(),
    # Last, so that they do not reach what the same plan creates.
    DefaultPrivilegesKind(),
)
