"""``ptahk migrate``: a directory of versioned migrations. Two of them open a database."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import (
    Cluster,
    Common,
    CommonSarif,
    Directory,
    OneOf,
    Place,
    PolicyOptions,
    Reference,
    Source,
    Timeout,
    grouped,
)
from ptahk.errors import UsageError
from ptahk.migrations.model import ENGINES, FORMATS

COMMANDS = {
    "new": (__name__, "new", "Make the file of the next migration."),
    "hash": (__name__, "hash_", "Write the directory's sum file anew, or check it."),
    "validate": (__name__, "validate", "Check names, sums, splitting and every statement."),
    "show": (__name__, "show", "One migration's statements as they will be sent."),
    "status": (__name__, "status", "Compare the directory with a database; reads only."),
    "repair": (__name__, "repair", "Accept the edit of one version that was applied."),
    "rebase": (__name__, "rebase", "Move migrations that came late to the end."),
}
"""Subcommands, as in ``cli.COMMANDS``."""

DIRECTORY = "migrations"


def _engine(text: str) -> str:
    """An engine's name; ``postgres`` is the same as ``postgresql``."""
    return OneOf(*ENGINES)("postgresql" if text.lower() == "postgres" else text)


_ENGINE = typer.Option(
    "--engine", parser=_engine, metavar="|".join(ENGINES), help="Whose SQL it is."
)
_FORMAT = typer.Option(
    "--format", parser=OneOf(*FORMATS), metavar="|".join(FORMATS),
    help="Layout of the directory; without it: detected.",
)  # fmt: skip
_WHERE = typer.Option("--migrations", metavar="DIR", help="Directory of the migrations.")
_POSITIONAL = typer.Argument(metavar="DIR", help="Directory of the migrations.")


@grouped
def new(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the migration does.")],
    migrations: Annotated[str, _WHERE] = DIRECTORY,
    engine: Annotated[str, _ENGINE] = "postgresql",
    layout: Annotated[str | None, _FORMAT] = None,
    common: Common,
) -> int:
    """Make the file of the next migration, above every other version, and update the sum file."""
    from ptahk.commands import _migrate, _render

    document = _migrate.new(migrations, name, engine, layout)
    _render.emit(document, _migrate.change_lines, common)
    return 0


@grouped
def hash_(
    *,
    directory: Annotated[str, _POSITIONAL],
    engine: Annotated[str, _ENGINE] = "postgresql",
    layout: Annotated[str | None, _FORMAT] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 where the sum does not fit.")
    ] = False,
    common: Common,
) -> int:
    """Write the sum file of a ptahk or an atlas directory anew, once the files are right."""
    from ptahk.commands import _migrate, _render

    document = _migrate.sum_file(directory, engine, layout, check=check)
    _render.emit(document, _migrate.change_lines, common)
    return int(check and bool(document["changed"]))


@grouped
def validate(
    *,
    directory: Annotated[str, _POSITIONAL],
    engine: Annotated[str, _ENGINE],
    layout: Annotated[str | None, _FORMAT] = None,
    placeholder: Annotated[
        list[str] | None,
        typer.Option("--placeholder", metavar="NAME=VALUE", help="Flyway's; repeatable."),
    ] = None,
    placeholders_off: Annotated[
        bool, typer.Option("--placeholders-off", help="Leave ${name} in flyway files as it is.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="REF",
            help="Git commit that this branch will be merged into: its files must be unchanged, "
            "and new ones sort after them.",
        ),
    ] = None,
    dev_url_env: Annotated[
        str | None,
        typer.Option(
            "--dev-url-env",
            metavar="NAME",
            help="Environment variable with the URL of a development server: every file is run in "
            "a scratch database there, from empty and from the newest checkpoint.",
        ),
    ] = None,
    common: CommonSarif,
) -> int:
    """Check a directory without a database: layout, versions, sum, splitting, every statement.

    Exits 1 where a finding refuses the directory.
    """
    from ptahk.commands import _migrate, _render, _resource

    values = _resource.placeholders(placeholder, off=placeholders_off)
    document = _migrate.validate(directory, engine, layout, values, base)
    if dev_url_env is not None:
        from ptahk.commands import _replay

        document = _replay.added(document, directory, layout, values, dev_url_env, common)
    if common.output == "sarif":
        _render.write(_migrate.sarif_text(document))
    else:
        _render.emit(document, _migrate.validation_lines, common)
    return int(document["summary"]["errors"] > 0)


@grouped
def show(
    *,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Version; of a repeatable its description.")
    ],
    migrations: Annotated[str, _WHERE] = DIRECTORY,
    engine: Annotated[str, _ENGINE],
    layout: Annotated[str | None, _FORMAT] = None,
    common: Common,
) -> int:
    """One migration's statements as they will be sent, with lines and units."""
    from ptahk.commands import _migrate, _render

    document = _migrate.show(migrations, version, engine, layout)
    _render.emit(document, _migrate.statement_lines, common)
    return 0


@grouped
def rebase(
    *,
    versions: Annotated[
        list[str], typer.Argument(metavar="VERSION", help="Versions to move, in their new order.")
    ],
    migrations: Annotated[str, _WHERE] = DIRECTORY,
    engine: Annotated[str, _ENGINE] = "postgresql",
    layout: Annotated[str | None, _FORMAT] = None,
    common: Common,
) -> int:
    """Give migrations that came late versions above every other, and update the sum file.

    Only for files that no database has run.
    """
    from ptahk.commands import _migrate, _render

    document = _migrate.rebase(migrations, versions, engine, layout)
    _render.emit(document, _migrate.change_lines, common)
    return 0


@grouped
def status(
    *,
    where: Annotated[
        str | None,
        typer.Argument(metavar="[DIR|REF]", help="Directory, or migration/NAME as last read."),
    ] = None,
    common: Common,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    cluster: Cluster,
) -> int:
    """Each file with its state in the database, the verdict, and what to do next. Only reads.

    Exits 1 where something is pending or blocks.
    """
    from dataclasses import replace

    from ptahk.commands import _local, _render, _sequence

    if where is not None and where.startswith("migration/"):
        document = _sequence.status_of_resource(common, place, cluster, where)
        _render.emit(document, _sequence.status_lines, common)
        return int(not _sequence.is_clean(document))
    given = where or directory.migrations or DIRECTORY
    told = _local.Told(
        common, place, source, policy, directory=replace(directory, migrations=given)
    )
    document = _sequence.status(told)
    _render.emit(document, _sequence.status_lines, common)
    return int(not _sequence.is_clean(document))


@grouped
def repair(
    *,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The version.")],
    ref: Reference = None,
    accept_edit: Annotated[
        bool, typer.Option("--accept-edit", help="Its row gets the checksum of the file as it is.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")
    ] = None,
    common: Common,
    place: Place,
    source: Source,
    policy: PolicyOptions,
    directory: Directory,
    timeout: Timeout = None,
    cluster: Cluster,
) -> int:
    """Accept that one version's file was edited after it was applied. Nothing of it is run."""
    from ptahk.commands import _local, _render, _sequence, _text

    if not accept_edit:
        raise UsageError(
            "say what is repaired: --accept-edit", field="accept-edit",
            hint="ptahk migrate status shows what differs.",
        )  # fmt: skip
    told = _local.Told(common, place, source, policy, ref, timeout, directory)
    change = {"action": "repair", "version": version, "reason": (reason or "").strip()}
    document = _sequence.record(told, cluster, change)
    _render.emit(document, _text.apply_result, common)
    return 0
