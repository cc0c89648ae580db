"""What no linter sees: sizes, forbidden builtins, swallowed errors, paths of somebody's machine."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500
COLUMNS_MAX = 100

SIZE_EXCEPTIONS: dict[str, str] = {}
"""``path`` or ``path:function`` → why it may be longer. Short, and each one argued."""

IO_BUILTINS = {"open", "input", "print", "eval", "exec", "compile", "breakpoint", "__import__"}

PRODUCT = sorted((ROOT / "ptahk").rglob("*.py"))
OWN_TOOLS = sorted([*(ROOT / "scripts").rglob("*.py"), *(ROOT / "tests" / "kit").rglob("*.py")])


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:  # an unpacked archive is no repository
        everything = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [str(p) for p in everything if not any(part.startswith(".") for part in p.parts)]
    else:
        names = listed.stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _too_long(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = []
    lines = text.count("\n")
    if lines > MODULE_LINES_MAX and _name(path) not in SIZE_EXCEPTIONS:
        found.append(f"{_name(path)}: {lines} lines")
    for function in _functions(ast.parse(text)):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        where = f"{_name(path)}:{function.name}"
        if length > FUNCTION_LINES_MAX and where not in SIZE_EXCEPTIONS:
            found.append(f"{where}: {length} lines")
    return found


def test_functions_and_modules_are_small() -> None:
    found = [line for path in [*PRODUCT, *OWN_TOOLS] for line in _too_long(path)]
    assert not found, "\n".join(found)


def test_the_exceptions_are_needed() -> None:
    for name in SIZE_EXCEPTIONS:
        path = ROOT / name.partition(":")[0]
        assert path.exists(), f"{name} is gone: take it off the list"


def test_lines_are_short() -> None:
    found = [
        f"{_name(path)}:{number}"
        for path in [*PRODUCT, *OWN_TOOLS]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS_MAX
    ]
    assert not found, "\n".join(found)


def _calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


@pytest.mark.parametrize("room", ["engine", "migrations", "wire"])
def test_the_core_calls_no_builtin_that_does_io(room: str) -> None:
    found = [
        f"{_name(path)}:{line}: {name}()"
        for path in sorted((ROOT / "ptahk" / room).rglob("*.py"))
        for line, name in _calls(path)
        if name in IO_BUILTINS
    ]
    assert not found, "\n".join(found)


def test_the_check_of_builtins_sees_a_breach(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("def f():\n    return open('x')\n")
    assert [name for _, name in _calls(planted) if name in IO_BUILTINS] == ["open"]


def _swallows(node: ast.AST) -> bool:
    """``except Exception`` (or bare) whose whole answer is to pass, continue or return a value."""
    if not isinstance(node, ast.ExceptHandler):
        return False
    broad = node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    )
    used = any(
        isinstance(part, ast.Name) and part.id == node.name
        for line in node.body
        for part in ast.walk(line)
    )
    quiet = ast.Pass | ast.Continue | ast.Return | ast.Break
    return broad and not used and all(isinstance(line, quiet) for line in node.body)


def _raises_not_implemented(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "NotImplementedError"


def test_no_error_is_swallowed_and_nothing_is_a_stub() -> None:
    found = [
        f"{_name(path)}:{getattr(node, 'lineno', 0)}"
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if _swallows(node) or _raises_not_implemented(node)
    ]
    assert not found, "\n".join(found)


def test_no_relative_star_or_utils() -> None:
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    ]
    found += [_name(path) for path in PRODUCT if path.stem in ("utils", "util", "misc", "helpers")]
    assert not found, "\n".join(found)


# Put together here, so that this file does not find itself.
_MACHINE = re.compile(
    "|".join(
        [
            "/" + "work/",
            "/" + r"root/[.\w]",
            "/" + "Users/",
            r"py" + r"pi\.org",
            r"python" + r"hosted\.org",
            r"deb\.deb" + r"ian\.org",
            r"proxy\.go" + r"lang\.org",
            r"npm" + r"js\.(org|com)",
        ]
    )
)


def test_no_path_of_a_machine_and_no_registry_host() -> None:
    found = []
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{_name(path)}:{number}: {hit.group()}"
            for number, line in enumerate(text.splitlines(), 1)
            if (hit := _MACHINE.search(line))
        ]
    assert not found, "\n".join(found)


def test_no_test_is_switched_off() -> None:
    """A test that does not run may not look like one that passed."""
    word = re.compile("mark\\." + "(skip|xfail)" + "|pytest\\." + "(skip|xfail|importorskip)\\(")
    found = [
        f"{_name(path)}:{number}"
        for path in _tracked()
        if path.suffix == ".py" and path != ROOT / "tests" / "kit" / "presence.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if word.search(line)
    ]
    assert not found, "\n".join(found)
