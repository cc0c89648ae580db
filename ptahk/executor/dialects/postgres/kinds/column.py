"""Columns: type, collation, not null, identity, generation, storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptahk.executor.dialects.postgres import shape
from ptahk.executor.dialects.postgres.kinds import (
    columnfacts,
    columntype,
    identity,
    lineage,
    relation,
)
from ptahk.executor.dialects.postgres.kinds.columnfacts import CATALOGED_NOT_NULL
from ptahk.executor.dialects.postgres.quote import ident, literal, object_name, qualified
from ptahk.executor.planning.model import (
    Alter,
    Context,
    Facts,
    ObjectId,
    PlanRefusal,
    Query,
    Rebuild,
    Scope,
    Step,
)

_STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "m": "MAIN", "x": "EXTENDED"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}
_GENERATED = ("generated", "virtual")


class ColumnKind:
    """``ADD COLUMN`` and what of a column can change in place."""

    name = "column"

    def read(self, query: Query, scope: Scope) -> Iterable[tuple[ObjectId, Facts]]:
        return columnfacts.read(query, scope)

    def create(self, ctx: Context, oid: ObjectId, new: Facts) -> list[Step] | PlanRefusal:
        table = relation.table_of(oid)
        inherited = bool(new.get("inherited"))
        if inherited and (relation.is_new(ctx, table) or any(lineage.reaching(ctx, oid))):
            return _overrides(ctx, oid, new)
        name = qualified(table.name)
        inline = ctx.inline.get(oid, ())
        text = definition(ctx, oid, new, inline)
        steps: list[Step] = []
        existing = not relation.is_new(ctx, table)
        if existing and _needs_value(new, inline):
            steps.append(_no_rows(oid))
        reason = _rewrite_reason(ctx, oid, new, inline) if existing else ""
        steps.append(
            Step(
                f"ALTER TABLE {name} ADD COLUMN {text}",
                "AddColumn",
                oid,
                "warning" if reason else "safe",
                relation.lock("AccessExclusiveLock", table.name) if existing else "",
                reason,
            )
        )
        return steps + _settings(oid, {}, new, create=True, retyped=False)

    def drop(self, ctx: Context, oid: ObjectId, old: Facts) -> list[Step]:
        if any(lineage.reaching(ctx, oid)):
            return []  # goes with its parent's
        if _is_generated(old):
            severity, reason = "warning", "drops the column; its values are computed from others"
        else:
            severity, reason = "destructive", "drops the column with its values"
        tables = [oid.name[:2], *lineage.children_that_keep(ctx, oid)]
        return [
            Step(
                f"ALTER TABLE {qualified(table)} DROP COLUMN {ident(oid.name[2])}",
                "DropColumn",
                oid,
                "destructive" if severity == "destructive" else "warning",
                relation.lock("AccessExclusiveLock", table),
                reason,
            )
            for table in tables
        ]

    def alter(
        self, ctx: Context, oid: ObjectId, old: Facts, new: Facts
    ) -> list[Step] | Alter | Rebuild | PlanRefusal:
        steps: list[Step] = []
        if _is_generated(old) or _is_generated(new):
            answer = _regenerate(ctx, oid, old, new)
            if isinstance(answer, Rebuild):
                return answer
            steps += answer
        if old.get("identity") and not new.get("identity"):
            steps += identity.alter(ctx, oid, old, new)
        retyped = columntype.change(ctx, oid, old, new)
        if isinstance(retyped, PlanRefusal):
            return retyped
        steps += retyped.steps
        steps += _not_null(ctx, oid, old, new)
        if new.get("identity"):
            steps += identity.alter(ctx, oid, old, new)
        steps += _settings(oid, old, new, create=False, retyped=bool(retyped.displaces))
        return Alter(steps, retyped.displaces, retyped.displaces_changed, retyped.reason)


def _is_generated(facts: Facts) -> bool:
    return "generated" in facts


def definition(ctx: Context, oid: ObjectId, new: Facts, inline: Sequence[ObjectId]) -> str:
    """The column as it stands in CREATE TABLE and ADD COLUMN."""
    text = f"{ident(oid.name[2])} {new['type']}"
    if "compression" in new:
        text += f" COMPRESSION {_COMPRESSION[new['compression']]}"
    if "collation" in new:
        text += f" COLLATE {new['collation']}"
    default = ObjectId("default", oid.name)
    if default in inline:
        text += f" DEFAULT {ctx.desired.objects[default]['expression']}"
    if "generated" in new:
        how = "VIRTUAL" if new.get("virtual") else "STORED"
        text += f" GENERATED ALWAYS AS ({new['generated']}) {how}"
    if "identity" in new:
        text += f" {identity.clause(oid, new['identity'])}"
    return text + not_null_clause(new)


def not_null_clause(new: Facts) -> str:
    """`` NOT NULL`` with its name where it is not the server's own choice."""
    if not new.get("not_null") or new.get("not_null_not_valid"):
        return ""
    name = f" CONSTRAINT {ident(new['not_null_name'])}" if "not_null_name" in new else ""
    return f"{name} NOT NULL" + (" NO INHERIT" if new.get("not_null_no_inherit") else "")


