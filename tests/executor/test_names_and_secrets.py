"""Names that look like anything, and a password that looks like anything else."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptahk.wire.jobspec import CACHE_DIR, JobPolicy
from tests.kit.databases import Database
from tests.kit.operations import Operator, children, operator
from tests.kit.targets import Target
from tests.kit.waiting import until

SCHEMA = 'we"ird. s\n☃'
PASSWORD = "p@ss:/wörd?#&%'\"\\ {x}=1"


def quoted(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def declared(extra: str = "") -> str:
    """One of most kinds, every name quoted and awkward."""
    names = {
        "s": quoted(SCHEMA),
        "t": quoted(SCHEMA, "t.a'b;--/*"),
        "c": quoted('a"\n.b'),
        "d": quoted("select"),
        "e": quoted(SCHEMA, "e$$%s"),
        "f": quoted(SCHEMA, "f%(x)s"),
        "v": quoted(SCHEMA, "v\t\\x"),
        "q": quoted(SCHEMA, "q{0}"),
        "i": quoted("i.'\n"),
        "k": quoted("k;''"),
        "p": quoted("p:\r\n"),
    }
    text = """
CREATE SCHEMA {s};
CREATE TYPE {e} AS ENUM ('a''b', E'c\\n', '$$', '%s');
CREATE SEQUENCE {q};
CREATE TABLE {t} ({c} int NOT NULL DEFAULT nextval('{q1}'), {d} text DEFAULT '%s $$ '';--',
  x {e}, CONSTRAINT {k} PRIMARY KEY ({c}), CHECK ({d} <> E'\\t%')@extra@);
CREATE INDEX {i} ON {t} (lower({d}) DESC) WHERE {c} > 0;
CREATE FUNCTION {f}(text) RETURNS text LANGUAGE sql AS $x$ SELECT $1 || '$$ %s' $x$;
CREATE VIEW {v} AS SELECT {c} AS {d} FROM {t};
ALTER TABLE {t} ENABLE ROW LEVEL SECURITY;
CREATE POLICY {p} ON {t} USING ({c} > 1);
COMMENT ON TABLE {t} IS 'a''b;-- $$ %s
☃';
COMMENT ON COLUMN {t}.{c} IS E'\\\\ back';
GRANT SELECT ({d}) ON {t} TO PUBLIC;
"""
    names["q1"] = names["q"].replace("'", "''")
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text.replace("@extra@", extra)


@pytest.mark.pg(15, 18)
def test_any_name_is_planned_applied_and_found_again(one: Operator) -> None:
    one.converge(declared())
    seen = one.observe(declaration=True)
    again = one.plan(seen.result["declaration"])
    assert again.reason is None, again.frame["error"]
    assert again.statements == []
    one.converge(declared(", y int REFERENCES " + quoted(SCHEMA, "t.a'b;--/*")))


EVERYWHERE = """
CREATE TABLE {t} ({c} int NOT NULL, {d} varchar(30) DEFAULT '%s $$ '';--'@,
  CONSTRAINT {k} PRIMARY KEY ({c}), CONSTRAINT {x} CHECK ({c} > 0));
