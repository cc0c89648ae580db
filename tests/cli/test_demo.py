"""``make demo`` tells its whole story, ends by itself and leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.kit.guard import PREFIX
from tests.kit.servers import RUN_ENV, current

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_ends_well_and_cleans_up() -> None:
    folder = current().folder
    before = set(folder.parent.glob(f"{PREFIX}*"))
    env = {name: value for name, value in os.environ.items() if name != RUN_ENV}
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py"],
        env=env, check=False, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"sha256:[0-9a-f]{64}", done.stdout)
    assert "purchase_open" in done.stdout
    assert set(folder.parent.glob(f"{PREFIX}*")) <= before
