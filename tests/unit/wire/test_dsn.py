"""C-8: which URLs are one target, which are two, which are none; and libpq as the oracle."""

import dataclasses
import re
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from ptahk.errors import UsageError
from ptahk.wire import dsn

SECRET = "hunter2-taint"
BASE = f"postgresql://app:{SECRET}@db.example.com/orders"


def identify(url: str) -> dsn.TargetIdentity:
    return dsn.identify(url, engine="postgresql")


def with_query(*pairs: str) -> str:
    return f"{BASE}?{'&'.join(pairs)}"


def on(host: str) -> str:
    return f"postgresql://app:{SECRET}@{host}/orders"


EQUAL: dict[str, list[str]] = {
    "default port": [BASE, on("db.example.com:5432"), with_query("port=5432")],
    "scheme": [BASE, BASE.replace("postgresql:", "postgres:")],
    "host case": [BASE, on("DB.Example.COM"), on("%44B.example.com")],
    "IPv6 spelling": [
        on("[::1]"), on("[0:0:0:0:0:0:0:1]"), on("[0000::0001]"), on("[::1]:5432"),
        f"postgresql://app:{SECRET}@/orders?host=::1",
    ],
    "IPv6 case": [on("[fe80::ABCD]"), on("[FE80::abcd]")],
    "mapped spelling": [on("[::ffff:10.0.0.1]"), on("[::ffff:a00:1]")],
    "encoded database": [
        BASE, BASE.replace("orders", "%6Frders"), BASE.replace("orders", "ord%65rs"),
    ],
    "encoded user": [BASE, BASE.replace("//app", "//%61pp")],
    "database as a parameter": [BASE, f"postgresql://app:{SECRET}@db.example.com?dbname=orders"],
    "user as a parameter": [BASE, f"postgresql://db.example.com/orders?user=app&password={SECRET}"],
    "parameter order": [
        with_query("sslmode=require", "channel_binding=require"),
        with_query("channel_binding=require", "sslmode=require"),
    ],
    "setting order": [
        with_query("options=-c%20role%3Da%20-c%20work_mem%3D1MB"),
        with_query("options=-cwork_mem%3D1MB%20%20--role%3Da"),
        with_query("options=-c%20WORK_MEM%3D1MB%20--Role%3Da"),
    ],
    "other password": [BASE, BASE.replace(SECRET, "other"), BASE.replace(f":{SECRET}", "")],
    "password as a parameter": [BASE, f"postgresql://app@db.example.com/orders?password={SECRET}"],
    "other connect_timeout": [
        BASE, with_query("connect_timeout=3"), with_query("connect_timeout=9"),
    ],
    "liveness": [
        BASE, with_query("keepalives=1", "keepalives_idle=5", "keepalives_interval=5",
                         "keepalives_count=3", "tcp_user_timeout=1000"),
        with_query("application_name=x"),
        with_query("options=-c%20tcp_keepalives_idle%3D9"),
    ],
    "ssl=true": [with_query("ssl=true"), with_query("sslmode=require")],
    "default sslmode": [BASE, with_query("sslmode=prefer", "channel_binding=prefer", "sslsni=1")],
    "socket": [
        f"postgresql://app:{SECRET}@/orders?host=/run/pg",
        f"postgresql://app:{SECRET}@%2Frun%2Fpg/orders",
        "postgresql:///orders?user=app&host=/run/pg&port=5432",
        "postgresql://app@/orders?host=%2Frun%2Fpg",
    ],
}  # fmt: skip

