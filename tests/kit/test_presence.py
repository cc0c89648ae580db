"""What is missing fails a test, and is left out, aloud, only where a subset was asked for."""

import pytest

from tests.kit import presence
from tests.kit.installs import NeedsRoot, ServerMissing


def _missing() -> None:
    raise ServerMissing("no server of that name")


def test_what_is_missing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(presence.SUBSET_ENV, raising=False)
    with pytest.raises(ServerMissing, match="no server of that name"):
        presence.present(_missing)


def test_a_subset_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(presence.SUBSET_ENV, "1")
    with pytest.raises(BaseException, match="no server of that name") as left_out:
        presence.present(_missing)
    assert type(left_out.value).__name__ == "Skipped"


def test_what_only_root_can_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def node() -> None:
        raise NeedsRoot("a node needs root")

    monkeypatch.delenv(presence.SUBSET_ENV, raising=False)
    with pytest.raises(BaseException, match="a node needs root") as left_out:
        presence.present(node)
    assert type(left_out.value).__name__ == "Skipped"


def test_what_is_there_is_given() -> None:
    assert presence.present(lambda: 7) == 7
