"""C-8 for MySQL and MariaDB: which URLs are one target, which are two, which are none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptahk.errors import UsageError
from ptahk.wire import dsn

SECRET = "hunter2-taint"
BASE = f"mysql://app:{SECRET}@db.example.com/orders"
CA = "ssl-ca=%2Fetc%2Fptahk%2Ftls%2Fca.pem"


def identify(url: str, engine: str = "mysql") -> dsn.TargetIdentity:
    return dsn.identify(url, engine=engine)


def on(host: str) -> str:
    return f"mysql://app:{SECRET}@{host}/orders"


def with_query(*pairs: str) -> str:
    return f"{BASE}?{'&'.join(pairs)}"


EQUAL: dict[str, list[str]] = {
    "default port": [BASE, on("db.example.com:3306")],
    "scheme": [BASE, BASE.replace("mysql:", "mariadb:")],
    "host case": [BASE, on("DB.Example.COM"), on("%44B.example.com")],
    "IPv6 spelling": [on("[::1]"), on("[0:0:0:0:0:0:0:1]"), on("[::1]:3306")],
    "encoded database": [BASE, BASE.replace("orders", "%6Frders")],
    "encoded user": [BASE, BASE.replace("//app", "//%61pp")],
    "parameter order": [
        with_query("ssl-mode=VERIFY_CA", CA), with_query(CA, "ssl-mode=VERIFY_CA"),
    ],
    "other password": [BASE, BASE.replace(SECRET, "other"), BASE.replace(f":{SECRET}", "")],
    "timing": [
        BASE, with_query("connect-timeout=3"), with_query("connect_timeout=9", "read_timeout=1"),
        with_query("write-timeout=4"),
    ],
    "default mode": [BASE, with_query("ssl-mode=PREFERRED"), with_query("ssl_mode=preferred")],
    "mode's spelling": [
        with_query("ssl-mode=VERIFY_IDENTITY", CA), with_query("ssl-mode=verify-identity", CA),
    ],
    "socket": [
        f"mysql://app:{SECRET}@%2Frun%2Fmysqld.sock/orders",
        f"mysql://app:{SECRET}@/orders?socket=/run/mysqld.sock",
        "mariadb://app@/orders?socket=%2Frun%2Fmysqld.sock",
    ],
}  # fmt: skip

DIFFERENT: dict[str, list[str]] = {
    "trailing dot": [BASE, on("db.example.com.")],
    "name against address": [on("localhost"), on("127.0.0.1"), on("[::1]")],
    "address family": [on("10.0.0.1"), on("[::ffff:10.0.0.1]")],
    "port": [BASE, on("db.example.com:3307")],
    "casing of the database": [BASE, BASE.replace("/orders", "/Orders")],
    "user": [BASE, BASE.replace("//app", "//App"), BASE.replace("//app", "//other")],
    "mode": [BASE, with_query("ssl-mode=DISABLED"), with_query("ssl-mode=REQUIRED"),
             with_query("ssl-mode=VERIFY_CA", CA), with_query("ssl-mode=VERIFY_IDENTITY", CA)],
    "CA": [with_query("ssl-mode=VERIFY_CA", CA), with_query("ssl-mode=VERIFY_CA", CA + "2")],
    "certificate": [
        with_query("ssl-mode=REQUIRED"),
        with_query("ssl-mode=REQUIRED", "ssl-cert=/a", "ssl-key=/b"),
        with_query("ssl-mode=REQUIRED", "ssl-cert=/a", "ssl-key=/c"),
    ],
    "socket": [on("localhost"), f"mysql://app:{SECRET}@/orders?socket=/run/mysqld.sock"],
}  # fmt: skip

REFUSED: dict[str, tuple[str, str]] = {
    "several statements": (with_query("multiStatements=true"), "multistatements"),
    "in another driver's words": (with_query("allowMultiQueries=true"), "allowmultiqueries"),
    "local files": (with_query("localInfile=1"), "localinfile"),
    "with underscores": (with_query("local_infile=1"), "localinfile"),
    "SQL at the start": (with_query("init_command=DROP%20TABLE%20t"), "initcommand"),
    "variables": (with_query("sessionVariables=sql_mode%3D''"), "sessionvariables"),
    "an option file": (with_query("read_default_file=%2Fetc%2Fmy.cnf"), "readdefaultfile"),
    "sql_mode": (with_query("sql_mode=ANSI"), "sqlmode"),
    "character set": (with_query("charset=latin1"), "charset"),
    "unknown": (with_query("frobnicate=1"), "parameter 1"),
    "another spelling of TLS": (with_query("sslmode=require"), "parameter 1"),
    "user in both places": (with_query("user=other"), "user"),
    "password in both places": (with_query(f"password={SECRET}"), "password"),
    "given twice": (with_query("ssl-mode=REQUIRED", "ssl_mode=REQUIRED"), "ssl-mode"),
    "empty": (with_query("ssl-mode="), "ssl-mode"),
    "mode": (with_query("ssl-mode=maybe"), "ssl-mode"),
    "a CA that nobody checks": (with_query("ssl-mode=REQUIRED", CA), "ssl-ca"),
    "a CA without a mode": (with_query(CA), "ssl-ca"),
    "a check without a CA": (with_query("ssl-mode=VERIFY_CA"), "ssl-ca"),
    "a certificate without a key": (with_query("ssl-mode=REQUIRED", "ssl-cert=/a"), "ssl-cert"),
    "a certificate without TLS": (with_query("ssl-cert=/a", "ssl-key=/b"), "ssl-cert"),
    "timeout": (with_query("connect-timeout=soon"), "connect-timeout"),
    "no database": (f"mysql://app:{SECRET}@db.example.com/", "database"),
    "the server's own": (BASE.replace("orders", "MySQL"), "database"),
    "a long database": (BASE.replace("orders", "o" * 65), "database"),
    "a trailing space": (BASE.replace("orders", "orders%20"), "database"),
    "no user": ("mysql://db.example.com/orders", "user"),
    "no host": (f"mysql://app:{SECRET}@/orders", "host"),
    "several hosts": (on("a,b"), "host"),
    "host and socket": (with_query("socket=/run/mysqld.sock"), "socket"),
    "port and socket": (f"mysql://app:{SECRET}@:1/orders?socket=/run/s", "socket"),
    "socket twice": (f"mysql://app:{SECRET}@%2Frun%2Fs/orders?socket=/run/s", "socket"),
    "relative socket": (f"mysql://app:{SECRET}@/orders?socket=run", "socket"),
    "scheme": (BASE.replace("mysql:", "postgresql:"), "scheme"),
    "a driver's scheme": (BASE.replace("mysql:", "mysql+pymysql:"), "scheme"),
    "raw @ in the password": (BASE.replace(SECRET, f"{SECRET}@x"), "userinfo"),
    "newline": (BASE + "\n", "url"),
    "fragment": (BASE + "#x", "url"),
}


@pytest.mark.parametrize("urls", EQUAL.values(), ids=EQUAL)
def test_one_target(urls: list[str]) -> None:
    assert len({identify(url).digest for url in urls}) == 1


@pytest.mark.parametrize("urls", DIFFERENT.values(), ids=DIFFERENT)
def test_several_targets(urls: list[str]) -> None:
    for one, other in itertools.combinations(urls, 2):
        assert identify(one).digest != identify(other).digest, (one, other)


@pytest.mark.parametrize(("url", "field"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name_and_without_the_secret(url: str, field: str) -> None:
    with pytest.raises(UsageError) as refused:
        identify(url)
    assert (refused.value.reason, refused.value.field) == ("InvalidUrl", field)
    assert SECRET not in str(refused.value)
    assert SECRET not in str(refused.value.hint)


def test_both_names_of_the_engine_read_both_schemes() -> None:
    found = {
        identify(BASE.replace("mysql:", f"{scheme}:"), engine).digest
        for scheme in ("mysql", "mariadb")
        for engine in ("mysql", "MariaDB")
    }
    assert len(found) == 1


def test_a_url_of_the_other_family_is_refused() -> None:
    with pytest.raises(UsageError):
        dsn.identify(BASE, engine="postgresql")


def test_what_is_bound() -> None:
    assert identify(with_query("ssl-mode=verify_ca", CA, "connect-timeout=3")).bound == {
        "engine": "mysql",
        "transport": "tcp",
        "host": "db.example.com",
        "port": 3306,
        "database": "orders",
        "user": "app",
        "role": None,
        "searchPath": None,
        "security": {"ssl-ca": "/etc/ptahk/tls/ca.pem", "ssl-mode": "VERIFY_CA"},
        "session": {},
    }
    assert identify(BASE).local_key == "local:db.example.com:3306/orders"


def test_the_driver_is_given_the_parts() -> None:
    read = dsn.read(BASE, engine="mysql")
    assert read.driver == {
        "host": "db.example.com",
        "port": "3306",
        "database": "orders",
        "user": "app",
        "password": SECRET,
        "ssl-mode": "PREFERRED",
    }
    assert SECRET not in repr(read)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for url in (text, f"mysql://{text}", f"{BASE}?{text}"):
        try:
            dsn.identify(url, engine="mysql")
        except UsageError as refused:
            assert refused.reason == "InvalidUrl"
