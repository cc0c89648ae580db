"""``ptahk digest``: what a realm, a target, a plan file or a sequence is called. No connection."""

import json
import sys
from typing import Annotated, Any

import typer

from ptahk.errors import output_failed
from ptahk.wire import digest as digests

COMMANDS = {
    "realm": (__name__, "realm", "The coordination digest of a key, and its Lease's name."),
    "target": (__name__, "target", "The identity of a database URL's target, without secrets."),
    "plan": (__name__, "plan", "A plan file's fingerprint and what it binds, verified."),
    "sequence": (__name__, "sequence", "What an approval of a migration directory binds."),
}
"""Subcommands, as in ``cli.COMMANDS``."""

DEFAULT_URL_ENV = "DATABASE_URL"


def _format(text: str) -> str:
    if text not in ("table", "json", "yaml"):
        raise typer.BadParameter(f"{text!r} is not one of table, json, yaml.")
    return text


Engine = Annotated[
    str,
    typer.Option("--engine", metavar="ENGINE", help="postgresql (postgres is the same) or mysql."),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        parser=_format,
        metavar="table|json|yaml",
        help="What standard output carries.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No messages but errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show a traceback on our own faults.")
]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colour; this command has none.")]


def realm(
    engine: Engine,
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="Coordination key of the database.")
    ],
    output: Output = "table",
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """The coordination digest of a key, and its Lease's name."""
    digest = digests.coordination_digest(engine, key)
    family = digests.engine_family(engine)
    _show("realm", digest, output, lease=digests.lease_name(digest), bound={"engine": family})


def target(
    engine: Engine,
    url_env: Annotated[
        str | None,
        typer.Option(
            "--url-env",
            metavar="NAME",
            help=f"Environment variable with the database URL (default {DEFAULT_URL_ENV}).",
        ),
    ] = None,
    url_file: Annotated[
        str | None,
        typer.Option("--url-file", metavar="FILE", help="File with the database URL."),
    ] = None,
    output: Output = "table",
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """The identity of a database URL's target, without secrets."""
    from ptahk.commands import _inputs, _options
    from ptahk.wire import dsn

    url = _inputs.read_url(_options.Place(url_env=url_env, url_file=url_file))
    identity = dsn.identify(url, engine=engine, os_user=_inputs.os_user())
    _show(
        "target",
        identity.digest,
        output,
        bound=identity.bound,
        excluded=list(identity.excluded),
        normalised=list(identity.normalised),
    )


def plan(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A plan of 'plan --out'.")],
    output: Output = "table",
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """A plan file's fingerprint and what it binds, verified."""
    from ptahk.commands import _inputs
    from ptahk.wire import planfile

    found = planfile.decode(_inputs.read_bytes(file, "FILE", planfile.FILE_BYTES_MAX))
    _show("plan", found.fingerprint, output, bound=found.binding.document())


def sequence(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A directory of migrations, of any layout.")
    ],
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="postgresql, mysql or mariadb.")
    ],
    layout: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="Layout; without it: detected."),
    ] = None,
    output: Output = "table",
    quiet: Quiet = False,
    verbose: Verbose = False,
    no_color: NoColor = False,
) -> None:
    """What an approval of a migration directory binds: every file's bytes, in order."""
    from ptahk.commands import _migrate
    from ptahk.migrations import reading

    found = _migrate.required(directory, engine, layout, None)
    bound = {
        "format": found.format,
        "engine": found.engine,
        "files": {each.file: each.raw_digest for each in found.migrations},
    }
    _show("sequence", reading.sequence_digest(found), output, bound=bound)


def _show(of: str, digest: str, output: str, **parts: Any) -> None:
    """Print the ``Digest`` document, or its text.

    ``kind`` names the document, as in every other one; ``of`` tells what was digested.
    """
    document: dict[str, Any] = {
        "apiVersion": "cli.ptahk.dev/v1",
        "kind": "Digest",
        "of": of,
        "digest": digest,
        **parts,
    }
    document.setdefault("excluded", [])
    document.setdefault("normalised", [])
    if output == "json":
        text = json.dumps(document, indent=2)
    elif output == "yaml":
        from ptahk.commands import _render

        text = _render.to_yaml(document).rstrip("\n")
    else:
        text = "\n".join(_lines(document))
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_failed(error) from None


def _lines(document: dict[str, Any]) -> list[str]:
    rows = [("digest", document["digest"])]
    if "lease" in document:
        rows.append(("lease", document["lease"]))
    rows += _rows(document["bound"], "")
    if document["of"] == "target":
        rows += [(name, ", ".join(document[name]) or "-") for name in ("excluded", "normalised")]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    if all(line.isprintable() for line in lines):
        return lines
    # Names come from a URL: no escape sequence or direction mark reaches the terminal raw.
    from ptahk.commands._text import visible

    return [visible(line) for line in lines]


def _rows(bound: dict[str, Any], prefix: str) -> list[tuple[str, str]]:
    rows = []
    for name, value in bound.items():
        if isinstance(value, dict):
            rows += _rows(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            rows.append((f"{prefix}{name}", value))
        else:
            rows.append((f"{prefix}{name}", "-" if value is None else json.dumps(value)))
    return rows
