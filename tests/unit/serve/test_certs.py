"""Certificates of the webhook: what is due when, and handshakes all through a rotation."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from ptahk.backends.system import SystemClock
from ptahk.engine.model.certificate import CERTIFICATE, KEY, Material
from ptahk.engine.ports import Conflict
from ptahk.serve.certs import Lives, MountedCertificates, OwnCertificates, read, renewed

NAMES = ("ptahk-webhook.ptahk-system.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)
LIVES = Lives(timedelta(days=365), timedelta(days=90), timedelta(minutes=5))


@dataclass
class Moment:
    """A clock that the test moves."""

    time: datetime = START

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class Drawer:
    """A vault in memory. :ivar writes: how often either was written."""

    material: Material = field(default_factory=lambda: Material(version="0"))
    bundle: bytes = b""
    writes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> Material:
        return self.material

    def store(self, material: Material) -> Material:
        with self.lock:
            if material.version != self.material.version:
                raise Conflict("Secret")
            self.writes += 1
            self.material = replace(material, version=str(int(material.version) + 1))
            return self.material

    def published(self) -> bytes:
        return self.bundle

    def publish(self, bundle: bytes) -> None:
        with self.lock:
            self.writes += bundle != self.bundle
            self.bundle = bundle


def shakes(server: ssl.SSLContext, bundle: bytes, name: str = NAMES[0]) -> bool:
    """Whether a client that trusts this bundle and knows this name gets through."""
    client = ssl.create_default_context(cadata=bundle.decode())
    near, far = socket.socketpair()
    answered: list[bool] = []

    def serve() -> None:
        with contextlib.suppress(OSError), server.wrap_socket(far, server_side=True) as stream:
            stream.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(near, server_hostname=name) as stream:
            stream.send(b"x")
            answered.append(True)
    except ssl.SSLError:
        near.close()
    thread.join()
    return bool(answered)


def test_the_first_look_makes_everything() -> None:
    drawer = Drawer()
    mine = OwnCertificates(drawer, NAMES, Moment(), LIVES)
    with pytest.raises(OSError, match="no certificate yet"):
        mine.context()
    mine.look()
    stored = read(drawer.material)
    assert stored is not None
    (ca,), served = stored
    assert ca.not_valid_after_utc == START + LIVES.ca
    assert served.not_valid_after_utc == START + LIVES.certificate
    assert served.not_valid_before_utc == START - timedelta(hours=1), "clocks are not exact"
    assert drawer.bundle == drawer.material.bundle
    writes = drawer.writes
    mine.look()
    assert drawer.writes == writes, "nothing is due"


def test_what_is_served_is_trusted_under_its_name_alone() -> None:
    drawer = Drawer()
    mine = OwnCertificates(drawer, NAMES, SystemClock(), LIVES)
    mine.look()
    assert shakes(mine.context(), drawer.bundle)
    assert not shakes(mine.context(), drawer.bundle, "kubernetes.default.svc")
    other = Drawer()
    OwnCertificates(other, NAMES, SystemClock(), LIVES).look()
    assert not shakes(mine.context(), other.bundle)


def served(drawer: Drawer) -> x509.Certificate:
    found = read(drawer.material)
    assert found is not None
    return found[1]


def cas(drawer: Drawer) -> int:
    return len(x509.load_pem_x509_certificates(drawer.material.bundle))


def test_a_certificate_is_renewed_at_two_thirds_of_its_life() -> None:
    drawer, clock = Drawer(), Moment()
    mine = OwnCertificates(drawer, NAMES, clock, LIVES)
    mine.look()
    first = served(drawer)
    clock.time = START + timedelta(days=60) - timedelta(seconds=1)
    mine.look()
    assert served(drawer) == first
    clock.time = START + timedelta(days=60)
    mine.look()
    assert served(drawer) != first and cas(drawer) == 1


def age(mine: OwnCertificates, clock: Moment, days: int) -> None:
    """Let days pass, one look a day: the last is the day itself."""
    for day in range(1, days + 1):
        clock.time = START + timedelta(days=day)
        mine.look()


def test_a_ca_is_renewed_in_three_steps() -> None:
    drawer, clock = Drawer(), Moment()
    one, two = (OwnCertificates(drawer, NAMES, clock, LIVES) for _ in range(2))
    one.look()
    age(one, clock, 243)
    first = served(drawer)
    assert cas(drawer) == 1
    clock.time = START + timedelta(days=244)
    one.look()
    assert served(drawer) == first and cas(drawer) == 2, "both are trusted"
    two.look()
    assert served(drawer) == first, "not before every replica and the API server know the new one"
    clock.time += LIVES.settle
    two.look()
    second = served(drawer)
    assert second != first and cas(drawer) == 2
    one.look()
    assert cas(drawer) == 2, "another replica may still serve the old one"
    clock.time += LIVES.settle
    one.look()
    assert cas(drawer) == 1 and served(drawer) == second


def test_a_new_ca_that_nobody_trusts_yet_signs_nothing() -> None:
    drawer, clock = Drawer(), Moment()
    mine = OwnCertificates(drawer, NAMES, clock, LIVES)
    mine.look()
    age(mine, clock, 243)
    old = drawer.bundle
    clock.time = START + timedelta(days=244)
    doubled = renewed(drawer.material, old, NAMES, clock.time, LIVES)
    clock.time += timedelta(days=1)
    assert renewed(doubled, old, NAMES, clock.time, LIVES) is doubled
    after = renewed(doubled, doubled.bundle, NAMES, clock.time, LIVES)
    assert after.certificate != doubled.certificate


@pytest.mark.parametrize("what", ["bundle", "ca_key", "certificate", "key"])
def test_what_is_damaged_is_made_anew(what: str) -> None:
    drawer, clock = Drawer(), Moment()
    mine = OwnCertificates(drawer, NAMES, clock, LIVES)
    mine.look()
    other = Drawer()
    OwnCertificates(other, NAMES, clock, LIVES).look()
    for value in (b"", b"rubbish", getattr(other.material, what)):
        drawer.material = replace(drawer.material, **{what: value})
        mine.look()
        assert read(drawer.material) is not None
        assert drawer.bundle == drawer.material.bundle


def test_the_name_of_another_namespace_is_made_anew() -> None:
    drawer = Drawer()
    OwnCertificates(drawer, NAMES, Moment(), LIVES).look()
    OwnCertificates(drawer, ("ptahk-webhook.other.svc",), Moment(), LIVES).look()
    names = served(drawer).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["ptahk-webhook.other.svc"]


def test_replicas_that_begin_together_end_with_one_ca() -> None:
    drawer = Drawer()
    many = [OwnCertificates(drawer, NAMES, SystemClock(), LIVES) for _ in range(4)]
    threads = [threading.Thread(target=item.look) for item in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for item in many:
        item.look()
        assert shakes(item.context(), drawer.bundle)


def test_no_secret_is_shown() -> None:
    drawer = Drawer()
    OwnCertificates(drawer, NAMES, Moment(), LIVES).look()
    assert "PRIVATE" not in repr(drawer.material)


@dataclass
class Server:
    """A TLS server that asks for its context with every connection, as the webhook does."""

    keeper: OwnCertificates
    sock: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self.sock.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                wrapped = self.keeper.context().wrap_socket(plain, server_side=True)
                wrapped.recv(1)
                wrapped.close()

    def end(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(10)


@pytest.fixture
def replicas() -> Iterator[tuple[Drawer, list[Server]]]:
    # Certificates at 0, 6 and 12 s, a CA at 14, its certificate at 17, the old one out at 20:
    # seconds are left at every step, for a machine that is busy.
    lives = Lives(timedelta(seconds=21), timedelta(seconds=9), timedelta(seconds=3), 0.1)
    drawer = Drawer()
    keepers = [OwnCertificates(drawer, NAMES, SystemClock(), lives) for _ in range(2)]
    for keeper in keepers:
        keeper.look()
        keeper.start()
    servers = [Server(keeper) for keeper in keepers]
    yield drawer, servers
    for server in servers:
        server.end()
    for keeper in keepers:
        keeper.stop()


def test_no_handshake_is_refused_while_everything_is_rotated(
    replicas: tuple[Drawer, list[Server]],
) -> None:
    """A client of two replicas trusts what is published, as an API server does."""
    drawer, servers = replicas
    first, seen, refused, asked = drawer.material.bundle, set(), [], 0
    clock = SystemClock()
    until_s = clock.monotonic() + 60
    pause = threading.Event()
    while clock.monotonic() < until_s:
        cadata = drawer.bundle.decode()
        client = ssl.create_default_context(cadata=cadata)
        address = servers[asked % 2].sock.getsockname()
        asked += 1
        try:
            with (
                socket.create_connection(address, 10) as plain,
                client.wrap_socket(plain, server_hostname=NAMES[0]) as stream,
            ):
                seen.add(stream.getpeercert(binary_form=True))
        except OSError as error:
            refused.append(repr(error))
        kept = x509.load_pem_x509_certificates(drawer.bundle)
        if len(kept) == 1 and drawer.bundle != first and len(seen) >= 3:
            break
        pause.wait(0.03)
    assert refused == []
    assert len(seen) >= 3, "certificates were renewed meanwhile"
    assert drawer.bundle != first, "the CA too"
    assert asked > 50


def test_mounted_files_are_read_again(tmp_path: Path) -> None:
    drawer = Drawer()
    OwnCertificates(drawer, NAMES, SystemClock(), LIVES).look()

    def mount() -> None:
        (tmp_path / CERTIFICATE).write_bytes(drawer.material.certificate)
        (tmp_path / KEY).write_bytes(drawer.material.key)

    mounted = MountedCertificates(tmp_path, SystemClock())
    with pytest.raises(OSError):
        mounted.look()
    mount()
    mounted.look()
    context = mounted.context()
    assert shakes(context, drawer.bundle)
    mounted.look()
    assert mounted.context() is context, "nothing changed"
    fresh = Drawer()
    OwnCertificates(fresh, NAMES, SystemClock(), LIVES).look()
    drawer = fresh
    (tmp_path / CERTIFICATE).write_bytes(drawer.material.certificate)
    with pytest.raises((OSError, ValueError)):
        mounted.look()
    assert mounted.context() is context, "half of a change is not served"
    mount()
    mounted.look()
    assert shakes(mounted.context(), drawer.bundle)


def test_a_context_speaks_no_old_tls() -> None:
    drawer = Drawer()
    mine = OwnCertificates(drawer, NAMES, SystemClock(), LIVES)
    mine.look()
    assert mine.context().minimum_version == ssl.TLSVersion.TLSv1_2