def definitions(
    ctx: Context, table: ObjectId, facts: Facts, inline: Sequence[ObjectId]
) -> list[str]:
    """Column definitions of a new table, in the declared order; for a child, what it adds."""
    result = []
    for oid in inline:
        if oid.kind != "column":
            continue
        new = ctx.desired.objects[oid]
        if not new.get("inherited") or not shape.lineage(facts):
            result.append(definition(ctx, oid, new, inline))
        elif "partition_of" in facts:
            text = _partition_override(ctx, oid, new, facts, inline)
            if text:
                result.append(text)
    return result


def _partition_override(
    ctx: Context, oid: ObjectId, new: Facts, table: Facts, inline: Sequence[ObjectId]
) -> str:
    """What a partition's column says beyond its parent's."""
    parent = (*table["partition_of"], oid.name[2])
    text = ""
    default = ObjectId("default", oid.name)
    own = ctx.desired.objects.get(default, {}).get("expression")
    if default in inline and own not in (None, *_known(ctx, parent)):
        text += f" DEFAULT {own}"
    above = ctx.desired.objects.get(ObjectId("column", parent), {})
    if new.get("not_null") and not above.get("not_null"):
        text += not_null_clause(new)
    return f"{ident(oid.name[2])}{text}" if text else ""


def _known(ctx: Context, parent: tuple[str, ...]) -> set[str | None]:
    """The default that a parent's column has whenever it is looked at, if that is certain."""
    default = ObjectId("default", parent)
    found = {ctx.desired.objects.get(default, {}).get("expression")}
    if ObjectId("table", parent[:2]) in ctx.current.objects:
        found.add(ctx.current.objects.get(default, {}).get("expression"))
    return found if len(found) == 1 else set()


def after_create(
    ctx: Context, table: ObjectId, facts: Facts, inline: Sequence[ObjectId]
) -> list[Step]:
    """What a new table's columns need beyond their definition."""
    steps: list[Step] = []
    for oid in inline:
        if oid.kind != "column":
            continue
        new = ctx.desired.objects[oid]
        if new.get("inherited") and shape.lineage(facts):
            steps += _overrides(ctx, oid, new, partition="partition_of" in facts)
        steps += _settings(oid, {}, new, create=True, retyped=False)
    return steps


def _overrides(ctx: Context, oid: ObjectId, new: Facts, *, partition: bool = False) -> list[Step]:
    """Where an inherited column differs from the parent's at the moment it is inherited."""
    head = f"ALTER TABLE ONLY {qualified(oid.name[:2])} ALTER COLUMN {ident(oid.name[2])}"
    table = ctx.desired.objects[relation.table_of(oid)]
    default = ObjectId("default", oid.name)
    above = table.get("inherits") or [table["partition_of"]]
    parents = [(*parent, oid.name[2]) for parent in above]
    inherited = set().union(*(_known(ctx, parent) or {"?"} for parent in parents))
    own = ctx.desired.objects.get(default, {}).get("expression")
    steps: list[Step] = []
    if own is None and inherited != {None}:
        steps.append(Step(f"{head} DROP DEFAULT", "DropDefault", oid))
    elif own is not None and not partition and own not in inherited:
        steps.append(Step(f"{head} SET DEFAULT {own}", "SetDefault", oid))
    if not partition and new.get("not_null") and not new.get("not_null_inherited"):
        columns = (ctx.desired.objects.get(ObjectId("column", p), {}) for p in parents)
        if not any(c.get("not_null") for c in columns):
            steps.append(Step(f"{head} SET NOT NULL", "SetNotNull", oid))
    return steps


def _needs_value(new: Facts, inline: Sequence[ObjectId]) -> bool:
    """True for a new NOT NULL column that existing rows would leave without a value."""
    return bool(
        new.get("not_null") and not inline and "generated" not in new and "identity" not in new
    )


def _no_rows(oid: ObjectId) -> Step:
    table = qualified(oid.name[:2])
    message = literal(
        f"column {qualified(oid.name)} is NOT NULL without a default and {table} has rows"
    )
    sql = f"SELECT {message} FROM {table} LIMIT 1"
    return Step(sql, "CheckData", oid, lock=relation.lock("AccessShareLock", oid.name[:2]))


