"""The PostgreSQL lexer against its two judges: psql, which splits, and the server, which parses.

Everything is sent within a transaction that has failed: psql splits and the server parses each
statement as ever, and nothing runs.
"""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from ptahk.migrations import files, reading
from ptahk.migrations.lexing import postgres as lexer
from ptahk.migrations.lexing.tokens import LexError
from tests.kit.budget import scaled
from tests.kit.databases import Database
from tests.kit.servers import Server
from tests.unit.migrations.test_vectors import POSTGRESQL, written

pytestmark = pytest.mark.pg(18)

ABORTED = "25P02"
CONTROL = re.compile(r"\b(commit|end|rollback|abort|prepare\s+transaction)\b", re.IGNORECASE)


def psql_counts(
    server: Server, database: Database, texts: list[str], folder: Path
) -> list[tuple[int, bool]]:
    """Of each text: how many statements psql sends, and whether the server finds one malformed."""
    script = ["\\set VERBOSITY sqlstate"]
    for number, text in enumerate(texts):
        path = folder / f"{number}.sql"
        path.write_text(text, encoding="utf-8", newline="")
        path.chmod(0o644)
        script += [f"\\warn === {number}", "ROLLBACK;", "BEGIN;", "SELECT 1/0;", f"\\i {path}"]
    done = subprocess.run(
        [server.tool("psql"), "-X", "-q", "-d", database.url()],
        input="\n".join(script) + "\n", capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    blocks = re.split(r"^=== \d+$", done.stderr, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(texts), done.stderr[-2000:]
    out = []
    for block in blocks:
        states = re.findall(r"ERROR:\s+(\w{5})\b", block)
        assert states[0] == "22012", block
        out.append((len(states) - 1, "42601" in states))
    return out


def parsed_alone(database: Database, statements: list[str]) -> list[str]:
    """SQLSTATE of each statement's Parse within a failed transaction: 25P02 is one statement."""
    states = []
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("BEGIN")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1/0")
        for statement in statements:
            result = connection.pgconn.prepare(b"", statement.encode())
            states.append((result.error_field(67) or b"").decode())
    return states


def ours(text: str) -> list[str] | None:
    try:
        return [each.text for each in lexer.split("f.sql", text)]
    except LexError:
        return None


def test_the_vectors_are_the_clients_and_the_servers(
    postgres: Server, database: Database, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    # psql counts CASE and END in a body otherwise than the server does, and reads line by line, so
    # that it ends a string that goes on: there the server alone judges.
    plain = [
        written(vector)
        for vector in POSTGRESQL
        if "ATOMIC" not in vector and not re.search("E'[^']*'[^;]*¶", vector)
    ]
    for text, (count, _) in zip(
        plain, psql_counts(postgres, database, plain, tmp_path), strict=True
    ):
        assert len(ours(text) or []) == count, text
    every = [each for vector in POSTGRESQL for each in ours(written(vector)) or []]
    states = parsed_alone(database, every)
    assert [each for each, state in zip(every, states, strict=True) if state != ABORTED] == []
    joined = parsed_alone(database, ["SELECT 1; SELECT 2"])
    assert joined == ["42601"], "the server refuses two statements in one text"


def test_every_file_of_the_corpora_is_split_as_the_server_parses(
    postgres: Server, database: Database, tmp_path: Path, corpora: Path
) -> None:
    tmp_path.chmod(0o755)
    texts = [
        path.read_text(encoding="utf-8")
        for root in ("vaultwarden/postgresql", "kratos", "icingadb/pgsql")
        for path in sorted((corpora / root).rglob("*.sql"))
        if ".mysql." not in path.name
    ]
    assert len(texts) > 600
    every = [each for text in texts for each in ours(text) or []]
    assert len(every) > 900
    states = parsed_alone(database, every)
    assert [each for each, state in zip(every, states, strict=True) if state != ABORTED] == []
    plain = [text for text in texts if not CONTROL.search(text)]
    counts = psql_counts(postgres, database, plain, tmp_path)
    for text, (count, _) in zip(plain, counts, strict=True):
        assert len(ours(text) or []) == count, text


PIECES = [
    "select 1", "'a;b'", "'it''s;'", "E'a\\';'", "e'\\\\'", '"c;""d"', "$$e;f$$", "$x$;$$;$x$",
    "$1",
    "/* ; */", "/* /* ; */ ; */", "-- ;'\n", "(;)", "name'x\\'", "U&'\\0041;'", "x$t$y", "\r",
    "\n", " ", "::text", ";", ";", "[1:2]", "'p'\n'q;'", "1e5", "a.b", "begin", "$ü$;$ü$",
]  # fmt: skip


def test_random_text_is_split_as_psql_does(
    postgres: Server, database: Database, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    seed = 20_261_130
    dice = random.Random(seed)
    texts = [
        " ".join(dice.choice(PIECES) for _ in range(dice.randint(1, 14)))
        for _ in range(scaled(200))
    ]
    texts = [text for text in texts if ours(text) is not None]
    counts = psql_counts(postgres, database, texts, tmp_path)
    for text, (count, _) in zip(texts, counts, strict=True):
        assert len(ours(text) or []) == count, (seed, text)


def test_a_directory_reads_the_same_whatever_its_bytes_are(tmp_path: Path) -> None:
    """Fuzz: any bytes give a sequence or findings with places, never another exception."""
    dice = random.Random(7)
    alphabet = [*PIECES, "-- +goose Up\n", "-- migrate:up\n", "-- ptahk:txmode none\n", "\\x",
                "COPY t FROM stdin;\n", "\\.\n", "DELIMITER //\n", "create procedure p() begin ",
                "end", "if", "case", "\0", "é", "`"]  # fmt: skip
    for _ in range(scaled(1000)):
        text = "".join(dice.choice(alphabet) + " " for _ in range(dice.randint(0, 20)))
        data = text.encode() if dice.random() < 0.9 else text.encode("latin-1", "ignore")
        name = dice.choice(["1_a.sql", "1_a.up.sql", "V1__a.sql", "2019-01-01_a/up.sql", "x.sql"])
        found = files.read(name, data)
        if not isinstance(found, files.SourceFile):
            assert found.number in ("MG105", "MG106", "MG107")
            continue
        engine = dice.choice(["postgresql", "mysql", "mariadb"])
        read = reading.read([found], engine=engine)  # type: ignore[arg-type]
        refused = [each for each in read.findings if each.refuses]
        for each in read.findings:
            assert each.document()["title"]
            assert each.line <= text.count("\n") + 1
        if not refused:
            (one,) = read.required().migrations
            joined = [token.text for each in one.statements for token in each.tokens]
            assert all(each in text for each in joined)
