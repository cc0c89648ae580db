"""Every reason that a script can meet is in the one table, and so in docs/errors.md (C-2.4)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ptahk.engine.model.reasons import REASONS

ROOT = Path(__file__).resolve().parents[2]
CAMEL = re.compile(r"[A-Z][A-Za-z]+")
REFUSALS = {"PlanRefusal", "Refusal"}


def _strings(node: ast.AST | None) -> Iterator[str]:
    """Reasons in an expression: a constant, or both arms of a conditional."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)


def _given(node: ast.AST) -> Iterator[str]:
    """The reasons that one node of the tree names."""
    if isinstance(node, ast.keyword) and node.arg == "reason":
        yield from _strings(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id in REFUSALS:
            yield from _strings(node.args[0])
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if names & {"default_reason", "reason"}:
            yield from _strings(node.value)


def named() -> dict[str, str]:
    """Every reason in the sources, with one place that names it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "ptahk").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for reason in _given(node):
                # A statement's reason is a sentence for people; only CamelCase is for scripts.
                if CAMEL.fullmatch(reason):
                    where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', '?')}"
                    found.setdefault(reason, where)
    return found


def test_every_reason_is_in_the_table() -> None:
    missing = {reason: where for reason, where in named().items() if reason not in REASONS}
    assert not missing, "\n".join(f"{where}: {reason}" for reason, where in missing.items())


def test_every_reason_says_what_to_do() -> None:
    for reason in REASONS.values():
        assert CAMEL.fullmatch(reason.name), reason.name
        assert reason.meaning, reason.name
        assert reason.what_to_do, reason.name


def test_the_page_lists_every_reason() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in REASONS if f"`{name}`" not in page] == []