def _rewrite_reason(ctx: Context, oid: ObjectId, new: Facts, inline: Sequence[ObjectId]) -> str:
    if "identity" in new or ("generated" in new and not new.get("virtual")):
        return "the table is rewritten to compute the column"
    if inline:
        expression: str = ctx.desired.objects[inline[0]]["expression"]
        if columntype.may_be_volatile(expression):
            return "the table is rewritten: the default may differ from row to row"
    return ""


def _regenerate(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step] | Rebuild:
    """Changes to and from a generated column."""
    uses_rebuilt = any(
        (oid, used) in ctx.current.depends or (oid, used) in ctx.desired.depends
        for used in ctx.rebuilt
    )
    same = all(old.get(fact) == new.get(fact) for fact in (*_GENERATED, "type", "collation"))
    if same and not uses_rebuilt:
        return []
    if any(lineage.reaching(ctx, oid)):
        return []
    if not _is_generated(old):
        return Rebuild("the column becomes generated; its values are lost", "destructive")
    table = qualified(oid.name[:2])
    head = f"ALTER TABLE {table} ALTER COLUMN {ident(oid.name[2])}"
    lock = relation.lock("AccessExclusiveLock", oid.name[:2])
    others = all(old.get(f) == new.get(f) for f in ("type", "collation"))
    if not _is_generated(new):
        if old.get("virtual") or not others or uses_rebuilt:
            return Rebuild("the column stops being generated and is computed anew", "destructive")
        return [Step(f"{head} DROP EXPRESSION", "DropExpression", oid, lock=lock)]
    return Rebuild("a generated column is computed anew: the table is rewritten")


