"""Write every generated file, or check that each is fresh: scripts/generate.py [--check] [NAME...]

A generator is a module in ``scripts/generators`` with ``files()``, which answers the text of each
file that it owns by its path in the repository. Names choose generators; without names all run.
``--check`` writes nothing and exits 1 when a file differs from what its generator writes today.
"""

import argparse
import difflib
import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIFF_LINES_MAX = 40


def known() -> list[str]:
    """The names of all generators."""
    folder = ROOT / "scripts" / "generators"
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def generated(name: str) -> dict[str, str]:
    """What one generator writes today, by path in the repository."""
    answer: dict[str, str] = importlib.import_module(f"scripts.generators.{name}").files()
    return answer


def stale(files: dict[str, str]) -> list[str]:
    """The files that are not what they should be; the difference is printed."""
    found = []
    for name, text in sorted(files.items()):
        path = ROOT / name
        present = path.read_text(encoding="utf-8") if path.exists() else ""
        if present == text:
            continue
        found.append(name)
        lines = difflib.unified_diff(
            present.splitlines(), text.splitlines(), name, f"{name} (generated)", lineterm=""
        )
        for line in list(lines)[:DIFF_LINES_MAX]:
            print(line, file=sys.stderr)
    return found


def write(files: dict[str, str]) -> None:
    """Write the files that differ."""
    for name, text in sorted(files.items()):
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}", file=sys.stderr)


def main() -> int:
    """Run the chosen generators."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(known())}")
    options = parser.parse_args()
    unknown = set(options.names) - set(known())
    if unknown:
        parser.error(f"no such generator: {', '.join(sorted(unknown))}")
    sys.path.insert(0, str(ROOT))
    files: dict[str, str] = {}
    for name in options.names or known():
        files |= generated(name)
    if not options.check:
        write(files)
        return 0
    found = stale(files)
    if found:
        print(f"error: not fresh: {', '.join(found)}. Run: make generate", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
