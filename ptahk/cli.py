"""The command table, logging, signals, and the way from an error to an exit code (cli.md).

A command's module is imported only when that command runs; help and errors about the table need
none of them. A command is a function for ``typer.Typer.command`` that returns its exit code, or
None for 0; or a table of such functions, as ``digest``.
"""

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import FrameType
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from ptahk import __version__
from ptahk.errors import InternalError, PtahkError, UsageError, output_failed

Table = Mapping[str, tuple[str, str, str]]

COMMANDS: Table = {
    "plan": ("ptahk.commands.plan", "plan", "Show what would change, and save it with --out."),
    "apply": ("ptahk.commands.apply", "apply", "Change the database exactly once, and prove it."),
    "observe": ("ptahk.commands.observe", "observe", "Report drift; reads only."),
    "status": ("ptahk.commands.status", "status", "Phase, claims, what is owed, what to do next."),
    "history": ("ptahk.commands.history", "history", "The account of what was done, and by whom."),
    "approve": ("ptahk.commands.approve", "approve", "Approve one plan by its fingerprint."),
    "baseline": (
        "ptahk.commands.baseline",
        "baseline",
        "Record versions of an existing database as applied.",
    ),
    "acknowledge": (
        "ptahk.commands.acknowledge",
        "acknowledge",
        "Settle what only a person can settle.",
    ),
    "digest": (
        "ptahk.commands.digest",
        "COMMANDS",
        "Print the digest of a realm, a target, a plan or a migration directory.",
    ),
    "migrate": (
        "ptahk.commands.migrate",
        "COMMANDS",
        "A directory of versioned migrations: write, check, compare.",
    ),
    "census": ("ptahk.commands.census", "census", "Who claims which database; conflicts first."),
    "release-lock": (
        "ptahk.commands.release_lock",
        "release_lock",
        "Manual recovery: fence a claim and release its realm.",
    ),
    "ledger-sql": (
        "ptahk.commands.ledger_sql",
        "ledger_sql",
        "The ledger's fixed DDL, for a DBA to run.",
    ),
    "crds": ("ptahk.commands.crds", "crds", "Print the CustomResourceDefinitions."),
    "serve": ("ptahk.commands.serve", "serve", "Run the manager in a cluster."),
    "completion": ("ptahk.commands.completion", "completion", "Print a shell's completion script."),
}
"""Name → (module, attribute, one line of help), in the order of the help page."""

PROCESSES = {"runner": "ptahk.runner", "executor": "ptahk.executor"}
"""Hidden: what the operation Pod runs. Each reads its own arguments, as under ``python -m``."""

COMPLETION_VARIABLES = ("_PTAHK_COMPLETE", "_KUBECTL_PTAHK_COMPLETE")

EXIT_INTERNAL = 70
EXIT_SIGNAL = 128
HELP_WIDTH = 100
NAME_WIDTH_MAX = 40


class Ended(BaseException):
    """SIGTERM or SIGHUP arrived; like KeyboardInterrupt, no ``except Exception`` swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the arguments say about reporting, known even where they cannot be parsed."""

    document: bool = False
    verbose: bool = False


class CommandTable(TyperGroup):
    """Looks names up in a table, and imports late: ``COMMANDS`` at the root."""

    table: Table = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(self.table, cmd_name) if cmd_name in self.table else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.table:
            name = args[0][:NAME_WIDTH_MAX]
            near = get_close_matches(name, self.table, n=1)
            path = ctx.command_path
            guess = f"Did you mean {near[0]!r}?" if near else f"'{path} --help' lists them all."
            raise UsageError(f"no such command ({name!r})", reason="UnknownCommand", hint=guess)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in self.table.items()])


def load(commands: Table, name: str) -> Any:
    """Import one command of a table and build its parser."""
    module, attribute, line = commands[name]
    target = getattr(importlib.import_module(module), attribute)
    if callable(target):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, short_help=line)(target)
        command = typer.main.get_command(app)
        command.name = name
        gc.enable()  # the command may run for hours
        return command
    group = CommandTable(name=name, help=line, rich_markup_mode=None)
    group.table = target
    return group


def table() -> Any:
    """The root command with its own options."""
    app = typer.Typer(
        cls=CommandTable,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["--help", "-h"],
            "max_content_width": HELP_WIDTH,
        },
    )
    app.callback(help="Change production databases exactly once, with an account of it.")(_root)
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ptahk {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and end."
        ),
    ] = False,
) -> None:
    """Nothing to do before the command."""


def main(argv: Sequence[str]) -> int:
    """Run one command.

    :param argv: the arguments after the program's name.
    :returns: the exit code of cli.md; every way out has one.
    """
    if argv and argv[0] in PROCESSES:
        return _process(PROCESSES[argv[0]], argv)
    _open_streams()
    wishes = read_wishes(argv)
    if wishes.verbose:
        _log()
    _listen()
    try:
        try:
            code = _run(list(argv))
            _flush()
            return code
        except BrokenPipeError:
            raise
        except Exception as error:
            return _report(error, wishes)
    except BrokenPipeError:
        _silence(sys.stdout)
        return EXIT_SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        print("error: interrupted (signal=SIGINT)", file=sys.stderr)
        return EXIT_SIGNAL + signal.SIGINT
    except Ended as end:
        return EXIT_SIGNAL + end.number


