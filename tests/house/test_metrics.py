"""Every metric is on the page of operations, with its own words, and the page names no other."""

import re
from datetime import UTC, datetime
from pathlib import Path

from ptahk.engine.driver import FAMILIES
from ptahk.serve.accounts import Accounts
from ptahk.serve.metrics import Metrics, names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def test_the_page_lists_exactly_what_is_measured() -> None:
    measured = names(Metrics(Accounts(FAMILIES), lambda: datetime.now(UTC)))
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(ptahk_\w+)` \| (.+) \|$", text, re.MULTILINE))
    listed = {name: rows[name] for name in rows if name in measured}
    assert listed == measured
    assert set(re.findall(r"\bptahk_[a-z_]+", text)) == set(measured), "no name that does not exist"
