"""``ptahk digest`` as real processes: the pairs of issue 3, exit codes, documents, no secrets."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ptahk.wire import digest, planfile
from ptahk.wire.binding import PlanBinding, PolicyBinding
from tests.cli.kit import Answer, Ptahk

SECRET = "s3cr3t-taint"
DB = f"postgresql://app:{SECRET}@db.example.com/orders"


def at(host: str) -> str:
    return f"postgresql://app:{SECRET}@{host}/orders"


def role(name: str) -> str:
    return f"{DB}?options=-c%20role%3D{name}"


def path(name: str) -> str:
    return f"{DB}?options=-c%20search_path%3D{name}"


EQUAL = {
    "default port": (DB, at("db.example.com:5432")),
    "scheme": (DB, DB.replace("postgresql:", "postgres:")),
    "host case": (DB, at("DB.example.Com")),
    "IPv6": (at("[::1]"), at("[0:0:0:0:0:0:0:1]")),
    "encoded database": (DB, DB.replace("orders", "%6Frders")),
    "parameter order": (
        f"{DB}?sslmode=require&channel_binding=require",
        f"{DB}?channel_binding=require&sslmode=require",
    ),
    "password": (DB, DB.replace(SECRET, "other")),
    "connect_timeout": (f"{DB}?connect_timeout=3", f"{DB}?connect_timeout=30"),
    "ssl": (f"{DB}?ssl=true", f"{DB}?sslmode=require"),
    "socket": ("postgresql://app@/orders?host=/run/pg", "postgresql://app@%2Frun%2Fpg/orders"),
}
DIFFERENT = {
    "trailing dot": (DB, at("db.example.com.")),
    "name and address": (at("localhost"), at("127.0.0.1")),
    "mapped address": (at("[::ffff:10.0.0.1]"), at("10.0.0.1")),
    "user": (DB, DB.replace("app:", "root:")),
    "role": (role("a"), role("b")),
    "search_path": (path("a"), path("b")),
    "sslmode": (DB, f"{DB}?sslmode=require"),
    "sslrootcert": (f"{DB}?sslrootcert=/etc/a.pem", f"{DB}?sslrootcert=/etc/b.pem"),
}
REFUSED = {
    "several hosts": at("a,b"),
    "several ports": at("a:1,b:2"),
    "repeated parameter": f"{DB}?sslmode=require&sslmode=require",
    "user twice": f"{DB}?user=app",
    "service": f"{DB}?service=x",
    "passfile": f"{DB}?passfile=/x",
    "hostaddr": f"{DB}?hostaddr=10.0.0.1",
    "raw #": f"postgresql://app:a#{SECRET}@h/orders",
    "raw @": f"postgresql://app:a@{SECRET}@h/orders",
    "raw /": f"postgresql://app:1/{SECRET}@h/orders",
    "raw ?": f"postgresql://app:1?{SECRET}@h/orders",
    "bare IPv6": at("::1"),
    "control character": DB.replace("orders", "ord\x01ers"),
    "trailing newline": DB + "\n",
    "bad escape": DB.replace("orders", "%zz"),
    "cut escape": DB + "%4",
    "no database": DB.replace("/orders", ""),
    "no host": f"postgresql://app:{SECRET}@/orders",
    "unknown parameter": f"{DB}?foo=bar",
    "bytes that are no text": DB.replace("orders", "\udcff"),
}


def target(ptahk: Ptahk, url: str, *more: str) -> Answer:
    ptahk.secrets = (SECRET,)
    return ptahk.run("digest", "target", "--engine", "postgresql", *more, DATABASE_URL=url)


def digests(ptahk: Ptahk, urls: tuple[str, ...]) -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda url: target(ptahk, url, "-o", "json"), urls))
    return [answer.document("Digest")["digest"] for answer in answers]


@pytest.mark.parametrize("name", sorted(EQUAL))
def test_equal_targets(ptahk: Ptahk, name: str) -> None:
    assert len(set(digests(ptahk, EQUAL[name]))) == 1


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_different_targets(ptahk: Ptahk, name: str) -> None:
    assert len(set(digests(ptahk, DIFFERENT[name]))) == 2


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_targets(ptahk: Ptahk, name: str) -> None:
    answer = target(ptahk, REFUSED[name])
    line = answer.refusal(2)
    assert answer.out == ""
    assert answer.err == line + "\n"
    target(ptahk, REFUSED[name], "-o", "json").refusal(2, "InvalidUrl")


def test_a_target_names_its_parts(ptahk: Ptahk) -> None:
    document = target(ptahk, f"{DB}?ssl=true&connect_timeout=3", "-o", "json").document("Digest")
    assert document["of"] == "target"
    assert document["bound"]["host"] == "db.example.com"
    assert document["excluded"] == ["connect_timeout", "password"]
    assert document["normalised"] == ["port", "ssl"]
    text = target(ptahk, DB)
    assert document["bound"]["database"] in text.out


def test_the_environment_of_libpq_changes_nothing(ptahk: Ptahk) -> None:
    plain = target(ptahk, DB)
    ptahk.environment = {"PGSSLMODE": "disable", "PGUSER": "x", "PGOPTIONS": "-c role=x"}
    assert target(ptahk, DB).out == plain.out


def test_a_url_file(ptahk: Ptahk, tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(DB + "\n")
    ptahk.secrets = (SECRET,)
    arguments = ("digest", "target", "--engine", "postgres", "--url-file", str(file))
    assert ptahk.run(*arguments).out == target(ptahk, DB).out


def test_an_escape_sequence_does_not_reach_the_terminal(ptahk: Ptahk) -> None:
    answer = target(ptahk, DB.replace("orders", "a%E2%80%AEb"))
    assert answer.code == 0
    assert "a\\u202eb" in answer.out


def test_the_mysql_family_has_one_target_by_either_name(ptahk: Ptahk) -> None:
    answers = [
        ptahk.run("digest", "target", "--engine", engine, DATABASE_URL=f"{scheme}://u:s3cr3t@h/d")
        for engine, scheme in (("mysql", "mysql"), ("MariaDB", "mysql"), ("mysql", "mariadb"))
    ]
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert len({answer.out.splitlines()[0] for answer in answers}) == 1
    assert "ssl-mode" in answers[0].out
    assert all("s3cr3t" not in answer.out for answer in answers)


def test_no_url(ptahk: Ptahk) -> None:
    ptahk.run("digest", "target", "--engine", "postgres").refusal(2)


def test_realms(ptahk: Ptahk) -> None:
    key = "production/orders"
    answers = [
        ptahk.run("digest", "realm", "--engine", engine, "--key", key)
        for engine in ("PostgreSQL", "postgres", "postgresql")
    ]
    assert len({answer.out for answer in answers}) == 1
    document = ptahk.run(
        "digest", "realm", "--engine", "postgres", "--key", key, "-o", "json"
    ).document("Digest")
    assert document["digest"] == digest.coordination_digest("postgres", key)
    assert document["lease"] == "ptahk-" + document["digest"].removeprefix("sha256:")
    assert document["digest"] in answers[0].out
    assert key not in json.dumps(document)
    other = ptahk.run("digest", "realm", "--engine", "mariadb", "--key", key)
    assert other.code == 0
    assert other.out != answers[0].out


@pytest.mark.parametrize(
    "arguments",
    [
        ("realm", "--engine", "oracle", "--key", "k"),
        ("realm", "--engine", "postgres", "--key", ""),
        ("realm", "--engine", "postgres"),
        ("realm", "--engine", "postgres", "--key", "k", "-o", "sql"),
        ("target",),
        ("plan", "/nonexistent"),
        ("plan",),
        (),
        ("relm",),
    ],
)
def test_usage_errors(ptahk: Ptahk, arguments: tuple[str, ...]) -> None:
    answer = ptahk.run("digest", *arguments)
    answer.refusal(2)
    assert answer.out == ""


def a_plan_file() -> bytes:
    plan = b'{"statements":[],"version":1}'
    files = (("schema.sql", "create table t ();"),)
    bundle = {"files": [{"name": name, "text": text} for name, text in files]}
    return planfile.encode(
        planfile.PlanFile(
            engine="postgresql",
            resource_kind="PtahSchema",
            resource_name="default",
            server_identity="postgresql/1/2",
            operation_id="0" * 32,
            time="2026-01-01T00:00:00Z",
            binding=PlanBinding(
                resource_uid="uid",
                plan_digest=digest.plan_content_digest(plan),
                source_digest=digest.source_digest(files),
                coordination_digest=digest.coordination_digest("postgres", "k"),
                target_identity_digest=digest.target_identity_digest({}),
                observed_state=digest.state_fingerprint([]),
                desired_state=digest.state_fingerprint([1]),
                policy=PolicyBinding(),
                executor_version="0.1.0",
                protocol_version=1,
            ),
            summary={},
            plan_gzip=gzip.compress(plan, mtime=0),
            source_gzip=gzip.compress(json.dumps(bundle).encode(), mtime=0),
        )
    )


def test_plans(ptahk: Ptahk, tmp_path: Path) -> None:
    data = a_plan_file()
    file = tmp_path / "plan.json"
    file.write_bytes(data)
    document = ptahk.run("digest", "plan", str(file), "-o", "json").document("Digest")
    assert document["digest"] == planfile.decode(data).fingerprint
    assert document["bound"]["planDigest"] == planfile.decode(data).binding.plan_digest
    assert document["digest"] in ptahk.run("digest", "plan", str(file)).out
    for place in (0, len(data) // 3, len(data) // 2, len(data) - 1):
        edited = bytearray(data)
        edited[place] ^= 1
        file.write_bytes(edited)
        ptahk.run("digest", "plan", str(file), "-o", "json").refusal(2, "InvalidPlanFile")
