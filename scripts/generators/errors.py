"""``docs/errors.md``: exit codes, and every reason with what a person should do (C-2.4)."""

import inspect

from ptahk import errors
from ptahk.engine.model import reasons

HEAD = """# Exit codes and reasons

Written by `scripts/generate.py errors` from `ptahk/errors.py` and `ptahk/engine/model/reasons.py`;
do not edit.

An error is one line on standard error, `error: WHAT (FIELD=VALUE): WHY. NEXT STEP`. With `-o json`
it is a document on standard output as well (`docs/schemas/error.json`).

## Exit codes

| code | class | meaning |
| --- | --- | --- |
| 0 | | done; nothing needs attention |
| 1 | | an expected negative answer, only where it was asked for |
"""


def files() -> dict[str, str]:
    """The page."""
    lines = [
        f"| {kind.exit_code} | `{kind.__name__}` | {_first(kind.__doc__)} |" for kind in _classes()
    ]
    lines += ["| 128+N | | ended by signal N |", "", "## Reasons", ""]
    lines += ["| reason | exit code | meaning | what a person should do |"]
    lines += ["| --- | --- | --- | --- |"]
    lines += [
        f"| `{reason.name}` | {reason.exit_code} | {_cell(reason.meaning)} "
        f"| {_cell(reason.what_to_do)} |"
        for reason in sorted(reasons.REASONS.values(), key=lambda reason: reason.name)
    ]
    return {"docs/errors.md": HEAD + "\n".join(lines) + "\n"}


def _classes() -> list[type[errors.PtahkError]]:
    found = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.PtahkError) and kind is not errors.PtahkError
    ]
    return sorted(found, key=lambda kind: (kind.exit_code, kind.__name__))


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).rstrip(".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
