"""Show what ptahk does, on a PostgreSQL of its own: plan, approve, apply, prove, drift.

Runs the installed ``ptahk`` as a person would, and ends by itself. Nothing is left behind: the
server, its data and ptahk's state live in temporary folders that a guard removes in any case.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit import servers  # noqa: E402

SCHEMA = "examples/shop.sql"
DECLARED = ["--engine", "postgresql", "--schema", SCHEMA]
BY_HAND = [
    "ALTER TABLE product ADD COLUMN discount integer",
    "DROP INDEX purchase_open",
]


class DemoFailed(Exception):
    """A step did not end as it should."""


def say(text: str) -> None:
    """A heading between steps."""
    print(f"\n# {text}", flush=True)


class Shell:
    """Runs commands as a person would, showing each one."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        state = str(folder / "state")
        # libpq's own variables would change where the URL leads.
        own = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        self.env = {**own, "PATH": path, "DATABASE_URL": url, "PTAHK_STATE": state}

    def ptahk(self, *arguments: str, ends: int = 0) -> None:
        """Run ``ptahk`` and show what it prints.

        :raises DemoFailed: it ends with another exit code than ``ends``.
        """
        print(f"$ ptahk {shlex.join(arguments)}", flush=True)
        done = subprocess.run(["ptahk", *arguments], cwd=ROOT, env=self.env, check=False)
        print(f"(exit code {done.returncode})", flush=True)
        if done.returncode != ends:
            raise DemoFailed(f"ptahk {arguments[0]} ended with {done.returncode}, not {ends}")

    def fingerprint(self, plan: Path) -> str:
        """The plan's fingerprint, as ``ptahk digest plan`` prints it."""
        done = subprocess.run(
            ["ptahk", "digest", "plan", str(plan), "-o", "json"],
            cwd=ROOT, env=self.env, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return str(json.loads(done.stdout)["digest"])


def story(server: servers.Server, folder: Path) -> None:
    """The steps themselves."""
    with psycopg.connect(server.socket_url(), autocommit=True) as conn:
        conn.execute("CREATE DATABASE shop")
    shell = Shell(server.url("shop"), folder)
    plan = folder / "shop.plan"

    say(f"What would {SCHEMA} change in the empty database? Only reads; the plan is saved.")
    shell.ptahk("plan", *DECLARED, "--out", str(plan))

    fingerprint = shell.fingerprint(plan)
    say("Approve exactly that plan by its fingerprint, apply it once, and prove the result.")
    shell.ptahk("apply", "--local", "--plan", str(plan), "--approve", fingerprint)

    say("Plan again: nothing is left to do.")
    shell.ptahk("plan", *DECLARED, "--exit-code")

    say("Somebody changes the database by hand.")
    with psycopg.connect(server.socket_url("shop"), autocommit=True) as conn:
        for statement in BY_HAND:
            print(f"shop=# {statement};", flush=True)
            conn.execute(statement.encode())

    say("Observe: the drift shows, and --exit-code answers 1. Nothing is changed.")
    shell.ptahk("observe", *DECLARED, "--exit-code", ends=1)


def main() -> int:
    """Start the server, tell the story, clean up."""
    began = time.monotonic()
    run, keeper = servers.begin()
    try:
        with tempfile.TemporaryDirectory(prefix="ptahk-demo-") as folder:
            server = run.server(18)
            print(f"# An embedded PostgreSQL {server.version} runs on port {server.port}.")
            story(server, Path(folder))
    except DemoFailed as failed:
        print(f"error: the demo failed: {failed}", file=sys.stderr)
        return 1
    finally:
        servers.finish(keeper)
    print(f"\n# Done in {time.monotonic() - began:.0f} s; the server and its data are gone.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
