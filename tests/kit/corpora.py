"""Where the real inputs lie: schemas that other projects run in production."""

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def corpora() -> Path:
    """The folder of real inputs: ``PTAHK_CORPORA``, else ``../shared/corpora``.

    :raises FileNotFoundError: it is not there. A test that needs it fails; it never skips.
    """
    named = os.environ.get("PTAHK_CORPORA")
    folder = Path(named) if named else _ROOT.parent / "shared" / "corpora"
    if not (folder / "sakila" / "postgresql.sql").is_file():
        raise FileNotFoundError(
            f"no real inputs in {folder}: set PTAHK_CORPORA to a folder with sakila/ and icingadb/"
        )
    return folder
