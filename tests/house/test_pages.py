"""The pages that people read: their links lead somewhere, and their commands exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [hit for hit in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in hit]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_two_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)$", readme, re.MULTILINE):
        done = subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
