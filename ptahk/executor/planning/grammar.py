"""What the planner must be told of an engine's kinds to order their statements. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from ptahk.executor.planning.model import Context, Facts, Kind, ObjectId, Step

RESERVED = ("owner", "acl", "comment")
"""Facts that mean the same on every kind and never make a kind's own ``alter`` run."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Kinds and the relations between their objects."""

    kinds: Mapping[str, Kind]
    rank: Mapping[str, int]
    """Order among equals when creating; dropping goes the other way."""
    parent: Callable[[ObjectId, Facts, Container[ObjectId]], ObjectId | None]
    """What an object is a part of and vanishes with."""
    names: Callable[[ObjectId, Facts], Iterable[tuple[str, ...]]]
    """Keys that no two objects hold at one time."""
    frees: Callable[[ObjectId, Facts], Iterable[tuple[str, ...]]]
    """Further keys that its drop sets free, for whoever waits for them by ``names``."""
    inliner: Callable[[Mapping[ObjectId, Facts]], Callable[[ObjectId, Facts], bool]]
    """Of the declared objects, which can the statement that creates the parent carry."""
    label: Callable[[ObjectId, Facts], str]
    """The kind as ``Alter.displaces`` calls it."""
    first: frozenset[str]
    """Kinds whose drop comes before everything else that may come first."""
    last: frozenset[str]
    """Kinds that are created, altered or dropped after everything else."""
    never_rebuilt: frozenset[str]
    """Kinds that are asked to alter themselves when something that they use is rebuilt."""
    aside: Callable[[ObjectId, Facts, str], tuple[Step, Step] | None]
    """How a type makes room for its successor; None for what is not a type."""
    types: frozenset[str]
    """Kinds that ``aside`` is for; they live on under another name until nothing uses them."""
    overloaded: frozenset[str]
    """Kinds of which a statement means whichever fits best, not one that it names."""
    attributes: Callable[[Context, ObjectId, Facts | None, Facts], list[Step]]
    """Comment, owner and grants."""