CREATE INDEX {i} ON {t} ({d});
CREATE VIEW {v} AS SELECT {c} AS {d} FROM {t};
"""
NAMES = {"t": "t.a'b;--/*", "c": 'a"`.b', "d": "select", "k": "k;''%(x)s", "x": "x\\ %s",
         "i": "i{0} ☃", "v": "v`*/"}  # fmt: skip


def test_any_name_is_planned_applied_and_found_again_on_every_engine(
    target: Target, tmp_path: Path
) -> None:
    text = EVERYWHERE
    for key, name in NAMES.items():
        text = text.replace("{" + key + "}", target.quoted(name, qualified=key in "tv"))
    with operator(target.url(), tmp_path, defaults=target.settings) as here:
        here.converge(text.replace("@", ""))
        seen = here.observe(declaration=True)
        again = here.plan(seen.result["declaration"])
        assert again.reason is None, again.frame["error"]
        assert again.statements == []
        here.converge(text.replace("@", f", n int, UNIQUE ({target.quoted('n')})"))


@pytest.fixture
def spelled(target: Target) -> Iterator[tuple[str, str]]:
    """An account whose password is hard to spell, and its URL."""
    name = target.account(PASSWORD)
    where = urllib.parse.urlsplit(target.url())
    netloc = f"{name}:{urllib.parse.quote(PASSWORD, safe='')}@{where.hostname}:{where.port}"
    yield name, where._replace(netloc=netloc).geturl()
    target.forget(name)


def spellings() -> set[bytes]:
    raw = PASSWORD.encode()
    quotes = {PASSWORD.replace("'", "''"), PASSWORD.replace("'", "\\'"), repr(PASSWORD)[1:-1]}
    texts = {PASSWORD, urllib.parse.quote(PASSWORD, safe=""), urllib.parse.quote(PASSWORD), *quotes}
    return {text.encode() for text in texts} | {base64.b64encode(raw), raw.hex().encode()}


def test_the_password_is_written_nowhere(
    target: Target, spelled: tuple[str, str], tmp_path: Path
) -> None:
    name, url = spelled
    text = f"CREATE TABLE {target.table('a')} (id int PRIMARY KEY@);"
    patient = JobPolicy(lock_timeout_seconds=60)
    seen: list[bytes] = []
    kept = {CACHE_DIR: str(tmp_path / "cache")}
    with operator(
        url, tmp_path, environment=kept, policy=patient, defaults=target.settings
    ) as theirs:
        theirs.converge(text.replace("@", ""))
        planned = theirs.plan(text.replace("@", ", n int"))
        with target.in_use("a"):
            started = theirs.start_apply(planned)
            waiter = until(target.waiting_lock_owner, "the statement to wait for the table")
            for pid in (started.process.pid, *children(started.process.pid)):
                seen.append(Path(f"/proc/{pid}/cmdline").read_bytes())
            shown = target.activity(name)
            assert shown
            seen += [each.encode() for each in shown]
            target.kill(waiter)
            done = [started.wait()]
        target.lock_out(name)
        done.append(theirs.observe())
        done.append(theirs.plan("CREATE TABLE x (", url=url.replace("@", "x@")))
        done.append(theirs.plan("CREATE TABLE x (", url=url + "?passfile=%2Fx"))
        assert [each.reason for each in done] == [
            "ConnectionLost",
            "Denied",
            "Denied",
            "InvalidUrl",
        ]
        for each in done:
            seen += [repr(each.frame).encode(), str(each.frame).encode(), each.output]
            seen.append(repr(each.termination).encode())
    seen += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    seen.append(str(target.rows(f"SELECT * FROM {target.attempt}")).encode())
    assert len(seen) > 20
    for spelling in spellings():
        assert not [text[:200] for text in seen if spelling in text]


def test_values_of_a_column_with_any_name_are_checked(database: Database, one: Operator) -> None:
    column = quoted("%s %% %(x)s")
    text = (
        f"CREATE TYPE public.{quoted('%L')} AS ENUM ({{}}); CREATE TABLE public.a ({column} {{}})"
    )
    database.run(text.format("'one'", "text"))
    database.run("INSERT INTO public.a VALUES ('longer')")
    policy = JobPolicy(allow_destructive=True)
    for declared_type in ("varchar(3)", f"public.{quoted('%L')}"):
        done = one.plan(text.format("'one'", declared_type), policy=policy)
        assert done.reason == "DataDoesNotFit"
        assert "'longer'" in done.message
        assert "%s %% %(x)s" in done.message
    database.run(f"UPDATE public.a SET {column} = 'one'")
    one.converge(text.format("'one'", "varchar(3)"), policy=policy)
    one.converge(text.format("'one'", f"public.{quoted('%L')}"), policy=policy)


def test_rows_that_a_policy_hides_are_not_taken_for_no_rows(
    database: Database, tmp_path: Path
) -> None:
    role = database.role(owns=("app",), create_database=True, create_schema=True)
    text = (
        "CREATE SCHEMA app; CREATE TABLE app.a (n {});"
        "ALTER TABLE app.a ENABLE ROW LEVEL SECURITY; ALTER TABLE app.a FORCE ROW LEVEL SECURITY;"
    )
    policy = JobPolicy(allow_destructive=True)
    with operator(database.url(role), tmp_path, policy=policy) as theirs:
        theirs.converge(text.format("text"))
        database.run("INSERT INTO app.a VALUES ('longer')")
        done = theirs.plan(text.format("varchar(3)"))
    assert (done.exit_code, done.reason) == (3, "DataNotReadable"), done.frame["error"]
