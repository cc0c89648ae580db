"""Fixtures that every suite shares. What they do is in ``tests/kit``."""

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kit import budget, clusters, databases, mydatabases, myservers, servers
from tests.kit.clusterfixtures import (
    api_proxy,
    cluster,
    control_plane,
    namespace,
    own_cluster,
    own_control_plane,
    pod_database,
    pod_postgres,
)
from tests.kit.corpora import corpora as find_corpora
from tests.kit.installs import VERSIONS
from tests.kit.myinstalls import MAKES
from tests.kit.presence import present

__all__ = [
    "api_proxy", "cluster", "control_plane", "namespace", "own_cluster", "own_control_plane",
    "pod_database", "pod_postgres",
]  # fmt: skip

DEFAULT_VERSIONS = (18,)
PG_ENV = "PTAHK_TEST_PG"
MY_ENV = "PTAHK_TEST_MY"
_MAKE_NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}

_keeper = pytest.StashKey[subprocess.Popen[bytes]]()

# No deadline: two cores are shared with a server. The failing example is printed with its seed.
settings.register_profile(
    "ptahk",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ptahk")

# What nohup or a shell's background has the tests ignore, every process that they start would too.
for _number, _heard in (
    (signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler),
):  # fmt: skip
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _heard)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--pg``, ``--my`` and ``--budget``."""
    group = parser.getgroup("ptahk")
    group.addoption(
        "--pg",
        default=os.environ.get(PG_ENV),
        help="PostgreSQL versions for every test that needs one, for example 15,17,18 or 'all' "
        f"(default: what the test names, else {DEFAULT_VERSIONS[0]}; also {PG_ENV})",
    )
    group.addoption(
        "--my",
        default=os.environ.get(MY_ENV),
        help=f"makes of the MySQL family for every test that needs one (default: "
        f"{','.join(MAKES)}; also {MY_ENV})",
    )
    group.addoption(
        "--budget",
        default=os.environ.get(budget.ENV, "1"),
        help=f"how many times the usual number of random cases to try (also {budget.ENV})",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; in the run's first process make its folder and its guard."""
    config.addinivalue_line("markers", "pg(*versions): the PostgreSQL versions of a default run")
    config.addinivalue_line("markers", "needs(*capabilities): of the engines that a test runs on")
    os.environ[budget.ENV] = str(float(config.getoption("--budget")))
    if not hasattr(config, "workerinput"):
        run, config.stash[_keeper] = servers.begin()
        _forget_the_user(run.folder)


def _forget_the_user(folder: Path) -> None:
    """Keep the user's own settings out of the tests, and the tests out of the user's state."""
    for name in list(os.environ):
        if name.startswith(("PG", "MYSQL")) or name in ("DATABASE_URL", "PTAHK_STATE", "NO_COLOR"):
            del os.environ[name]
    os.environ["XDG_STATE_HOME"] = str(folder / "state")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End whatever the run started."""
    keeper = config.stash.get(_keeper, None)
    if keeper is not None:
        servers.finish(keeper)


def pg_versions(config: pytest.Config, marker: pytest.Mark | None) -> list[int]:
    """The versions that a test runs on: ``--pg``, else its marker's, else the default."""
    asked = config.getoption("--pg")
    if asked == "all":
        return list(VERSIONS)
    if asked:
        return [int(part) for part in asked.split(",")]
    return list(marker.args) if marker else list(DEFAULT_VERSIONS)


