"""Option groups shared by the commands, and the values their texts turn into.

A group is a frozen dataclass whose fields carry their ``typer.Option``; :func:`grouped` spreads
the groups of a function's signature into plain parameters, so that a command is written with a
handful of values and still shows every option in its help.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import typer

from ptahk.errors import UsageError

SCHEMA, MIGRATION = "PtahSchema", "PtahMigration"
"""As the engine's models say, which a command that prints its help need not load."""

DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
DURATION_SECONDS_MAX = 7 * 86_400
"""A longer bound on a command or a lock wait is a typing mistake."""
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""Name of a local resource: a DNS label, as in a cluster."""
DEFAULT_URL_ENV = "DATABASE_URL"
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_duration(text: str) -> float:
    """Seconds of a duration such as ``90``, ``1.5s``, ``500ms``, ``5m`` or ``1h30m``.

    :raises UsageError: the text is no duration, or longer than a week.
    """
    value = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        seconds = float(value)
    else:
        match = DURATION.fullmatch(value)
        if not value or match is None:
            raise UsageError(
                f"not a duration ({value!r}): write a number with a unit",
                reason="InvalidDuration",
                hint="Examples: 500ms, 30s, 5m, 1h30m.",
            )
        hours, minutes, secs, millis = match.groups()
        seconds = (
            int(hours or 0) * 3600
            + int(minutes or 0) * 60
            + float(secs or 0)
            + int(millis or 0) / 1000
        )
    if seconds > DURATION_SECONDS_MAX:
        raise UsageError(f"duration too long ({value!r}): at most 168h", reason="InvalidDuration")
    return seconds


class OneOf:
    """A parser of an option's text: one of ``values`` in any letter case, spelled as here.

    A plain callable: typer brings a click of its own, whose ``Choice`` is private.
    """

    def __init__(self, *values: str) -> None:
        self.values = values
        self.__name__ = "|".join(values)

    def __call__(self, text: str) -> str:
        for value in self.values:
            if value.lower() == text.lower():
                return value
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(self.values)}.")


def choice(*flags: str, values: tuple[str, ...], help: str) -> Any:
    """An option that takes one of ``values``."""
    option: Any = typer.Option  # its overloads have no form for spread flags
    return option(*flags, parser=OneOf(*values), metavar="|".join(values), help=help)


def _output(*extra: str) -> Any:
    values = ("table", "json", "yaml", *extra)
    return choice("--output", "-o", values=values, help="What standard output carries.")


@dataclass(frozen=True, slots=True)
class Common:
    """What every command has (cli.md, Common)."""

    output: Annotated[str, _output()] = "table"
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no messages but errors.")
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more; show a traceback on our own faults.")
    ] = False
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour (also NO_COLOR).")] = False


@dataclass(frozen=True, slots=True)
class CommonSql(Common):
    """:class:`Common` for the commands that can also print SQL."""

    output: Annotated[str, _output("sql")] = "table"


@dataclass(frozen=True, slots=True)
class CommonSarif(Common):
    """:class:`Common` for the command whose findings other tools show (SARIF 2.1.0)."""

    output: Annotated[str, _output("sarif")] = "table"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the cluster is. Read only when a command is not local."""

    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", metavar="FILE", help="Credentials of the cluster."),
    ] = None
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the resource."),
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Look in every namespace.")
    ] = False
    coordination_namespace: Annotated[
        str,
        typer.Option(
            "--coordination-namespace",
            metavar="NAME",
            envvar="PTAHK_COORDINATION_NAMESPACE",
            help="Namespace of the realm Leases; must be the installed release's.",
        ),
    ] = "ptahk-system"


@dataclass(frozen=True, slots=True)
class Place:
    """Which local resource is meant, and where its state is kept."""

    manifest: Annotated[
        str | None,
        typer.Option(
            "--filename", "-f", metavar="FILE", help="Manifest of the resource; - is stdin."
        ),
    ] = None
    local: Annotated[bool, typer.Option("--local", help="Run here, without a cluster.")] = False
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Where claims and plans are kept (also PTAHK_STATE; "
            "default: the user's state directory).",
        ),
    ] = None
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the local resource."),
    ] = None
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Coordination key of the database."),
    ] = None
    url_env: Annotated[
        str | None,
        typer.Option(
            "--url-env",
            metavar="NAME",
            help=f"Environment variable with the database URL (default {DEFAULT_URL_ENV}).",
        ),
    ] = None
    url_file: Annotated[
        str | None,
        typer.Option("--url-file", metavar="FILE", help="File with the database URL."),
    ] = None


