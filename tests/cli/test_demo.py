"""``make demo`` tells its whole story, ends by itself and leaves nothing behind."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kit.servers import RUN_ENV

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_ends_well_and_cleans_up() -> None:
    # Not pytest's folder: the server's account must be able to enter, and sockets want short paths.
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        env = {name: value for name, value in os.environ.items() if name != RUN_ENV}
        done = subprocess.run(
            [sys.executable, ROOT / "scripts" / "demo.py"],
            env={**env, "TMPDIR": folder}, check=False, capture_output=True, text=True,
            timeout=180,
        )  # fmt: skip
        left = [path.name for path in Path(folder).iterdir()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"sha256:[0-9a-f]{64}", done.stdout)
    assert "purchase_open" in done.stdout
    assert left == []
