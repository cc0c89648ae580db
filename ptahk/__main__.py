"""``python -m ptahk`` and the ``ptahk`` program."""

import gc
import sys


def main() -> None:
    """Run the command line and end the process with its exit code (cli.md)."""
    if not __debug__:
        # Before any import of ours: under -O every assertion of the house would be gone.
        sys.stderr.write("error: optimised interpreter (-O, PYTHONOPTIMIZE): ptahk keeps its ")
        sys.stderr.write("assertions. Run it without that option.\n")
        sys.exit(2)
    # Imports make no garbage, and the collector costs a tenth of them. ``cli.load`` turns it on.
    gc.disable()
    try:
        from ptahk.cli import main as run
    except ImportError as error:
        name = error.name or type(error).__name__
        sys.stderr.write(f"error: broken installation (module={name}): cannot be imported. ")
        sys.stderr.write("Install ptahk again.\n")
        sys.exit(70)
    sys.exit(run(sys.argv[1:]))


def complete() -> None:
    """``kubectl_complete-ptahk``: what kubectl asks for a Tab behind ``kubectl ptahk``."""
    from ptahk.cli import table
    from ptahk.commands import _completions

    nodes = tuple(_completions.read(table()))
    sys.stdout.write(_completions.kubectl(nodes, tuple(sys.argv[1:])))


if __name__ == "__main__":
    main()
