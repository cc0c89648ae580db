"""What runs in the server: views, routines, triggers, events; and sequences. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ptahk.executor.dialects.mysql.model import World, definer_clause
from ptahk.executor.dialects.mysql.quote import ident, literal
from ptahk.executor.planning.model import Facts, ObjectId, Severity, Step

ROUTINES: Final = ("function", "procedure")
_SEQUENCE: Final = re.compile(
    r"(?P<body>.*?)(?: ENGINE=(?P<engine>\w+))?(?: COMMENT=(?P<comment>'(?:[^']|'')*'))?\Z"
)
_STATES: Final = {"ENABLED": "ENABLE", "DISABLED": "DISABLE"}


def drop(oid: ObjectId) -> Step:
    """DROP of what is not declared any more."""
    noun = oid.kind.upper()
    reason = f"{oid} is gone"
    return Step(
        f"DROP {noun} {ident(oid.name[0])}",
        f"Drop{oid.kind.capitalize()}",
        oid,
        "destructive",
        reason=reason,
        transaction=False,
    )


def view(world: World, oid: ObjectId, new: Facts) -> list[Step]:
    """CREATE OR REPLACE, which keeps what is granted on it."""
    columns = f" {new['columns']}" if "columns" in new else ""
    check = f" WITH {new['check']} CHECK OPTION" if "check" in new else ""
    sql = (
        f"CREATE OR REPLACE ALGORITHM={new['algorithm']}"
        f" {definer_clause(new['definer'], world.user)}SQL SECURITY {new['security']}"
        f" VIEW {ident(oid.name[0])}{columns} AS {new['select']}{check}"
    )
    level, reason = _rights(world, oid, new)
    return [Step(sql, "CreateView", oid, level, reason=reason, transaction=False)]


def _rights(world: World, oid: ObjectId, new: Facts) -> tuple[Severity, str]:
    """Whose rights it uses is a privilege: a change wants an approval."""
    old = world.current.get(oid)
    before = None if old is None else (old["definer"], old.get("security"))
    after = (new["definer"], new.get("security"))
    if before is None:
        if new["definer"] != world.user:
            return "privilege", f"{oid} runs as {new['definer']}"
        return "safe", ""
    if before != after:
        return "privilege", f"{oid} runs with other rights"
    return "safe", ""


def routine(world: World, oid: ObjectId, new: Facts) -> list[Step]:
    """MariaDB replaces it; MySQL drops and creates it, and whoever calls in between fails."""
    aggregate = "AGGREGATE " if new.get("aggregate") else ""
    tail = f"{aggregate}{oid.kind.upper()} {ident(oid.name[0])}{new['text']}"
    return _created(world, oid, new, tail, "whoever calls it in between fails")


def trigger(world: World, oid: ObjectId, new: Facts) -> list[Step]:
    """Replaced where it stands alone; else dropped and created, and writes in between miss it.

    The first of several goes before the next one that stays; the others follow one another.
    """
    after = next_of(world.desired, oid)
    chained = "follows" in new or after is not None or "follows" in world.current.get(oid, {})
    order = f" FOLLOWS {ident(new['follows'])}" if "follows" in new else ""
    while after is not None and not order:
        if world.current.get(after) == world.desired[after]:
            order = f" PRECEDES {ident(after.name[0])}"
        after = next_of(world.desired, after)
    tail = (
        f"TRIGGER {ident(oid.name[0])} {new['timing']} {new['event']} ON {ident(new['table'])}"
        f" FOR EACH ROW{order} {new['statement']}"
    )
    return _created(world, oid, new, tail, "what is written in between goes past it", chained)


def next_of(objects: Mapping[ObjectId, Facts], oid: ObjectId) -> ObjectId | None:
    """The trigger that follows this one."""
    for other, facts in objects.items():
        if other.kind == "trigger" and facts.get("follows") == oid.name[0]:
            return other
    return None


def _created(
    world: World, oid: ObjectId, new: Facts, tail: str, gap: str, chained: bool = False
) -> list[Step]:
    old = world.current.get(oid)
    on = None if old is None else old.get("table")
    # A trigger is gone with its table, and is not replaced by one of another table.
    there = old is not None and (on is None or ObjectId("table", (on,)) in world.desired)
    clause = definer_clause(new["definer"], world.user)
    level, reason = _rights(world, oid, new)
    steps: list[Step] = []
    replaces = world.mariadb and there and on == new.get("table") and not chained
    if there and not replaces:
        sql = f"DROP {oid.kind.upper()} {ident(oid.name[0])}"
        why = f"it is created again at once; {gap}"
        kind = f"Drop{oid.kind.capitalize()}"
        steps.append(Step(sql, kind, oid, "warning", reason=why, transaction=False))
    sql = f"CREATE {'OR REPLACE ' if replaces else ''}{clause}{tail}"
    kind = f"Create{oid.kind.capitalize()}"
    steps.append(Step(sql, kind, oid, level, reason=reason, transaction=False))
    return steps


def event(world: World, oid: ObjectId, new: Facts) -> list[Step]:
    """Changed in place, or replaced on MariaDB, whose ALTER keeps an end that is not named."""
    if "at" in new:
        schedule = f"AT '{new['at']}'"
    else:
        schedule = f"EVERY {_interval(new['every'])}"
        schedule += f" STARTS '{new['starts']}'" if "starts" in new else ""
        schedule += f" ENDS '{new['ends']}'" if "ends" in new else ""
    state = _STATES.get(new["status"], "DISABLE ON SLAVE")
    there = oid in world.current
    verb = "CREATE" if not there else "CREATE OR REPLACE" if world.mariadb else "ALTER"
    comment = new.get("comment_text", "")
    noted = f" COMMENT {literal(comment)}" if comment or there else ""
    sql = (
        f"{verb} {definer_clause(new['definer'], world.user)}EVENT"
        f" {ident(oid.name[0])} ON SCHEDULE {schedule} ON COMPLETION {new['completion']} {state}"
        f"{noted} DO {new['statement']}"
    )
    level, reason = _rights(world, oid, new)
    kind = f"{'Alter' if there else 'Create'}Event"
    return [Step(sql, kind, oid, level, reason=reason, transaction=False)]


def _interval(every: str) -> str:
    value, _, unit = every.rpartition(" ")
    return f"{value} {unit}" if value.isdigit() else f"'{value.strip(chr(39))}' {unit}"


def sequence(world: World, oid: ObjectId, new: Facts) -> list[Step]:
    """Its counter goes on where it was."""
    name = ident(oid.name[0])
    old = world.current.get(oid)
    if old is None:
        sql = f"CREATE SEQUENCE {name} {new['options']}"
        return [Step(sql, "CreateSequence", oid, transaction=False)]
    before, after = _SEQUENCE.match(old["options"]), _SEQUENCE.match(new["options"])
    assert before is not None and after is not None
    steps = []
    if before["body"] != after["body"]:
        steps.append(f"ALTER SEQUENCE {name} {after['body']}")
    if before["comment"] != after["comment"]:
        steps.append(f"ALTER TABLE {name} COMMENT={after['comment'] or literal('')}")
    if before["engine"] != after["engine"]:
        steps.append(f"ALTER TABLE {name} ENGINE={after['engine']}")
    return [Step(sql, "AlterSequence", oid, transaction=False) for sql in steps]
