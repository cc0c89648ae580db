"""The lexer of MySQL and MariaDB against its two judges: the client, which splits, and the server,
which takes one statement at a time.

Nothing that the texts name is there, so whatever the server does with a statement, it changes
nothing; and it says of any that is malformed, or more than one, that it cannot be parsed.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence

import pymysql

from ptahk.migrations.lexing import mysql as lexer
from ptahk.migrations.lexing.tokens import MARKS, LexError, Statement
from tests.kit.budget import scaled
from tests.kit.mydatabases import MyDatabase
from tests.unit.migrations.test_vectors import MYSQL, written

PARSE_ERROR = 1064
_RULER = "-" * 14


def sent(database: MyDatabase, text: str) -> list[str]:
    """The statements that the client sends for a script, in its own words."""
    server = database.server
    done = subprocess.run(
        [
            *server.install.client(), "--no-defaults", "-vv", "--force", "--comments",
            f"--socket={server.socket}", "--user=admin", "--default-character-set=utf8mb4",
            "--skip-ssl" if server.make == "mariadb" else "--ssl-mode=DISABLED", database.name,
        ],
        input=text.encode(), capture_output=True, check=False, timeout=120,
        env={"MYSQL_PWD": server.password, "LC_ALL": "C"},
    )  # fmt: skip
    out = done.stdout.decode(errors="replace")
    found = re.findall(rf"^{_RULER}\n(.*?)\n{_RULER}\n", out, flags=re.MULTILINE | re.DOTALL)
    assert found or "ERROR" not in done.stderr.decode(errors="replace"), done.stderr
    return found


def ours(text: str) -> list[Statement] | None:
    try:
        return list(lexer.split("f.sql", text))
    except LexError:
        return None


def texts_of(statements: Sequence[Statement]) -> list[list[str]]:
    """Each by its tokens: the client may drop a comment, and keeps the space around."""
    return [[token.text for token in each.tokens] for each in statements]


def tokens_of(statements: Sequence[str]) -> list[list[str]]:
    """The same of what the client sent, each of which is one statement."""
    return texts_of(
        [each for text in statements for each in lexer.split("f.sql", text, delimiter="\x01")]
    )


def needs_delimiter(text: str) -> bool:
    """The client ends a statement at every semicolon: it knows no routines."""
    return re.search(r"\b(PROCEDURE|FUNCTION|TRIGGER|EVENT|ATOMIC)\b", text) is not None


def codes(database: MyDatabase, statements: Sequence[str]) -> list[int]:
    """The server's answer to each; 0: it ran."""
    out = []
    with database.connect() as connection, connection.cursor() as cursor:
        for text in statements:
            try:
                cursor.execute(text)
                out.append(0)
            except pymysql.MySQLError as error:
                out.append(int(error.args[0]))
    return out


MARIADB_ONLY = ("NOT ATOMIC", "FOR r IN", "OR REPLACE PROCEDURE")


def test_the_vectors_are_the_clients_and_the_servers(mydatabase: MyDatabase) -> None:
    plain = [written(vector) for vector in MYSQL if not needs_delimiter(vector)]
    assert len(plain) > 5
    for text in plain:
        assert tokens_of(sent(mydatabase, text)) == texts_of(ours(text) or []), text
    mariadb = mydatabase.server.make == "mariadb"
    every = [
        each.text
        for vector in MYSQL
        if mariadb or not any(word in vector for word in MARIADB_ONLY)
        for each in ours(written(vector)) or []
    ]
    found = codes(mydatabase, every)
    assert [each for each, code in zip(every, found, strict=True) if code == PARSE_ERROR] == []
    assert codes(mydatabase, ["SELECT 1; SELECT 2"]) == [PARSE_ERROR], "it refuses two in one text"


def test_a_routine_is_split_as_with_delimiter_lines(mydatabase: MyDatabase) -> None:
    """With each statement of ours between DELIMITER lines the client sends the same."""
    for vector in MYSQL:
        statements = ours(written(vector)) or []
        script = "DELIMITER ~~\n" + "".join(f"{each.text}\n~~\n" for each in statements)
        assert tokens_of(sent(mydatabase, script)) == texts_of(statements), vector
        assert texts_of(ours(script) or []) == texts_of(statements), vector


PIECES = [
    "select 1", "'a;b'", "'it''s;'", "'a\\';'", '"c;""d"', '"e\\";"', "`f;g`", "`h\\`", "x'3b'",
    "# ; '\n", "-- ; `\n", "--\n", "/* ; ' */", "/*!40101 1 */", "/*!99999999 x */",
    "@a", "@`b;`", "@@sql_mode", "1e5", ".5", "a.b", "\\N", "\n", "\t", " ", ";", ";", "(;)",
    "\r\n", "é", "end", "/", "*", "-", "N'x;'",
]  # fmt: skip
"""No ``$$``: MySQL's client takes it for a quote since 9.0, where its delimiter is another."""
DELIMITERS = ["//", "$$", ";;", "go", "--", "|"]


def test_random_text_is_split_as_the_client_does(mydatabase: MyDatabase) -> None:
    seed = 20_261_130
    dice = random.Random(seed)
    tried = 0
    for _ in range(scaled(40)):
        text = "".join(dice.choice(PIECES) + dice.choice(" \n") for _ in range(dice.randint(1, 14)))
        if dice.random() < 0.4:
            delimiter = dice.choice(DELIMITERS)
            parts = [text, *(dice.choice(PIECES) for _ in range(3))]
            text = f"delimiter {delimiter}\n" + f" {delimiter}\n".join(parts)
        statements = ours(text)
        if statements is None or any(
            token.kind in MARKS for each in statements[-1:] for token in each.tokens[:1]
        ):
            continue
        tried += 1
        assert tokens_of(sent(mydatabase, text)) == texts_of(statements), (seed, text)
    assert tried > scaled(40) // 3