def _run(argv: list[str]) -> int:
    root = table()
    if any(os.environ.get(name) for name in COMPLETION_VARIABLES):
        from typer import _completion_classes

        _completion_classes.completion_init()
        root.main(argv, prog_name="ptahk")
    if not argv:
        context = root.make_context("ptahk", [], resilient_parsing=True)
        print(root.get_help(context), file=sys.stderr)
        return UsageError.exit_code
    try:
        with root.make_context("ptahk", argv) as context:
            answer = root.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return EXIT_SIGNAL + signal.SIGINT
    return answer if isinstance(answer, int) else 0


def read_wishes(argv: Sequence[str]) -> Wishes:
    """Find ``-o json`` and ``--verbose`` in arguments that may be wrong in every other way."""
    document = verbose = False
    for word, value in _options(argv):
        if word in ("--output", "-o"):
            # JSON is YAML too, and an error must not depend on importing a YAML writer.
            document = value.lower() in ("json", "yaml")
        verbose = verbose or word in ("--verbose", "-v")
    return Wishes(document, verbose)


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(option, possible value) pairs, bundled short flags taken apart."""
    for index, word in enumerate(argv):
        following = argv[index + 1] if index + 1 < len(argv) else ""
        if word == "--":
            return
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            yield name, value if equals else following
        elif word.startswith("-"):
            flags = word[1:]
            while flags and flags[0] in "qv":
                yield f"-{flags[0]}", ""
                flags = flags[1:]
            if flags:
                yield f"-{flags[0]}", flags[1:].removeprefix("=") or following


def _report(error: Exception, wishes: Wishes) -> int:
    """Say what went wrong: one line on standard error, and the document where it is wanted."""
    known = _translate(error)
    line = error_line(known)
    if wishes.verbose and not isinstance(error, PtahkError | TyperException):
        import traceback

        line = _clean("".join(traceback.format_exception(error))) + line
    try:
        print(line, file=sys.stderr)
    except OSError:  # the exit code must come out even so
        _silence(sys.stderr)
    try:
        if wishes.document:
            print(json.dumps(error_document(known), ensure_ascii=False, indent=2))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        _silence(sys.stdout)
    return known.exit_code


def error_line(error: PtahkError) -> str:
    """``error: WHAT (FIELD=VALUE): WHY. NEXT STEP`` in one line."""
    text = " ".join(error.message.split()).rstrip(".")
    return f"error: {text}. {_next_step(error)}".rstrip()


def _next_step(error: PtahkError) -> str:
    """The hint as a sentence, or a few: engine and executor write them as plain clauses."""
    hint = " ".join((error.hint or "").split())
    first = hint.partition(" ")[0]
    if first.isalpha() and first not in ("export", "ptahk"):
        hint = hint[0].upper() + hint[1:]
    return hint if not hint or hint.endswith((".", "?", "!")) else f"{hint}."


def error_document(error: PtahkError) -> dict[str, Any]:
    """The same for scripts."""
    document: dict[str, Any] = {
        "apiVersion": "cli.ptahk.dev/v1",
        "kind": "Error",
        "code": error.exit_code,
        "reason": error.reason,
        "message": error.message,
    }
    if error.field is not None:
        document["field"] = error.field
    if error.hint is not None:
        document["hint"] = _next_step(error)
    return document


def _translate(error: Exception) -> PtahkError:
    if isinstance(error, PtahkError):
        return error
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "ptahk"
        parameter = getattr(error, "param", None)
        return UsageError(
            _clean(error.format_message()),
            field=getattr(parameter, "name", None),
            hint=f"Try '{path} --help'.",
        )
    if isinstance(error, ImportError):
        return InternalError(
            f"broken installation (module={error.name}): it cannot be imported",
            reason="BrokenInstallation",
            hint="Install ptahk again; --verbose shows the traceback.",
        )
    return InternalError(
        _clean(f"a fault of our own ({type(error).__name__}): {error}"),
        hint="Nothing is repeated when you run the command again; --verbose shows the traceback.",
    )


def _clean(text: str) -> str:
    """Mask what looks like a credential: text that we did not write may quote anything."""
    from ptahk.wire.redact import Redactor

    return Redactor.of_environment(os.environ).text(text)


def _log() -> None:
    """Diagnostics of libraries and ours, on standard error; only under --verbose."""
    import logging

    from ptahk.wire.redact import Redactor

    redactor = Redactor.of_environment(os.environ)

    class Masked(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return redactor.text(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(Masked("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _open_streams() -> None:
    """Give standard streams that the caller closed to the null device.

    Else the next file that is opened (the store's, for one) gets the number of a standard stream,
    and whatever is printed there goes into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _listen() -> None:
    """End in order on SIGTERM and SIGHUP. Ctrl-C, once and twice, is the command's own."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    raise Ended(number)


def _flush() -> None:
    """Write out what is buffered, now, while a failure still has an exit code of ours."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence(sys.stdout)
        raise output_failed(error) from None


def _silence(stream: TextIO) -> None:
    """Send a standard stream nowhere: the interpreter flushes it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _process(module: str, argv: Sequence[str]) -> int:
    import runpy

    sys.argv = [f"ptahk {argv[0]}", *argv[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0