def my_makes(config: pytest.Config) -> list[str]:
    """The makes that a test of the MySQL family runs on: ``--my``, else all."""
    asked = config.getoption("--my")
    chosen = asked.split(",") if asked else list(MAKES)
    for name in chosen:
        if name not in MAKES:
            raise pytest.UsageError(f"--my: {name!r} is not one of {', '.join(MAKES)}")
    return chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``postgres`` once per version, one of ``myserver`` once per make."""
    if "my_make" in metafunc.fixturenames:
        metafunc.parametrize("my_make", my_makes(metafunc.config), scope="session")
    if "postgres_version" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("pg")
        versions = pg_versions(metafunc.config, marker)
        metafunc.parametrize(
            "postgres_version", versions, ids=[f"pg{v}" for v in versions], scope="session"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say on which servers the tests ran, and what was left out and why."""
    ran: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            chosen = report.nodeid.partition("[")[2]
            ran.update(re.findall(r"\bpg\d+\b", chosen)[:1])
            ran.update(re.findall(r"\b(?:mysql|mariadb)\b", chosen)[:1])
    left_out: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        left_out[report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"] += 1
    terminalreporter.section("ptahk")
    servers_used = ", ".join(f"{ran[f'pg{v}']} on PostgreSQL {v}" for v in VERSIONS)
    terminalreporter.write_line(f"tests with a server: {servers_used}")
    for make, name in _MAKE_NAMES.items():
        version = myservers.version_used(servers.current(), make)
        used = f"{ran[make]} on {name} {version}" if version else f"{name} not used"
        terminalreporter.write_line(f"tests with a server: {used}")
    kubernetes = clusters.version_used(servers.current())
    terminalreporter.write_line(f"cluster: Kubernetes {kubernetes or 'not used'}")
    terminalreporter.write_line(f"tests left out: {left_out.total()}")
    for reason, number in sorted(left_out.items()):
        terminalreporter.write_line(f"  {number} x {reason}")
    told = (*_recorded(terminalreporter, "modelled"), *_recorded(terminalreporter, "struck"))
    for line in (*_simulated(terminalreporter), *_crashed(terminalreporter), *told):
        terminalreporter.write_line(line)


def _recorded(terminalreporter: pytest.TerminalReporter, wanted: str) -> list[str]:
    """What tests recorded under this name, over all workers."""
    return [
        str(text)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, text in report.user_properties
        if name == wanted
    ]


def _simulated(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """What the simulator's seeds covered."""
    texts = _recorded(terminalreporter, "simulated")
    if not texts:
        return []
    from tests.sim import campaign  # the engine: only where it was simulated

    return campaign.summary(texts)


def _crashed(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """How many crashes of the matrix were carried to their end."""
    texts = _recorded(terminalreporter, "crash matrix")
    if not texts:
        return []
    from tests.matrix import explore  # the engine: only where it was crashed

    return explore.summary(texts)


@pytest.fixture(scope="session")
def server_run() -> servers.Run:
    """The run's shared servers; most tests want ``postgres`` or ``database``."""
    return servers.current()


@pytest.fixture(scope="session")
def postgres(server_run: servers.Run, postgres_version: int) -> servers.Server:
    """A shared PostgreSQL server. A test may not stop it or kill any backend but its own."""
    return present(lambda: server_run.server(postgres_version))


@pytest.fixture
def own_postgres(server_run: servers.Run, postgres_version: int) -> Iterator[servers.Server]:
    """A PostgreSQL server of this test alone, which it may kill or reconfigure."""
    server = present(lambda: server_run.own_server(postgres_version))
    yield server
    servers.stop(server)


@pytest.fixture
def pgbouncer(server_run: servers.Run, postgres: servers.Server) -> servers.Pooler:
    """PgBouncer in transaction mode, in front of ``postgres``."""
    return present(lambda: server_run.pooler(postgres.version))


@pytest.fixture
def database(postgres: servers.Server) -> Iterator[databases.Database]:
    """A fresh database on ``postgres``; ``database.role(...)`` makes ordinary roles for it."""
    made = databases.create(postgres)
    yield made
    made.drop()


@pytest.fixture(scope="session")
def myserver(server_run: servers.Run, my_make: str) -> myservers.MyServer:
    """A shared MySQL or MariaDB server. A test may not stop it or kill any thread but its own."""
    return present(lambda: myservers.shared(server_run, my_make))


@pytest.fixture
def own_myserver(server_run: servers.Run, my_make: str) -> Iterator[myservers.MyServer]:
    """A server of this test alone, which it may kill; ``myservers.restart`` brings it back."""
    server = present(lambda: myservers.start(server_run, my_make))
    yield server
    myservers.stop(server)


@pytest.fixture
def mydatabase(myserver: myservers.MyServer) -> Iterator[mydatabases.MyDatabase]:
    """A fresh database on ``myserver``; ``mydatabase.account(...)`` makes accounts for it."""
    made = mydatabases.create(myserver)
    yield made
    made.drop()


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real inputs. Missing is an error."""
    return present(find_corpora)
