"""The upgrades of a real product as one sequence, on a database that was there before.

Icinga DB ships its schema of each release, loaded with the server's own client, and a script from
one to the next. They become a directory of this product's layout, beside the release that the
database has; what they end with is what the project's own ``schema.sql`` makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Ptahk
from tests.kit import clients, databases, mydatabases
from tests.kit.databases import Database
from tests.kit.mydatabases import MyDatabase
from tests.kit.sequences import NONE, Sequences
from tests.kit.targets import Target

BASE = "1.1.0"
UPGRADES = (
    "1.1.1", "1.2.0", "1.2.1", "1.4.0", "1.5.2-pr1059", "1.5.2-pr1063",
    "notifications-health-and-discovery", "optional/*",
)  # fmt: skip
"""In the order of the project's documentation."""
ROWS = {
    "postgresql": (
        "SET session_replication_role = replica;"
        "INSERT INTO history (id, environment_id, host_id, event_type, event_time)"
        " VALUES ({id}, {id}, {id}, 'ack_set', 7);"
        "INSERT INTO host_state (id, host_id, environment_id, properties_checksum, soft_state,"
        " hard_state, previous_soft_state, previous_hard_state, check_attempt, severity,"
        " is_acknowledged, last_state_change, next_check, next_update)"
        " VALUES ({id}, {id}, {id}, {id}, 0, 0, 0, 0, 200, 0, 'sticky', 0, 0, 0);"
    ).format(id="decode(repeat('ab', 20), 'hex')"),
    "mysql": (
        "SET SESSION foreign_key_checks = 0, sql_mode = '';"
        "INSERT INTO history (id, event_type, event_time) VALUES ('h', 'ack_set', 7);"
        "INSERT INTO host_state (id, check_attempt, is_acknowledged) VALUES ('s', 200, 'sticky');"
    ),
}
"""Rows whose values two of the upgrades convert."""
KEPT = (
    "SELECT event_type, event_time, check_attempt, is_acknowledged, is_sticky_acknowledgement"
    " FROM history CROSS JOIN host_state"
)


def write(corpus: Path, folder: Path) -> list[str]:
    """The release as the first version, then the upgrades. :returns: the versions."""
    sources = [corpus / "releases" / f"{BASE}.sql"]
    for name in UPGRADES:
        found = sorted((corpus / "upgrades").glob(f"{name}.sql"))
        assert len(found) == 1, (name, found)
        sources += found
    folder.mkdir()
    for number, source in enumerate(sources, 1):
        text = source.read_text()
        header = NONE if "CONCURRENTLY" in text else ""
        (folder / f"{number}_{source.stem}.sql").write_text(header + text)
    return [str(number) for number, _ in enumerate(sources, 1)]


def facts(bed: Sequences) -> Any:
    """Every object that ptahk knows and did not make itself; as mappings, so without the order of
    columns."""
    with bed.session() as mine:
        return bed.catalog(mine).objects


@pytest.fixture
def made(target: Target, corpora: Path) -> Any:
    """A further database, with the project's own schema of today."""
    other: Database | MyDatabase
    if isinstance(target.database, Database):
        other = databases.create(target.database.server)
    else:
        other = mydatabases.create(target.database.server)
    clients.load(other, (corpus_of(target, corpora) / "schema.sql").read_text())
    yield Sequences(Target(target.name, other))
    other.drop()


def corpus_of(target: Target, corpora: Path) -> Path:
    return corpora / "icingadb" / ("pgsql" if target.engine == "postgresql" else "mysql")


def test_the_upgrades_end_with_the_schema_of_today(
    target: Target, made: Sequences, corpora: Path, tmp_path: Path
) -> None:
    corpus = corpus_of(target, corpora)
    versions = write(corpus, tmp_path / "upgrades")
    release = (corpus / "releases" / f"{BASE}.sql").read_text()
    clients.load(target.database, release)
    clients.load(target.database, ROWS[target.engine])
    user = Ptahk(tmp_path / "state", {"DATABASE_URL": target.url()}, tmp_path)
    given = ("--migrations", "upgrades", "-o", "json")

    refused = user.run("apply", *given, "--auto-approve").refusal(3, "DatabaseNotEmpty")
    assert "baseline --to" in refused
    done = user.run("baseline", "--to", versions[0], *given)
    assert done.document("ApplyResult")["outcome"] == "Applied", done
    planned = user.run("plan", *given).document("Plan")
    assert [each["version"] for each in planned["sequence"]["files"]] == versions[1:]
    applied = user.run("apply", *given, "--auto-approve")
    assert applied.code == 0, applied
    result = applied.document("ApplyResult")
    assert result["statementsDone"] == len(planned["statements"]) > 50
    status = user.run("migrate", "status", "upgrades", "-o", "json").document("MigrationStatus")
    assert status["verdict"] == "nothingPending"
    assert status["summary"] == {"files": len(versions), "applied": len(versions), "pending": 0}

    assert facts(Sequences(target)) == facts(made)
    assert target.rows(KEPT) == [("ack_set", 7, 200, "y", "y")]
    version = "SELECT max(version) FROM icingadb_schema"
    assert target.rows(version) == made.target.rows(version)


@pytest.mark.needs("implicit-commit")
def test_the_table_locks_of_an_upgrade_are_one_unit(
    target: Target, corpora: Path, tmp_path: Path
) -> None:
    write(corpus_of(target, corpora), tmp_path / "upgrades")
    user = Ptahk(tmp_path / "state", {}, tmp_path)
    shown = user.run(
        "migrate", "show", "2", "--migrations", "upgrades", "--engine", Sequences(target).engine,
        "-o", "json",
    ).document("Migration")  # fmt: skip
    locked = [each for each in shown["statements"] if each["unitKind"] == "locked"]
    assert len({each["unit"] for each in locked}) == 1
    assert [each["sql"].split()[0] for each in locked] == [
        "LOCK", "ALTER", "UPDATE", "ALTER", "UNLOCK",
    ]  # fmt: skip
