"""What only a file on a disk can meet: other processes, kill -9, damage, a full disk, strangers."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ptahk.backends.local import documents, objects, statefile
from ptahk.backends.local.objects import LocalObjects
from ptahk.backends.system import SystemClock
from ptahk.engine.ports import Invalid, Unavailable
from ptahk.errors import PtahkError, Unreachable, UsageError
from tests.kit.storeworker import SHARED, document

KILLS = 12


def open_store(directory: Path, busy_timeout_s: float = 10.0) -> LocalObjects:
    return LocalObjects.open(directory, SystemClock(), busy_timeout_s=busy_timeout_s)


def worker(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.kit.storeworker", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_processes_contend_and_no_write_is_lost(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    store.create(document(*SHARED[::2], 0))
    workers = [worker("count", tmp_path / "s", 40) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in workers] == ["", "", ""]
    shared = store.get(SHARED)
    assert shared["spec"]["number"] == 120
    assert shared["metadata"]["generation"] == 121


def test_processes_that_open_a_fresh_directory_at_once_agree(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ptahk.backends.local.objects import "
        "LocalObjects; from ptahk.backends.system import SystemClock; "
        "print(LocalObjects.open(Path(sys.argv[1]), SystemClock()).uid)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "s")]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    uids = {process.communicate(timeout=60)[0] for process in started}
    assert uids == {open_store(tmp_path / "s").uid + "\n"}


def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    """After each kill the file is sound and holds all that was acknowledged, and at most the
    one write whose answer nobody read."""
    dice = random.Random(20)
    for round_number in range(KILLS):
        directory = tmp_path / f"s{round_number}"
        with worker("write", directory) as process:
            assert process.stdout is not None
            answered = 0
            for _ in range(dice.randrange(1, 30)):
                answered = int(process.stdout.readline())
            process.kill()
            answered = max([answered, *map(int, process.stdout.read().split())])
        numbers = {item["spec"]["number"] for item in open_store(directory).list("PtahSchema")}
        assert numbers in ({*range(1, answered + 1)}, {*range(1, answered + 2)})


def test_a_writer_that_waits_too_long_is_told_so(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s", busy_timeout_s=0.05)
    other = sqlite3.connect(tmp_path / "s" / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked") as raised:
        store.create(document("PtahSchema", "a", 1))
    assert isinstance(raised.value.__cause__, Unreachable)
    assert raised.value.__cause__.reason == "StoreBusy"
    assert store.list("PtahSchema") == ()
    other.execute("ROLLBACK")
    store.create(document("PtahSchema", "a", 1))
    other.close()


def test_a_writer_waits_for_another(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    other = sqlite3.connect(
        tmp_path / "s" / "store.db", isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, other.execute, ["ROLLBACK"])
    release.start()
    store.create(document("PtahSchema", "a", 1))
    release.join()
    other.close()


def test_threads_may_share_a_store(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")

    def write(part: int) -> None:
        for number in range(20):
            store.create(document("PtahSchema", f"t{part}-{number}", number))

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.list("PtahSchema")) == 80


def test_the_state_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = open_store(tmp_path / "new" / "s")
        store.create(document("PtahSchema", "a", 1))
        held = tmp_path / "new" / "s"
        assert stat.S_IMODE(held.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in held.iterdir()} == {0o600}
        store.close()
        (held / "store.db").chmod(0o644)
        open_store(held).close()
        assert stat.S_IMODE((held / "store.db").stat().st_mode) == 0o600
    finally:
        os.umask(old)


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.joinpath("s").mkdir()
    tmp_path.joinpath("s").chmod(0o777)
    with pytest.raises(UsageError) as raised:
        open_store(tmp_path / "s")
    assert raised.value.reason == "StoreNotPrivate"
    assert files(tmp_path / "s") == {}


def test_a_newer_store_is_refused_untouched(tmp_path: Path) -> None:
    open_store(tmp_path / "s").close()
    newer = sqlite3.connect(tmp_path / "s" / "store.db")
    newer.execute(f"PRAGMA user_version = {statefile.SCHEMA_VERSION + 1}")
    newer.close()
    before = files(tmp_path / "s")
    with pytest.raises(UsageError) as raised:
        open_store(tmp_path / "s")
    assert raised.value.reason == "StoreTooNew"
    assert files(tmp_path / "s") == before


def filled(directory: Path, number: int = 40) -> Path:
    store = open_store(directory)
    for index in range(number):
        store.create(document("PtahSchema", f"a{index}", index, padding=3000))
    store.close()
    return directory / "store.db"


def test_a_damaged_file_is_refused_untouched(tmp_path: Path) -> None:
    file = filled(tmp_path / "s")
    content = bytearray(file.read_bytes())
    page = 4096
    for damage in (b"\xff" * page, b"\x00" * page):
        spoiled = bytes(content[:page]) + damage * 3 + bytes(content[page * 4 :])
        file.write_bytes(spoiled)
        with pytest.raises(Unreachable) as raised:
            open_store(tmp_path / "s")
        assert raised.value.reason == "StoreDamaged"
        assert file.read_bytes() == spoiled


@pytest.mark.parametrize("size", [1, 100, 4096, 40_000])
def test_a_cut_file_is_refused(tmp_path: Path, size: int) -> None:
    file = filled(tmp_path / "s")
    os.truncate(file, size)
    with pytest.raises(Unreachable) as raised:
        open_store(tmp_path / "s")
    assert raised.value.reason == "StoreDamaged"


def test_an_emptied_file_with_a_log_beside_it_is_refused(tmp_path: Path) -> None:
    file = filled(tmp_path / "s")
    os.truncate(file, 0)
    (tmp_path / "s" / "store.db-wal").write_bytes(b"frames")
    with pytest.raises(Unreachable) as raised:
        open_store(tmp_path / "s")
    assert raised.value.reason == "StoreDamaged"
    assert files(tmp_path / "s") == {"store.db": b"", "store.db-wal": b"frames"}


def test_a_foreign_file_is_refused_untouched(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    directory.mkdir(mode=0o700)
    foreign = sqlite3.connect(directory / "store.db")
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    before = files(directory)
    with pytest.raises(Unreachable, match="not a state file"):
        open_store(directory)
    assert files(directory) == before
    (directory / "store.db").write_text("I am a letter, not a database. " * 9)
    with pytest.raises(Unreachable) as raised:
        open_store(directory)
    assert raised.value.reason == "StoreDamaged"


def test_the_name_of_a_file_or_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable):
        open_store(tmp_path / "file")
    (tmp_path / "s").mkdir(mode=0o700)
    (tmp_path / "s" / "store.db").symlink_to(tmp_path / "file")
    with pytest.raises(Unreachable):
        open_store(tmp_path / "s")


def as_nobody(directory: Path) -> str:
    """What an ordinary user who opens this directory is told."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from ptahk.backends.local.objects import LocalObjects\n"
        "from ptahk.backends.system import SystemClock\n"
        "from ptahk.errors import PtahkError\n"
        "if os.geteuid() == 0: os.setgid(65534), os.setuid(65534)\n"
        "try: LocalObjects.open(Path(sys.argv[1]), SystemClock())\n"
        "except PtahkError as e: print(e.exit_code, e.reason)\n"
    )
    command = [sys.executable, "-c", code, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    assert as_nobody(Path("/proc/ptahk")) == "6 StoreNotWritable"


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        assert as_nobody(Path("/")) == "2 StoreNotPrivate"
        return
    os.chown(tmp_path, 65533, 65533)
    with pytest.raises(UsageError) as raised:
        open_store(tmp_path)
    assert raised.value.reason == "StoreNotPrivate"


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    made = store.create(document("PtahSchema", "a", 1))
    with store._state.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    store._state._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unavailable, match="disk is full") as raised:
        store.create(document("PtahSchema", "b", 2, padding=100_000))
    assert isinstance(raised.value.__cause__, PtahkError)
    assert raised.value.__cause__.reason == "StoreFull"
    assert store.list("PtahSchema") == (made,)
    store._state._connection.execute("PRAGMA max_page_count = 100000")
    store.create(document("PtahSchema", "b", 2, padding=100_000))


