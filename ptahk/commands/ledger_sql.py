"""``ptahk ledger-sql``: the ledger's fixed DDL, for a DBA to run (C-6.16)."""

from __future__ import annotations

from typing import Annotated

import typer

from ptahk.commands._options import Common, grouped
from ptahk.errors import UsageError


@grouped
def ledger_sql(
    *,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="postgresql, in any spelling.")
    ],
    grant_to: Annotated[
        str | None,
        typer.Option("--grant-to", metavar="ROLE", help="A role that is to write the ledger."),
    ] = None,
    common: Common,
) -> int:
    """Print the DDL of the attempt ledger, for a role that may not create it itself.

    It is idempotent and the same for every database. --grant-to lets a role write the ledger
    without owning it.
    """
    from ptahk.commands import _render
    from ptahk.wire import digest, ledgersql

    family = digest.engine_family(engine)
    if family != "postgresql":
        raise UsageError(
            f"engine not supported yet (engine={engine}): only PostgreSQL targets are",
            reason="EngineNotSupported",
            field="engine",
        )
    if grant_to is not None and not (0 < len(grant_to.encode()) <= 63 and "\0" not in grant_to):
        raise UsageError("not a role's name (grant-to)", field="grant-to")
    sql = ledgersql.script(ledgersql.postgresql(grant_to))
    if common.output == "table":
        _render.write(sql)
        return 0
    document = _render.document("LedgerSql", engine=family, sql=sql)
    _render.emit(document, lambda value: [], common)
    return 0
