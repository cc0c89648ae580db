"""Labels that are added, and what must wait until they are committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptahk.executor.dialects.postgres.kinds.enum import EnumKind, wait_for_values
from ptahk.executor.planning.model import Catalog, Context, ObjectId, Policy, Rebuild, Step

OID = ObjectId("enum", ("public", "e"))
_EMPTY = Catalog({}, frozenset())
CTX = Context(_EMPTY, _EMPTY, Policy(), 180000)
_labels = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


def _alter(before: list[str], after: list[str]) -> list[Step] | Rebuild:
    return EnumKind().alter(CTX, OID, {"labels": before}, {"labels": after})


def _run(labels: list[str], steps: list[Step]) -> list[str]:
    """What the server makes of the statements."""
    labels = list(labels)
    for step in steps:
        words = step.sql.replace("'", "").split(" ADD VALUE ")[1].split()
        at = len(labels)
        if len(words) == 3:
            at = labels.index(words[2]) + (words[1] == "AFTER")
        labels.insert(at, words[0])
    return labels


@given(_labels, _labels)
def test_added_in_place_or_rebuilt(before: list[str], after: list[str]) -> None:
    answer = _alter(before, after)
    if isinstance(answer, Rebuild):
        assert [label for label in after if label in before] != before
        assert answer.aside is not None
    else:
        assert _run(before, answer) == after


def _kinds(*steps: Step) -> list[bool]:
    return [step.commit_before for step in wait_for_values(steps)]


def _add(label: str) -> Step:
    quoted = label.replace("'", "''")
    return Step(f"ALTER TYPE public.e ADD VALUE '{quoted}' AFTER 'z'", "AddEnumValue", OID)


def test_waits_where_the_label_is_used() -> None:
    use = Step("ALTER TABLE t ALTER c SET DEFAULT 'new'::public.e", "SetDefault", OID)
    idle = Step("ALTER TABLE t ADD renewed int", "AddColumn", OID)
    again = Step("CREATE VIEW v AS SELECT '{new}'::public.e[]", "CreateView", OID)
    assert _kinds(_add("new"), idle, use, again) == [False, False, True, False]
    assert _kinds(_add("new"), again) == [False, True]


def test_waits_where_stored_text_may_become_the_label() -> None:
    convert = Step("ALTER TABLE t ALTER c TYPE public.e", "AlterColumnType", OID)
    assert _kinds(_add("new"), convert) == [False, True]


def test_labels_with_quotes_and_signs() -> None:
    use = Step("SELECT 'it''s +1'::public.e", "CreateView", OID)
    assert _kinds(_add("it's +1"), use) == [False, True]
    assert _kinds(_add("it"), use) == [False, True]
    assert _kinds(_add("i"), use) == [False, False]