@dataclass(frozen=True, slots=True)
class Source:
    """The declaration, and the scratch database that reads it."""

    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="ENGINE", help="postgresql, mysql or mariadb (default: the URL's)."
        ),
    ] = None
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema", metavar="FILE", help="Declared schema, in SQL; repeatable; - is stdin."
        ),
    ] = None
    schema_dir: Annotated[
        str | None,
        typer.Option(
            "--schema-dir", metavar="DIR", help="Directory of *.sql files, read in name order."
        ),
    ] = None
    dev_url_env: Annotated[
        str | None,
        typer.Option(
            "--dev-url-env",
            metavar="NAME",
            help="Environment variable with the URL of a server for the scratch database.",
        ),
    ] = None
    dev_template: Annotated[
        str | None,
        typer.Option("--dev-template", metavar="NAME", help="Template of the scratch database."),
    ] = None


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """``spec.policy`` and ``spec.execution`` as options of the same names."""

    allow_destructive: Annotated[
        bool, typer.Option("--allow-destructive", help="Let a plan lose data.")
    ] = False
    protect: Annotated[
        list[str] | None,
        typer.Option("--protect", metavar="TABLE", help="Never change this table; repeatable."),
    ] = None
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="GLOB", help="Leave these objects alone; repeatable."),
    ] = None
    schemas: Annotated[
        list[str] | None,
        typer.Option(
            "--schemas", metavar="LIST", help="Schemas to manage beside the declared ones."
        ),
    ] = None
    lock_timeout: Annotated[
        str | None,
        typer.Option("--lock-timeout", metavar="DURATION", help="How long a statement waits (3s)."),
    ] = None
    coordination_timeout: Annotated[
        str | None,
        typer.Option(
            "--coordination-timeout",
            metavar="DURATION",
            help="How long to wait for somebody else's operation (60s).",
        ),
    ] = None
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename", metavar="FROM=TO", help="One declared rename, qualified; repeatable."
        ),
    ] = None
    privileges: Annotated[
        str | None,
        choice(
            "--privileges",
            values=("Declared", "Managed"),
            help="Which owners and grants are compared.",
        ),
    ] = None
    partitions: Annotated[
        str | None,
        choice(
            "--partitions",
            values=("Declared", "Managed"),
            help="Whether undeclared partitions are planned.",
        ),
    ] = None
    transaction_mode: Annotated[
        str | None,
        choice(
            "--transaction-mode",
            values=("auto", "file", "none"),
            help="auto (schemas): one transaction wherever the statements allow; file "
            "(migrations): one a file; none: each statement commits alone.",
        ),
    ] = None
    deadline: Annotated[
        int | None,
        typer.Option(
            "--deadline", metavar="SECONDS", min=30, max=86_400, help="Of one operation (900)."
        ),
    ] = None