def _not_null(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    table = relation.table_of(oid)
    name, column = qualified(table.name), ident(oid.name[2])
    lock = relation.lock("AccessExclusiveLock", table.name)
    was, now = bool(old.get("not_null")), bool(new.get("not_null"))
    if now and new.get("not_null_not_valid") and not was:
        return [_add_not_valid(oid, new)]
    if was and now and new.get("not_null_not_valid") and not old.get("not_null_not_valid"):
        sql = f"ALTER TABLE {name} ALTER COLUMN {column} DROP NOT NULL"
        return [Step(sql, "DropNotNull", oid, lock=lock), _add_not_valid(oid, new)]
    if now and old.get("not_null_not_valid") and not new.get("not_null_not_valid"):
        return _validate_not_null(ctx, oid, old, new)
    if was == now and now and not _lost_with_parent(ctx, oid):
        return _rename_not_null(ctx, oid, old, new)
    if was == now and not now:
        return []
    if new.get("not_null_inherited") and now:
        return []  # by the parent's statement, or for the link that is to come
    if not now:
        sql = f"ALTER TABLE {name} ALTER COLUMN {column} DROP NOT NULL"
        return [Step(sql, "DropNotNull", oid, lock=lock)]
    steps = [no_nulls(oid)]
    named = "not_null_name" in new or "not_null_no_inherit" in new
    if named:
        clause = f"ADD{not_null_clause(new)}".replace(" NOT NULL", f" NOT NULL {column}")
        return [*steps, Step(f"ALTER TABLE {name} {clause}", "SetNotNull", oid, lock=lock)]
    if not relation.online(ctx, table):
        sql = f"ALTER TABLE {name} ALTER COLUMN {column} SET NOT NULL"
        return [*steps, Step(sql, "SetNotNull", oid, lock=lock)]
    return steps + _set_not_null_online(ctx, oid)


def no_nulls(oid: ObjectId) -> Step:
    """Refuse beforehand what SET NOT NULL would fail on."""
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    message = literal(f"column {qualified(oid.name)} is to be NOT NULL and holds NULL")
    sql = f"SELECT {message} FROM {table} WHERE {column} IS NULL LIMIT 1"
    return Step(sql, "CheckData", oid, lock=relation.lock("AccessShareLock", oid.name[:2]))


def _set_not_null_online(ctx: Context, oid: ObjectId) -> list[Step]:
    """A validated CHECK spares SET NOT NULL its scan under the exclusive lock."""
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    check = ident(relation.unused_constraint(ctx, oid.name[:2], f"{oid.name[2]}_ptahk"))
    brief = relation.lock("AccessExclusiveLock", oid.name[:2])
    scan = relation.lock("ShareUpdateExclusiveLock", oid.name[:2])
    return [
        Step(
            f"ALTER TABLE {table} ADD CONSTRAINT {check} CHECK ({column} IS NOT NULL) NOT VALID",
            "AddNotNullCheck",
            oid,
            lock=brief,
        ),
        Step(
            f"ALTER TABLE {table} VALIDATE CONSTRAINT {check}",
            "ValidateNotNullCheck",
            oid,
            lock=scan,
            commit_before=True,
        ),
        Step(
            f"ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL",
            "SetNotNull",
            oid,
            lock=brief,
            commit_before=True,
        ),
        Step(f"ALTER TABLE {table} DROP CONSTRAINT {check}", "DropNotNullCheck", oid, lock=brief),
    ]


def _constraint_name(oid: ObjectId, facts: Facts) -> str:
    name: str = facts.get("not_null_name") or object_name(oid.name[1], oid.name[2], "not_null")
    return name


def _add_not_valid(oid: ObjectId, new: Facts) -> Step:
    table, column = qualified(oid.name[:2]), ident(oid.name[2])
    name = ident(_constraint_name(oid, new))
    inherit = " NO INHERIT" if new.get("not_null_no_inherit") else ""
    sql = f"ALTER TABLE {table} ADD CONSTRAINT {name} NOT NULL {column}{inherit} NOT VALID"
    lock = relation.lock("AccessExclusiveLock", oid.name[:2])
    return Step(sql, "SetNotNull", oid, lock=lock)


def _validate_not_null(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    table = qualified(oid.name[:2])
    sql = f"ALTER TABLE {table} VALIDATE CONSTRAINT {ident(_constraint_name(oid, old))}"
    lock = relation.lock("ShareUpdateExclusiveLock", oid.name[:2])
    return [
        no_nulls(oid),
        Step(sql, "ValidateNotNull", oid, lock=lock),
        *_rename_not_null(ctx, oid, old, new),
    ]


def _lost_with_parent(ctx: Context, oid: ObjectId) -> bool:
    """DROP NOT NULL reaches the children, which may be declared to keep theirs."""
    for column in lineage.reaching(ctx, oid):
        old, new = ctx.current.objects.get(column, {}), ctx.desired.objects.get(column)
        if new is not None and old.get("not_null") and not new.get("not_null"):
            return True
    return False


def _rename_not_null(ctx: Context, oid: ObjectId, old: Facts, new: Facts) -> list[Step]:
    if new.get("not_null_inherited") or ctx.server_version < CATALOGED_NOT_NULL:
        return []
    table = qualified(oid.name[:2])
    lock = relation.lock("AccessExclusiveLock", oid.name[:2])
    steps: list[Step] = []
    inherited = ctx.current.context.get("not_null_names", {}).get(str(oid))
    was, now = inherited or _constraint_name(oid, old), _constraint_name(oid, new)
    if was != now:
        sql = f"ALTER TABLE {table} RENAME CONSTRAINT {ident(was)} TO {ident(now)}"
        steps.append(Step(sql, "RenameConstraint", oid, lock=lock))
    if old.get("not_null_no_inherit") != new.get("not_null_no_inherit"):
        inherit = "NO INHERIT" if new.get("not_null_no_inherit") else "INHERIT"
        sql = f"ALTER TABLE {table} ALTER CONSTRAINT {ident(now)} {inherit}"
        steps.append(Step(sql, "AlterNotNull", oid, lock=lock))
    return steps


def _settings(oid: ObjectId, old: Facts, new: Facts, *, create: bool, retyped: bool) -> list[Step]:
    """Storage, compression, statistics target and per-column options.

    A change of type takes storage and compression back to the new type's own.
    """
    head = f"ALTER TABLE {qualified(oid.name[:2])} ALTER COLUMN {ident(oid.name[2])}"
    lock = "" if create else relation.lock("AccessExclusiveLock", oid.name[:2])
    light = "" if create else relation.lock("ShareUpdateExclusiveLock", oid.name[:2])
    steps: list[Step] = []
    if old.get("storage") != new.get("storage") or (retyped and "storage" in new):
        if "storage" in new:
            to = _STORAGE[new["storage"]]
            steps.append(Step(f"{head} SET STORAGE {to}", "SetStorage", oid, lock=lock))
        elif not retyped:
            to = _STORAGE[old["type_storage"]]
            steps.append(Step(f"{head} SET STORAGE {to}", "SetStorage", oid, lock=lock))
    moved = old.get("compression") != new.get("compression")
    if not create and (moved or (retyped and "compression" in new)):
        to = _COMPRESSION.get(new.get("compression", ""), "default")
        steps.append(Step(f"{head} SET COMPRESSION {to}", "SetCompression", oid, lock=lock))
    if old.get("statistics") != new.get("statistics"):
        target = new.get("statistics", -1)
        steps.append(Step(f"{head} SET STATISTICS {target}", "SetStatistics", oid, lock=light))
    was, now = relation.named_options(old), relation.named_options(new)
    steps += relation.options(head, "AlterColumnOptions", oid, was, now)
    return steps