DIFFERENT: dict[str, list[str]] = {
    "trailing dot": [BASE, on("db.example.com.")],
    "name against address": [on("localhost"), on("127.0.0.1"), on("[::1]")],
    "address families": [on("10.0.0.1"), on("[::ffff:10.0.0.1]")],
    "IPv6 zone": [on("[fe80::1]"), on("[fe80::1%25eth0]"), on("[fe80::1%25eth1]")],
    "socket against TCP": [on("localhost"), on("%2Frun%2Fpg"), on("%2Frun%2Fpg%2F")],
    "port": [BASE, on("db.example.com:5433")],
    "user": [BASE, BASE.replace("app:", "App:"), BASE.replace("app:", "root:")],
    "database": [BASE, BASE.replace("orders", "Orders"), BASE.replace("orders", "orders2")],
    "role": [
        BASE, with_query("options=-c%20role%3Da"), with_query("options=-c%20role%3Db"),
    ],
    "search_path": [
        BASE, with_query("options=-c%20search_path%3Da"),
        with_query("options=-c%20search_path%3Da,b"), with_query("options=-c%20role%3Da"),
    ],
    "session": [BASE, with_query("options=-c%20app.tenant%3D1"),
                with_query("options=-c%20app.tenant%3D2")],
    "sslmode": [
        *(with_query(f"sslmode={mode}") for mode in
          ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
    ],
    "sslrootcert": [
        BASE, with_query("sslrootcert=/etc/a.crt"), with_query("sslrootcert=/etc/b.crt"),
        with_query("sslrootcert=system"), with_query("sslcert=/etc/a.crt"),
        with_query("sslkey=/etc/a.crt"), with_query("sslcrl=/etc/a.crt"),
    ],
    "authentication": [
        BASE, with_query("channel_binding=require"), with_query("require_auth=scram-sha-256"),
        with_query("gssencmode=disable"), with_query("requirepeer=postgres"),
    ],
}  # fmt: skip

REFUSED: dict[str, str] = {
    "several hosts": on("a.example.com,b.example.com"),
    "several hosts, encoded": on("a.example.com%2Cb.example.com"),
    "several hosts as a parameter": f"postgresql://app:{SECRET}@/orders?host=a,b",
    "several sockets": f"postgresql://app:{SECRET}@/orders?host=/a,/b",
    "several ports": on("db.example.com:5432,5433"),
    "several ports with hosts": on("a:5432,b:5433"),
    "several ports as a parameter": with_query("port=5432,5433"),
    "repeated parameter": with_query("sslmode=require", "sslmode=require"),
    "repeated by another name": with_query("ssl=true", "sslmode=require"),
    "repeated setting": with_query("options=-c%20role%3Da%20-c%20ROLE%3Db"),
    "user in both places": with_query("user=app"),
    "password in both places": with_query("password=x"),
    "host in both places": with_query("host=db.example.com"),
    "port in both places": f"postgresql://app:{SECRET}@h:5432/orders?port=5432",
    "database in both places": with_query("dbname=orders"),
    "service": with_query("service=x"),
    "service alone": "postgresql://?service=x",
    "passfile": with_query("passfile=/x"),
    "hostaddr": with_query("hostaddr=10.0.0.1"),
    "raw # in the password": f"postgresql://app:a#{SECRET}@h/orders",
    "raw @ in the password": f"postgresql://app:a@{SECRET}@h/orders",
    "raw / in the password": f"postgresql://app:a/{SECRET}@h/orders",
    "raw / after digits": f"postgresql://app:5432/{SECRET}@h/orders",
    "raw ? in the password": f"postgresql://app:a?{SECRET}@h/orders",
    "raw ? after digits": f"postgresql://app:5432?{SECRET}@h/orders",
    "raw ? that looks like a parameter": f"postgresql://app:5432?sslmode={SECRET}@h/orders",
    "raw [ in the password": f"postgresql://app:[{SECRET}@h/orders",
    "raw backslash in the password": f"postgresql://app:\\{SECRET}@h/orders",
    "bare IPv6": on("::1"),
    "bare IPv6 with port": on("fe80::1:5432"),
    "IPv6 left open": on("[::1"),
    "IPv6 with a tail": on("[::1]x"),
    "no IPv6 in brackets": on("[db.example.com]"),
    "socket in brackets": on("[/run/pg]"),
    "IPv6 in brackets as a parameter": f"postgresql://app:{SECRET}@/orders?host=[::1]",
    "short IPv4": on("127.1"),
    "octal IPv4": on("010.0.0.1"),
    "hexadecimal IPv4": on("0x7f.0.0.1"),
    "IPv4 as one number": on("2130706433"),
    "IPv4 with a dot": on("127.0.0.1."),
    "control character": BASE.replace("orders", "ord\x01ers"),
    "escape of a control character": BASE.replace("orders", "ord%0Aers"),
    "NUL": BASE.replace("orders", "ord%00ers"),
    "control character in the password": BASE.replace(SECRET, f"{SECRET}%0D"),
    "trailing newline": BASE + "\n",
    "trailing CRLF": BASE + "\r\n",
    "leading space": " " + BASE,
    "trailing space": BASE + " ",
    "space": BASE.replace("orders", "ord ers"),
    "no-break space": BASE.replace("orders", "ord\u00a0ers"),
    "direction mark": BASE.replace("orders", "ord\u202eers"),
    "lone surrogate": BASE.replace("orders", "ord\udcffers"),
    "bad escape": BASE.replace("orders", "ord%zzers"),
    "cut escape": BASE.replace("orders", "orders%2"),
    "lone percent in the password": BASE.replace(SECRET, f"{SECRET}%"),
    "escape that is not UTF-8": BASE.replace("orders", "%ff"),
    "no database": BASE.replace("/orders", ""),
    "no database, slash": BASE.replace("/orders", "/"),
    "two path parts": BASE + "/more",
    "database like a URL": BASE.replace("orders", "postgresql%3A%2F%2Fh%2Fx"),
    "database like a conninfo": BASE.replace("orders", "host%3Dh"),
    "database too long": BASE.replace("orders", "o" * 64),
    "user too long": BASE.replace("app:", "a" * 64 + ":"),
    "empty host": f"postgresql://app:{SECRET}@/orders",
    "empty host with a port": f"postgresql://app:{SECRET}@:5432/orders",
    "nothing at all": "postgresql://",
    "no user": "postgresql://db.example.com/orders",
    "empty user": f"postgresql://:{SECRET}@db.example.com/orders",
    "empty userinfo": "postgresql://@db.example.com/orders",
    "unknown parameter": with_query("foo=bar"),
    "unknown parameter of another case": with_query("SSLMODE=require"),
    "search_path as a parameter": with_query("search_path=app"),
    "parameter without value": with_query("sslmode"),
    "parameter with two values": with_query("sslmode=a=b"),
    "empty parameter": with_query("sslmode="),
    "empty host parameter": f"postgresql://app:{SECRET}@/orders?host=",
    "empty pair": with_query("sslmode=require", ""),
    "empty first pair": with_query("", "sslmode=require"),
    "empty name": with_query("=require"),
    "bad sslmode": with_query("sslmode=Require"),
    "bad ssl": with_query("ssl=1"),
    "bad timeout": with_query(f"connect_timeout={SECRET}"),
    "raw plus": with_query("options=-c+role%3Da"),
    "raw = in options": with_query("options=-c%20role=a"),
    "other option": with_query("options=-e"),
    "setting without value": with_query("options=-c%20role"),
    "setting that loads a file": with_query("options=-c%20session_preload_libraries%3Dx"),
    "setting that changes SQL": with_query("options=-c%20standard_conforming_strings%3Doff"),
    "replication": with_query("replication=database"),
    "key log": with_query("sslkeylogfile=/tmp/x"),
    "client_encoding": with_query("client_encoding=latin1"),
    "port 0": on("h:0"),
    "port too large": on("h:65536"),
    "port with a sign": on("h:+5432"),
    "port with a zero": on("h:05432"),
    "port in other digits": on("h:٥٤٣٢"),
    "empty port": on("h:"),
    "host with an underscore at a hyphen": on("-h"),
    "host with an empty label": on("a..b"),
    "host beyond ASCII": on("dbü.example.com"),
    "other scheme": BASE.replace("postgresql:", "mysql:"),
    "upper-case scheme": BASE.replace("postgresql:", "POSTGRESQL:"),
    "driver scheme": BASE.replace("postgresql:", "postgresql+psycopg:"),
    "conninfo string": f"host=h dbname=orders user=app password={SECRET}",
    "conninfo word": f"password={SECRET}",
    "empty": "",
    "too long": BASE + "?application_name=" + "x" * 9000,
}


def _pairs(table: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    return [
        (name, first, other)
        for name, urls in table.items()
        for index, first in enumerate(urls)
        for other in urls[index + 1 :]
    ]


@pytest.mark.parametrize(("name", "first", "other"), _pairs(EQUAL))
def test_equal(name: str, first: str, other: str) -> None:
    one, two = identify(first), identify(other)
    assert one == two
    assert one.digest == two.digest


@pytest.mark.parametrize(("name", "first", "other"), _pairs(DIFFERENT))
def test_different(name: str, first: str, other: str) -> None:
    one, two = identify(first), identify(other)
    assert one != two
    assert one.digest != two.digest


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        identify(REFUSED[name])
    error = caught.value
    assert error.exit_code == 2
    for text in (error.message, error.field, error.hint, repr(error)):
        assert SECRET not in (text or "")
        assert "\n" not in (text or "")


@pytest.mark.parametrize("name", sorted(EQUAL) + sorted(DIFFERENT))
def test_libpq_reads_them_likewise(name: str) -> None:
    for url in EQUAL.get(name, []) + DIFFERENT.get(name, []):
        assert dsn.agrees(dsn.read(url, engine="postgres"), conninfo_to_dict(url)) == []


def test_the_machine_user_is_bound_where_the_url_names_none() -> None:
    url = "postgresql://db.example.com/orders"
    alice = dsn.identify(url, engine="postgres", os_user="alice")
    assert alice.user == "alice"
    assert "user" in alice.normalised
    assert alice == identify("postgresql://alice@db.example.com/orders")
    assert alice.digest != dsn.identify(url, engine="postgres", os_user="bob").digest
    assert dsn.identify(BASE, engine="postgres", os_user="alice").user == "app"


def test_no_repr_shows_a_secret() -> None:
    url = with_query(f"sslpassword={SECRET}")
    read = dsn.read(url, engine="postgres")
    for text in (repr(read), str(read), repr(read.identity), str(read.identity.bound)):
        assert SECRET not in text
    assert SECRET not in str(dataclasses.asdict(read.identity))
    assert read.identity.excluded == ("password", "sslpassword")


def test_a_disagreement_names_the_part() -> None:
    read = dsn.read(BASE, engine="postgres")
    theirs = conninfo_to_dict(BASE)
    assert dsn.agrees(read, {**theirs, "host": "other"}) == ["host"]
    assert dsn.agrees(read, {**theirs, "password": "other"}) == ["password"]
    assert dsn.agrees(read, {**theirs, "hostaddr": "10.0.0.1"}) == ["hostaddr"]
    assert dsn.agrees(read, {k: v for k, v in theirs.items() if k != "dbname"}) == ["dbname"]


def test_local_keys() -> None:
    assert identify(BASE).local_key == "local:db.example.com:5432/orders"
    assert identify(on("[::1]")).local_key == "local:[::1]:5432/orders"
    assert identify(on("%2Frun%2Fpg")).local_key == "local:/run/pg:5432/orders"


def test_golden_identity() -> None:
    identity = identify(with_query("ssl=true", "options=-c%20search_path%3Dapp,public"))
    assert identity.bound == {
        "engine": "postgresql",
        "transport": "tcp",
        "host": "db.example.com",
        "port": 5432,
        "database": "orders",
        "user": "app",
        "role": None,
        "searchPath": "app,public",
        "security": {"channel_binding": "prefer", "sslmode": "require"},
        "session": {},
    }
    assert identity.digest == (
        "sha256:5031bcdf4ed27cb8a5cf9c4cb37d09bae148d2971c5b024377d39838543a2a1a"
    )


def _oracle(url: str) -> None:
    """Whatever is accepted here means the same to libpq."""
    try:
        read = dsn.read(url, engine="postgresql", os_user="me")
    except UsageError as error:
        assert "\n" not in error.message
        return
    assert dsn.agrees(read, conninfo_to_dict(url)) == []


PIECES = st.lists(
    st.sampled_from(
        ["postgresql://", "postgres://", "u", "p", "h", "db", ":", "@", "/", "?", "&", "=", "#",
         "%", "%2F", "%40", "%3A", "%00", "%c3%a9", "ü", "[", "]", "[::1]", "::1", "127.0.0.1",
         "5432", ",", ".", "+", " ", "\\", "'", '"', "host=", "port=", "user=", "password=",
         "dbname=", "sslmode=require", "ssl=true", "options=", "-c%20role%3Dx", "hostaddr=", "\n"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@given(st.sampled_from(["", "postgresql://", "postgresql://u:p@h/db?"]), PIECES)
@settings(max_examples=600)
@example("postgresql://u:", "%c3%bc\u00c3\u00bc@h/db")
def test_libpq_agrees_on_random_urls(start: str, rest: str) -> None:
    _oracle(start + rest)


@given(st.text(max_size=40))
def test_libpq_agrees_on_random_passwords(password: str) -> None:
    assume("\0" not in password)
    _oracle(f"postgresql://u:{password}@h/db")


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=15))
def test_an_encoded_value_arrives(value: str) -> None:
    assume("=" not in value and "://" not in value and len(value.encode()) <= 63)
    escaped = quote(value, safe="")
    url = f"postgresql://{escaped}:{escaped}@h/{escaped}?application_name={escaped}"
    identity = identify(url)
    assert (identity.user, identity.database) == (value, value)
    _oracle(url)


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    for url in (text, "postgresql://" + text):
        try:
            identify(url)
        except UsageError as error:
            # No piece of the text of any length worth knowing.
            for word in re.findall(r"\w{9,}", text):
                assert word not in error.message


def test_psycopg_is_the_oracle() -> None:
    assert psycopg.pq.version() >= 150000


@st.composite
def plausible(draw: st.DrawFn) -> str:
    """URLs that are right or nearly so, with random escapes and harmful characters."""

    def part(pool: list[str]) -> str:
        text = draw(st.sampled_from(pool))
        if not text or draw(st.booleans()):
            return text
        place = draw(st.integers(0, len(text) - 1))
        change = draw(st.sampled_from(["escape", "escape", "double", *"@:/?&=,%+[]é"]))
        if change == "escape":
            return text[:place] + quote(text[place], safe="") + text[place + 1 :]
        return text[:place] + (text[place] * 2 if change == "double" else change) + text[place:]

    user = part(["u", "user name".replace(" ", "%20"), "", "ü"])
    password = draw(st.sampled_from(["", ":", ":"])) + part(["", "pw", "p%40w", "5432"])
    host = part(["h", "H.Example", "127.0.0.1", "[::1]", "[fe80::1%25e0]", "%2Frun%2Fpg", ""])
    port = part(["", ":5432", ":1"])
    path = part(["/db", "/d%2Fb", "/", ""])
    names = ["host=h", "host=/run", "port=1", "dbname=x", "user=y", "password=z", "ssl=true",
             "sslmode=require", "options=-c%20role%3Da", "connect_timeout=3", "sslrootcert=/a%20b",
             "require_auth=scram-sha-256", "application_name=a%26b"]  # fmt: skip
    query = "&".join(part([name]) for name in draw(st.lists(st.sampled_from(names), max_size=3)))
    mark = "?" if query or draw(st.booleans()) else ""
    return f"postgresql://{user}{password}@{host}{port}{path}{mark}{query}"


@given(plausible())
@settings(max_examples=1500)
def test_libpq_agrees_on_plausible_urls(url: str) -> None:
    _oracle(url)


def test_the_plausible_urls_reach_both_answers() -> None:
    accepted: list[bool] = []

    @given(plausible())
    @settings(max_examples=500, database=None, derandomize=True)
    def sample(url: str) -> None:
        try:
            dsn.read(url, engine="postgresql", os_user="me")
            accepted.append(True)
        except UsageError:
            accepted.append(False)

    sample()
    assert accepted.count(True) > 10
    assert accepted.count(False) > 10