LAYOUTS = ("ptahk", "atlas", "golang-migrate", "goose", "dbmate", "flyway", "diesel")
"""As ``migrations.model.FORMATS``, which a command that reads no directory need not load."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A migration directory, and how it is read."""

    migrations: Annotated[
        str | None,
        typer.Option("--migrations", metavar="DIR", help="Directory of versioned migrations."),
    ] = None
    layout: Annotated[
        str | None,
        choice("--format", values=LAYOUTS, help="Layout of the directory; without it: detected."),
    ] = None
    stream: Annotated[
        str | None,
        typer.Option(
            "--stream", metavar="NAME", help="Names this sequence in the database (default)."
        ),
    ] = None
    history_table: Annotated[
        str | None,
        typer.Option("--history-table", metavar="TABLE", help="Another tool's history table."),
    ] = None
    ahead: Annotated[
        str | None,
        choice(
            "--ahead",
            values=("Refuse", "Accept"),
            help="Whether a database that is ahead of the directory is fine.",
        ),
    ] = None
    placeholder: Annotated[
        list[str] | None,
        typer.Option("--placeholder", metavar="NAME=VALUE", help="Flyway's; repeatable."),
    ] = None
    placeholders_off: Annotated[
        bool, typer.Option("--placeholders-off", help="Leave ${name} in flyway files as it is.")
    ] = False


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a sequence is run; local runs only."""

    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="The last version to run."),
    ] = None
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many files.")
    ] = None

    @property
    def change(self) -> dict[str, str]:
        """As a request says it."""
        found = {} if self.to is None else {"to": self.to}
        return found if self.limit is None else {**found, "limit": str(self.limit)}


Timeout = Annotated[
    str | None,
    typer.Option("--timeout", metavar="DURATION", help="Bound on the whole command."),
]
Reference = Annotated[
    str | None,
    typer.Argument(metavar="[REF]", help="schema/NAME or migration/NAME", show_default=False),
]


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """Spread each option group of ``command``'s signature into plain parameters.

    Group fields keep their order; a command's own parameters stay where they are.
    """
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        annotation = hints[name]
        if not dataclasses.is_dataclass(annotation):
            parameters.append(
                parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)
            )
            continue
        assert isinstance(annotation, type)
        groups[name] = annotation
        fields = get_type_hints(annotation, include_extras=True)
        parameters.extend(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=fields[field.name],
            )
            for field in dataclasses.fields(annotation)
        )

    @functools.wraps(command)
    def spread(**values: Any) -> int:
        for name, group in groups.items():
            values[name] = group(
                **{field.name: values.pop(field.name) for field in dataclasses.fields(group)}
            )
        return command(**values)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {item.name: item.annotation for item in parameters}
    del spread.__wrapped__
    return spread


def is_local(
    place: Place, source: Source | None = None, directory: Directory | None = None
) -> bool:
    """Whether a command runs here (C-14.2). An environment variable never chooses."""
    declared = source is not None and (source.schema or source.schema_dir)
    declared = declared or (directory is not None and directory.migrations)
    return bool(place.local or place.url_env or place.url_file or declared)


_KINDS = {
    "schema": SCHEMA, "schemas": SCHEMA, "ptahschema": SCHEMA,
    "migration": MIGRATION, "migrations": MIGRATION, "ptahmigration": MIGRATION,
}  # fmt: skip


def resource_kind(ref: str | None) -> str | None:
    """The kind that REF names; None: it names none.

    :raises UsageError: no kind of ours.
    """
    family, slash, _ = (ref or "").partition("/")
    if not slash:
        return None
    if family not in _KINDS:
        raise UsageError(
            f"unknown kind (REF={ref}): a resource is named schema/NAME or migration/NAME",
            reason="UnknownFamily",
        )
    return _KINDS[family]


def reference(kind: str, name: str) -> str:
    """A resource as the command line names it."""
    return f"{'migration' if kind == MIGRATION else 'schema'}/{name}"


def resource_name(ref: str | None, name: str | None) -> str | None:
    """The name that REF or ``--name`` gives, or None.

    :raises UsageError: REF is of a family that this build does not have, the name is not a DNS
        label, or both are given and differ.
    """
    given = name
    if ref is not None:
        family, slash, rest = ref.partition("/")
        resource_kind(ref)
        named = rest if slash else family
        if given is not None and given != named:
            raise UsageError(f"two names given (REF={ref}, --name={given}): use one", field="name")
        given = named
    if given is not None and NAME.fullmatch(given) is None:
        raise UsageError(
            f"not a name (name={given!r}): lower-case letters, digits and dashes, at most 63",
            field="name",
        )
    return given


def split_list(values: list[str] | None) -> tuple[str, ...]:
    """Items of a repeatable option whose values may hold commas, in order, without empty ones."""
    return tuple(
        item
        for value in values or ()
        for item in (part.strip() for part in value.split(","))
        if item
    )


def split_renames(values: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Pairs of ``--rename FROM=TO`` (C-10.7).

    :raises UsageError: a value is not of that form.
    """
    pairs = []
    for value in values or ():
        old, equals, new = value.partition("=")
        if not equals or not old.strip() or not new.strip():
            raise UsageError(
                f"not a rename (rename={value!r}): write FROM=TO",
                field="rename",
                hint="Both qualified: public.old=public.new, or public.t.old=public.t.new.",
            )
        pairs.append((old.strip(), new.strip()))
    return tuple(pairs)
