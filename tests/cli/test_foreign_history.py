"""A history that was imported from another tool: whoever runs that tool again is found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptahk.migrations.foreign import baseline
from tests.cli.conftest import MakeUser
from tests.cli.test_sequences import FILES, apply, status, write
from tests.executor.test_foreign_history import foreign
from tests.kit import servers, targets
from tests.kit.sequences import Sequences


@pytest.mark.parametrize("engine", ["pg18", "mysql", "mariadb"])
def test_a_moved_table_is_dirty(
    user_of: MakeUser, server_run: servers.Run, tmp_path: Path, engine: str
) -> None:
    with targets.open_target(server_run, engine) as target:
        bed = Sequences(target)
        user = user_of(target.url())
        folder = write(tmp_path, FILES)
        texts: dict[str, Any] = {
            "v" + name.removesuffix(".sql"): text for name, text in FILES.items()
        }
        directory = bed.directory(**texts)
        target.run(FILES["1_orders.sql"])
        target.run("CREATE TABLE schema_migrations (version bigint primary key, dirty boolean)")
        target.run("INSERT INTO schema_migrations VALUES (1, false)")
        with bed.session() as mine:
            found = baseline.of(directory, foreign(bed).find(mine, None, None))
            foreign(bed).adopt(mine, bed.attempt(directory), found)
        assert status(user, folder)["verdict"] == "pending"
        applied = apply(user, folder)
        assert applied.code == 0, applied
        target.run("UPDATE schema_migrations SET version = 2")
        moved = status(user, folder)
        assert (moved["verdict"], moved["findings"][0]["number"]) == ("dirty", "MG604")
