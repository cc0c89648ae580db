"""Orders the statements of a plan by dependency. Pure and deterministic.

Drops go in reverse order of the live graph, creations in order of the declared one, alterations
in between. What a table's own statement can carry is merged into it unless that makes a circle.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ptahk.executor.planning.decide import Decisions
from ptahk.executor.planning.grammar import Grammar
from ptahk.executor.planning.model import Context, ObjectId

Operation = Literal["drop", "create", "alter", "discard"]
Node = tuple[Operation, ObjectId]


@dataclass(slots=True)
class Circle(Exception):
    """No order exists; the nodes that hold one another up."""

    nodes: list[Node]


@dataclass(slots=True)
class Order:
    """Nodes in order, and what each creation carries."""

    nodes: list[Node]
    inline: Mapping[ObjectId, tuple[ObjectId, ...]]


class Sorter:
    """One attempt: merges, edges, sorting. ``apart`` holds what must not be merged."""

    def __init__(self, ctx: Context, grammar: Grammar, made: Decisions) -> None:
        self._ctx = ctx
        self._grammar = grammar
        self._made = made
        self._creates = made.creates
        self._drops = made.drops
        self._inlines = grammar.inliner(ctx.desired.objects)
        self._asides = {oid for oid, answer in made.rebuilt.items() if answer.aside}
        self.apart: set[Node] = set()
        self._hosts: dict[Node, Node] = {}

    def sort(self) -> Order:
        """The order, unmerging what stands in the way of one.

        :raises Circle: even with everything unmerged no order exists.
        """
        while True:
            self._hosts = {}
            edges = self._edges()
            nodes = self._nodes()
            ordered = _kahn(nodes, edges, self._priority)
            if len(ordered) == len(nodes):
                return Order(ordered, self._inline())
            left = set(nodes) - set(ordered)
            circles = [c for c in _components(left, edges) if len(c) > 1]
            loosened = [node for circle in circles for node in self._loosen(circle, edges)]
            if not loosened:
                raise Circle(sorted(circles[0] if circles else left))
            self.apart.update(loosened)

    def host(self, node: Node) -> Node:
        """The node whose statement does the work of ``node``."""
        found = self._hosts.get(node)
        if found is None:
            found = self._find_host(node)
            self._hosts[node] = found
        return found

    def _find_host(self, node: Node) -> Node:
        operation, oid = node
        if node in self.apart or operation in ("alter", "discard"):
            return node
        creating = operation == "create"
        catalog = self._ctx.desired if creating else self._ctx.current
        within = self._creates if creating else self._drops
        facts = catalog.objects[oid]
        if creating and not self._inlines(oid, facts):
            return node
        parent = self._grammar.parent(oid, facts, catalog.objects)
        if parent is None or parent not in within:
            return node
        if not creating and parent in self._asides:
            return node
        return self.host((operation, parent))

    def _nodes(self) -> list[Node]:
        nodes: list[Node] = []
        for operation, oids in (
            ("drop", self._drops),
            ("create", self._creates),
            ("alter", self._made.alters),
            ("discard", self._asides),
        ):
            for oid in oids:
                node: Node = (operation, oid)  # type: ignore[assignment]
                if self.host(node) == node:
                    nodes.append(node)
        return nodes

    def _inline(self) -> dict[ObjectId, tuple[ObjectId, ...]]:
        """Members by host, in the order of the declared catalog."""
        carried: defaultdict[ObjectId, list[ObjectId]] = defaultdict(list)
        for oid in self._ctx.desired.objects:
            if oid in self._creates:
                host = self.host(("create", oid))
                if host[1] != oid:
                    carried[host[1]].append(oid)
        return {host: tuple(members) for host, members in carried.items()}

    def _edges(self) -> dict[Node, dict[Node, list[tuple[Node, Node]]]]:
        """``edges[a][b]``: a before b, with the pairs of unmerged nodes that ask for it."""
        edges: dict[Node, dict[Node, list[tuple[Node, Node]]]] = defaultdict(dict)
        for before, after in self._pairs():
            one, two = self.host(before), self.host(after)
            if one != two:
                edges[one].setdefault(two, []).append((before, after))
        return edges

    def _pairs(self) -> Iterator[tuple[Node, Node]]:
        made = self._made
        for user, used in self._ctx.current.depends:
            if used in self._drops:
                if user in self._drops:
                    yield from self._drop_pairs(user, used)
                elif user in made.alters:
                    yield ("alter", user), ("discard" if used in self._asides else "drop", used)
            elif user in self._drops and self._must_go_before(user, used):
                yield ("drop", user), ("alter", used)
        for user, used in self._ctx.desired.depends:
            later, earlier = self._arrival(user), self._arrival(used)
            if later is not None and earlier is not None:
                yield earlier, later
        for oid in made.rebuilt:
            yield ("drop", oid), ("create", oid)
        for oid in self._asides:
            yield ("create", oid), ("discard", oid)
        yield from self._name_pairs()

    def _must_go_before(self, user: ObjectId, used: ObjectId) -> bool:
        """A table can change while a column is still there; anything else may be in the way."""
        alter = self._made.alters.get(used)
        if alter is None or not alter.steps:
            return False
        if user.kind not in self._grammar.never_rebuilt:
            return True
        objects = self._ctx.current.objects
        return self._grammar.parent(user, objects[user], objects) != used

    def _drop_pairs(self, user: ObjectId, used: ObjectId) -> Iterator[tuple[Node, Node]]:
        """What goes before ``used`` can go. A statement that drops a routine names its types."""
        gone: Node = ("discard", user) if user in self._asides else ("drop", user)
        late = used in self._asides and user.kind in self._grammar.types
        yield gone, ("discard" if late else "drop", used)
        if user in self._made.rebuilt and used.kind in self._grammar.overloaded:
            # Anew, it must not find what the old one found.
            yield ("drop", used), ("create", user)

    def _arrival(self, oid: ObjectId) -> Node | None:
        if oid in self._creates:
            return "create", oid
        return ("alter", oid) if oid in self._made.alters else None

    def _name_pairs(self) -> Iterator[tuple[Node, Node]]:
        """A name is free only once its old holder has gone."""
        names = self._grammar.names
        freed: defaultdict[tuple[str, ...], list[Node]] = defaultdict(list)
        current, desired = self._ctx.current.objects, self._ctx.desired.objects
        for oid in self._drops:
            facts = current[oid]
            for key in (*names(oid, facts), *self._grammar.frees(oid, facts)):
                freed[key].append(("drop", oid))
        for oid in self._made.alters:
            for key in set(names(oid, current[oid])) - set(names(oid, desired[oid])):
                freed[key].append(("alter", oid))
        if not freed:
            return
        for oid in self._creates:
            for key in names(oid, desired[oid]):
                for node in freed.get(key, ()):
                    yield node, ("create", oid)
        for oid in self._made.alters:
            for key in set(names(oid, desired[oid])) - set(names(oid, current[oid])):
                for node in freed.get(key, ()):
                    yield node, ("alter", oid)

    def _priority(self, node: Node) -> tuple[int, int, str, tuple[str, ...]]:
        """Drops that make room first, drops that only tidy up last."""
        operation, oid = node
        rank = self._grammar.rank[oid.kind]
        if oid.kind in self._grammar.last:
            return 4, rank, oid.kind, oid.name
        if operation == "drop":
            phase = 0 if oid in self._made.rebuilt else 3
            if oid.kind in self._grammar.first:
                phase = -1
            return phase, -rank, oid.kind, oid.name
        return 2 if operation == "discard" else 1, rank, oid.kind, oid.name

    def _loosen(
        self, circle: set[Node], edges: Mapping[Node, Mapping[Node, list[tuple[Node, Node]]]]
    ) -> list[Node]:
        """Merged parts that hold a circle together: the later ones if any, columns last."""
        found: set[Node] = set()
        for one in circle:
            for two, pairs in edges.get(one, {}).items():
                if two not in circle:
                    continue
                for before, after in pairs:
                    if after[0] == "create" and after != two:
                        found.add(after)
                    elif before[0] == "drop" and before != one:
                        found.add(before)
        light = sorted(node for node in found if node[1].kind != "column")
        return light or sorted(found)


def _kahn(
    nodes: Iterable[Node],
    edges: Mapping[Node, Mapping[Node, object]],
    priority: object,
) -> list[Node]:
    assert callable(priority)
    waiting = dict.fromkeys(nodes, 0)
    for targets in edges.values():
        for target in targets:
            waiting[target] += 1
    ready = [(priority(node), node) for node, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        _, node = heapq.heappop(ready)
        ordered.append(node)
        for target in edges.get(node, ()):
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, (priority(target), target))
    return ordered


def _components(
    nodes: set[Node], edges: Mapping[Node, Mapping[Node, object]]
) -> Iterator[set[Node]]:
    """Strongly connected components (Tarjan), without recursion."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    for root in sorted(nodes):
        if root in index:
            continue
        work: list[tuple[Node, Iterator[Node]]] = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in nodes:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: set[Node] = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                        if member == node:
                            break
                    yield component
