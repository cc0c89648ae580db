"""``python -m ptahk`` and the ``ptahk`` program."""

import sys


def main() -> None:
    """Run the command line and end the process with its exit code (cli.md)."""
    if not __debug__:
        # Before any import of ours: under -O every assertion of the house would be gone.
        sys.stderr.write("error: optimised interpreter (-O, PYTHONOPTIMIZE): ptahk keeps its ")
        sys.stderr.write("assertions. Run it without that option.\n")
        sys.exit(2)
    try:
        from ptahk.cli import main as run
    except ImportError as error:
        name = error.name or type(error).__name__
        sys.stderr.write(f"error: broken installation (module={name}): cannot be imported. ")
        sys.stderr.write("Install ptahk again.\n")
        sys.exit(70)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
