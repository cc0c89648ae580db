"""``ptahk ledger-sql``: the ledger's fixed DDL, for a DBA to run (C-6.16)."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import Common, grouped
from ptahk.errors import UsageError

NAME_BYTES_MAX = {"postgresql": 63, "mysql": 384}
"""Longest name of a role; of an account, ``user@host`` in bytes."""


@grouped
def ledger_sql(
    *,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="postgresql, mysql or mariadb.")
    ],
    grant_to: Annotated[
        str | None,
        typer.Option("--grant-to", metavar="ROLE", help="A role that is to write the ledger."),
    ] = None,
    common: Common,
) -> int:
    """Print the DDL of the attempt ledger, for a role that may not create it itself.

    It is idempotent and the same for every database. --grant-to lets a role write the ledger
    without owning it. For MySQL and MariaDB it is run in the database that it is for, and names
    an account, user or user@host.
    """
    from ptahk.commands import _render
    from ptahk.wire import digest, ledgersql

    family = digest.engine_family(engine)
    length = 1 if grant_to is None else len(grant_to.encode())
    if not 0 < length <= NAME_BYTES_MAX[family] or "\0" in (grant_to or ""):
        raise UsageError("not a role's or an account's name (grant-to)", field="grant-to")
    made = ledgersql.mysql if family == "mysql" else ledgersql.postgresql
    sql = ledgersql.script(made(grant_to))
    if common.output == "table":
        _render.write(sql)
        return 0
    document = _render.document("LedgerSql", engine=family, sql=sql)
    _render.emit(document, lambda value: [], common)
    return 0
