"""Option groups and the values their texts turn into."""

from __future__ import annotations

import inspect
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ptahk.commands import _options as options
from ptahk.engine.model.migration import MIGRATION
from ptahk.engine.model.resource import SCHEMA
from ptahk.errors import UsageError
from ptahk.migrations import model


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("2m10s", 130.0),
        (" 3s ", 3.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert options.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5x", "-3s", "1d", "5 m", "m5", "1e3", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.parse_duration(text)
    assert caught.value.exit_code == 2
    assert caught.value.reason == "InvalidDuration"


def test_a_duration_has_a_bound() -> None:
    with pytest.raises(UsageError, match="too long"):
        options.parse_duration("1000h")


def test_lists_and_renames() -> None:
    assert options.split_list(["a,b", " c ,", ""]) == ("a", "b", "c")
    assert options.split_list(None) == ()
    assert options.split_renames(["public.a = public.b"]) == (("public.a", "public.b"),)
    for wrong in ("a", "=b", "a="):
        with pytest.raises(UsageError, match="FROM=TO"):
            options.split_renames([wrong])


@pytest.mark.parametrize(
    ("ref", "name", "result"),
    [
        (None, None, None),
        ("schema/orders", None, "orders"),
        ("orders", None, "orders"),
        ("migration/orders", None, "orders"),
        (None, "orders", "orders"),
        ("schema/orders", "orders", "orders"),
    ],
)
def test_references(ref: str | None, name: str | None, result: str | None) -> None:
    assert options.resource_name(ref, name) == result


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("table/orders", None),
        ("schema/Orders", None),
        ("schema/", None),
        (None, "a/b"),
        ("schema/a", "b"),
    ],
)
def test_refused_references(ref: str | None, name: str | None) -> None:
    with pytest.raises(UsageError):
        options.resource_name(ref, name)


def test_what_is_repeated_here_is_what_the_models_say() -> None:
    assert options.LAYOUTS == model.FORMATS
    assert (options.SCHEMA, options.MIGRATION) == (SCHEMA, MIGRATION)


def test_only_an_option_makes_a_run_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/d")
    monkeypatch.setenv("PTAHK_STATE", "/nowhere")
    assert not options.is_local(options.Place(manifest="x.yaml", state="s", name="n", key="k"))
    assert options.is_local(options.Place(local=True))
    assert options.is_local(options.Place(url_env="X"))
    assert options.is_local(options.Place(url_file="x"))
    assert options.is_local(options.Place(), options.Source(schema=["x.sql"]))
    assert options.is_local(options.Place(), options.Source(schema_dir="x"))
    assert not options.is_local(options.Place(), options.Source(engine="postgresql"))


def test_groups_are_spread_into_plain_parameters() -> None:
    seen: list[object] = []

    @options.grouped
    def command(
        ref: options.Reference = None,
        *,
        common: options.CommonSql,
        policy: options.PolicyOptions,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> int:
        """Say."""
        seen.append((ref, common, policy, flag))
        return 0

    names = list(inspect.signature(command).parameters)
    assert names[0] == "ref" and names[-1] == "flag" and "transaction_mode" in names
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command)
    arguments = ["schema/x", "-o", "SQL", "--exclude", "a", "--exclude", "b", "--flag"]
    result = CliRunner().invoke(app, [*arguments, "--transaction-mode", "NONE"])
    assert result.exit_code == 0, result.output
    expected = options.PolicyOptions(exclude=["a", "b"], transaction_mode="none")
    assert seen == [("schema/x", options.CommonSql(output="sql"), expected, True)]
    assert CliRunner().invoke(app, ["-o", "xml"]).exit_code == 2
