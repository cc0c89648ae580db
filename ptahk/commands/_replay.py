"""``migrate validate --dev-url-env``: run a directory again on a development server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptahk.commands import _directory, _inputs, _job, _local, _resource, _wiring
from ptahk.commands._options import Common, Place, PolicyOptions, Source
from ptahk.commands._options import Directory as Options
from ptahk.commands._render import Messages
from ptahk.engine.model.source import encode
from ptahk.wire import dsn


def added(
    document: dict[str, Any], directory: str, layout: str | None,
    values: Mapping[str, str] | str | None, url_env: str, common: Common,
) -> dict[str, Any]:  # fmt: skip
    """The ``Validation`` with what a replay found too; as it is where the files are refused.

    :param url_env: names the variable with the development server's URL.
    :raises PtahkError: the server cannot be reached, or no scratch database can be had there.
    """
    if document["sequence"] is None:
        return document
    found = _replay(directory, str(document["engine"]), layout, values, url_env, common)
    summary = document["summary"]
    return document | {
        "findings": [*document["findings"], *found],
        "sequence": None if found else document["sequence"],
        "summary": summary | {"errors": summary["errors"] + len(found)},
    }


def _replay(
    directory: str, engine: str, layout: str | None, values: Mapping[str, str] | str | None,
    url_env: str, common: Common,
) -> list[dict[str, Any]]:  # fmt: skip
    url = _inputs.url_of_environment(url_env, "dev-url-env")
    identity = dsn.identify(url, engine=engine, os_user=_inputs.os_user())
    files = tuple((file.name, file.text) for file in _directory.read(directory).files)
    wanted = _resource.wanted_migration(
        Place(), Source(engine=engine), PolicyOptions(), _options(layout, values),
        ref=None, identity=identity, files=files,
    )  # fmt: skip
    progress = _local.Progress(Messages(common))
    state = _inputs.state_directory(Place())
    with _wiring.local_world(state, "preferred", progress, url=url) as world:
        data = encode(files)
        spec = _job.replaying(world, wanted.document, data)
        result = _job.run(world, wanted.document, spec, source=data)
    findings: list[dict[str, Any]] = result["findings"]
    return findings


def _options(layout: str | None, values: Mapping[str, str] | str | None) -> Options:
    if isinstance(values, Mapping):
        given = [f"{name}={value}" for name, value in values.items()]
        return Options(layout=layout, placeholder=given)
    return Options(layout=layout, placeholders_off=values == "off")