def test_a_file_that_cannot_grow_keeps_what_was_answered(tmp_path: Path) -> None:
    process = worker("full", tmp_path / "s", 300_000)
    printed = process.communicate(timeout=60)[0].split()
    assert process.returncode == 0
    assert printed[-1] in ("Indeterminate", "Unavailable")
    answered = {int(number) for number in printed[:-1]}
    assert answered
    found = {item["spec"]["number"] for item in open_store(tmp_path / "s").list("PtahSchema")}
    assert answered <= found <= answered | {max(answered) + 1}


def test_a_document_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    with pytest.raises(Invalid, match="larger"):
        store.create(document("PtahSchema", "a", 1, padding=objects.DOCUMENT_BYTES_MAX))
    assert store.list("PtahSchema") == ()


def test_a_watch_hears_another_process_and_ends(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    watch = store.watch("PtahSchema", None, store.resource_version, 30.0)
    other = open_store(tmp_path / "s")
    threading.Timer(0.1, other.create, [document("PtahSchema", "a", 1)]).start()
    assert next(watch).document["metadata"]["name"] == "a"
    assert list(store.watch("PtahSchema", None, store.resource_version, 0.05)) == []


def test_a_watch_from_before_forgotten_deletions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "DELETIONS_MAX", 3)
    store = open_store(tmp_path / "s")
    since = store.resource_version
    for number in range(5):
        store.delete(store.create(document("PtahSchema", f"a{number}", number)))
    with pytest.raises(Invalid, match="too old"):
        list(store.watch("PtahSchema", None, since, 0.0))
    assert list(store.watch("PtahSchema", None, store.resource_version, 0.0)) == []


def test_a_store_keeps_its_uid_and_a_copy_keeps_it_too(tmp_path: Path) -> None:
    store = open_store(tmp_path / "s")
    uid = store.uid
    store.close()
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    assert open_store(tmp_path / "copy").uid == uid
    assert open_store(tmp_path / "other").uid != uid
    assert LocalObjects.in_memory(SystemClock()).uid != LocalObjects.in_memory(SystemClock()).uid


def test_copy_takes_json_and_nothing_else() -> None:
    value = {"a": [1, 2.5, None, True, "x", {"b": []}]}
    copied = documents.copy(value)
    assert copied == value
    assert copied["a"] is not value["a"]
    for other in ({1: 2}, {"a": {1}}, {"a": float("inf")}, {"a": b""}):
        with pytest.raises(Invalid):
            documents.copy(other)
