"""The token lives in a file of its owner's, goes only where it is from, and the environment comes first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference.cli.errors import BadValue, ExitCode, NotLoggedIn
from inference.cli.login import Login, checked_url, login_current, login_forget, login_path, login_store, login_stored

LOGIN = Login(url="https://tandem.example.org", token="tdm-secret")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_a_login_is_readable_by_its_owner_alone_whatever_the_umask(home: dict[str, str]) -> None:
    path = login_path(home)
    before = os.umask(0)
    try:
        login_store(path, LOGIN)
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert login_current(home) == LOGIN


def test_a_second_login_replaces_the_first_and_leaves_nothing_beside_it(home: dict[str, str]) -> None:
    path = login_path(home)
    login_store(path, LOGIN)
    login_store(path, Login(url="https://other", token="tdm-other"))
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert login_current(home).token == "tdm-other"


def test_a_file_that_others_may_read_is_not_used(home: dict[str, str]) -> None:
    path = login_path(home)
    login_store(path, LOGIN)
    path.chmod(0o640)
    with pytest.raises(BadValue, match="chmod 600") as refused:
        login_current(home)
    assert LOGIN.token not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b'{"url": "x"}', b"\xff"])
def test_a_broken_file_says_to_log_in_again(home: dict[str, str], content: bytes) -> None:
    path = login_path(home)
    login_store(path, LOGIN)
    path.write_bytes(content)
    with pytest.raises(BadValue, match="run tandem login again"):
        login_current(home)


def test_the_environment_comes_first(home: dict[str, str]) -> None:
    login_store(login_path(home), LOGIN)
    both = home | {"TANDEM_URL": "http://10.0.0.1:8000/", "TANDEM_TOKEN": "tdm-env"}
    assert login_current(both) == Login(url="http://10.0.0.1:8000", token="tdm-env")
    assert login_current(home | {"TANDEM_TOKEN": "tdm-env"}) == Login(url=LOGIN.url, token="tdm-env")


def test_a_stored_token_is_not_sent_to_another_address(home: dict[str, str]) -> None:
    login_store(login_path(home), LOGIN)
    with pytest.raises(NotLoggedIn, match="no login for https://evil"):
        login_current(home | {"TANDEM_URL": "https://evil"})


def test_without_a_login_it_is_said_how_to(home: dict[str, str]) -> None:
    with pytest.raises(NotLoggedIn, match="tandem login") as missing:
        login_current(home)
    assert missing.value.exit_code == ExitCode.NOT_ALLOWED
    assert login_forget(login_path(home)) is False


def test_a_login_is_forgotten(home: dict[str, str]) -> None:
    login_store(login_path(home), LOGIN)
    assert login_forget(login_path(home)) is True
    assert login_stored(login_path(home)) is None


@pytest.mark.parametrize("url", ["", "tandem", "ftp://x", "https://", "https://x?y=1", "https://me:pw@x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadValue):
        checked_url(url)


@pytest.mark.parametrize(
    ("url", "clear"),
    [("http://127.0.0.1:8000", False), ("http://localhost", False), ("https://x", False), ("http://x", True)],
)
def test_a_token_in_the_clear_is_noticed(url: str, clear: bool) -> None:
    assert Login(url=url, token="t").in_the_clear is clear
