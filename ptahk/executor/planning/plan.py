"""Two catalogs to ordered, classified steps. Pure; knows no engine (see ``Grammar``)."""

from __future__ import annotations

from dataclasses import replace

from ptahk.executor.planning.decide import Decisions, decide
from ptahk.executor.planning.grammar import Grammar
from ptahk.executor.planning.model import Context, ObjectId, PlanRefusal, Step
from ptahk.executor.planning.order import Circle, Node, Order, Sorter

CHECK = "CheckData"
"""Kind of the read-only queries that stand before everything else."""


def make_steps(ctx: Context, grammar: Grammar) -> list[Step] | list[PlanRefusal]:
    """Steps from ``ctx.current`` to ``ctx.desired``; or every reason why there are none.

    Data checks come first, then statements in an order in which each finds what it uses.
    """
    forced: set[ObjectId] = set()
    while True:
        made = decide(ctx, grammar, forced)
        if made.is_empty:
            return []
        if made.refusals:
            return made.refusals
        try:
            order = Sorter(ctx, grammar, made).sort()
        except Circle as circle:
            more = _rebuildable(grammar, made, circle.nodes) - forced
            if not more:
                return [_refuse_circle(circle.nodes)]
            forced |= more
            continue
        return _write(
            replace(ctx, rebuilt=frozenset(made.rebuilt), inline=order.inline),
            grammar,
            made,
            order,
        )


def _rebuildable(grammar: Grammar, made: Decisions, nodes: list[Node]) -> set[ObjectId]:
    """Alterations in a circle that can be a drop and a creation instead."""
    return {
        oid
        for operation, oid in nodes
        if operation == "alter" and oid.kind not in grammar.never_rebuilt
    }


def _refuse_circle(nodes: list[Node]) -> PlanRefusal:
    named = ", ".join(f"{operation} {oid}" for operation, oid in nodes[:6])
    message = f"no order exists for: {named}; make the change in two steps"
    return PlanRefusal("UnsupportedChange", message, nodes[0][1])


def _write(
    ctx: Context, grammar: Grammar, made: Decisions, order: Order
) -> list[Step] | list[PlanRefusal]:
    checks: dict[str, Step] = {}
    steps: list[Step] = []
    refusals: list[PlanRefusal] = []
    for node in order.nodes:
        answer = _steps(ctx, grammar, made, node)
        if isinstance(answer, PlanRefusal):
            refusals.append(answer)
            continue
        for step in answer:
            if step.kind == CHECK:
                checks.setdefault(step.sql, step)
            else:
                steps.append(step)
    return refusals or [*checks.values(), *steps]


def _steps(ctx: Context, grammar: Grammar, made: Decisions, node: Node) -> list[Step] | PlanRefusal:
    operation, oid = node
    kind = grammar.kinds[oid.kind]
    if operation == "create":
        new = ctx.desired.objects[oid]
        answer = kind.create(ctx, oid, new)
        if isinstance(answer, PlanRefusal):
            return answer
        steps = [*answer, *grammar.attributes(ctx, oid, None, new)]
        for part in ctx.inline.get(oid, ()):
            steps += grammar.attributes(ctx, part, None, ctx.desired.objects[part])
        return steps
    if operation == "alter":
        old, new = ctx.current.objects[oid], ctx.desired.objects[oid]
        return [*made.alters[oid].steps, *grammar.attributes(ctx, oid, old, new)]
    rebuild = made.rebuilt.get(oid)
    if rebuild is not None and rebuild.aside is not None:
        return [rebuild.aside[0 if operation == "drop" else 1]]
    answer = kind.drop(ctx, oid, ctx.current.objects[oid])
    if isinstance(answer, PlanRefusal) or rebuild is None:
        return answer
    return [
        step
        if step.kind == CHECK or step.severity == "privilege"
        else replace(step, severity=rebuild.severity, reason=rebuild.reason)
        for step in answer
    ]
