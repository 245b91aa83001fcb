from __future__ import annotations

import stat
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from controlplane.access import lockout, selectors, tokens
from controlplane.access.models import ManagementToken, ServingKey

pytestmark = pytest.mark.django_db


def run(command: str, *arguments: str) -> str:
    written = StringIO()
    call_command(command, *arguments, stdout=written, stderr=written)
    return written.getvalue()


def test_the_first_admin_gets_a_made_password_that_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "admin-password"
    printed = run("ensure_admin", "--username", "admin", "--password-file", str(path))

    password = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert password not in printed
    user = authenticate(username="admin", password=password)
    assert isinstance(user, User)
    assert user.is_superuser


def test_the_password_is_printed_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "admin-password"
    printed = run("ensure_admin", "--password-file", str(path), "--show")

    assert path.read_text().strip() in printed


def test_a_given_password_is_used(tmp_path: Path) -> None:
    path = tmp_path / "admin-password"
    path.write_text("correct horse battery\n")
    run("ensure_admin", "--password-file", str(path))

    assert authenticate(username="admin", password="correct horse battery")


def test_a_second_run_leaves_the_admin_alone(tmp_path: Path) -> None:
    path = tmp_path / "admin-password"
    run("ensure_admin", "--password-file", str(path))
    user = User.objects.get()
    user.set_password("changed by its owner")
    user.save()

    assert "keeps their password" in run("ensure_admin", "--password-file", str(path))
    assert authenticate(username="admin", password="changed by its owner")


@pytest.mark.parametrize(
    ("username", "password"),
    [("admin", "short"), ("two words", "correct horse battery"), ("", "correct horse battery")],
)
def test_an_admin_that_cannot_be_is_refused_in_one_sentence(tmp_path: Path, username: str, password: str) -> None:
    path = tmp_path / "admin-password"
    path.write_text(password)

    with pytest.raises(CommandError):
        run("ensure_admin", "--username", username, "--password-file", str(path))
    assert not User.objects.exists()


def test_a_key_is_written_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "serving-key"
    first = run("ensure_key", "--name", "first key", "--out", str(path))
    key = path.read_text().strip()
    second = run("ensure_key", "--name", "first key", "--out", str(path))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key not in first + second
    assert path.read_text().strip() == key
    assert ServingKey.objects.count() == 1
    assert selectors.key_active(key) is not None


def test_a_key_that_was_revoked_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "serving-key"
    run("ensure_key", "--name", "first key", "--out", str(path))
    revoked = path.read_text()
    ServingKey.objects.update(revoked_at="2026-03-01T12:00:00Z")
    run("ensure_key", "--name", "first key", "--out", str(path))

    assert path.read_text() != revoked


def test_a_key_that_cannot_be_written_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "serving-key"
    path.mkdir()

    with pytest.raises(CommandError):
        run("ensure_key", "--name", "first key", "--out", str(path))
    assert not ServingKey.objects.exists()


def test_an_internal_key_stays_out_of_lists(tmp_path: Path) -> None:
    run("ensure_key", "--name", "probe", "--out", str(tmp_path / "key"), "--internal")

    assert not selectors.key_list().exists()
    assert ServingKey.objects.get().internal


def test_a_token_for_scripts_is_printed_once(db: None) -> None:
    raw = run("create_token", "--name", "nightly", "--role", "viewer").strip()

    token = tokens.token_use(raw)
    assert token is not None
    assert (token.name, token.role, token.owner, token.created_by) == ("nightly", "viewer", None, "tandem")


def test_a_token_goes_into_a_file_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "token"
    printed = run("create_token", "--name", "nightly", "--only", "chat", "search", "--days", "7", "--out", str(path))

    raw = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert raw not in printed
    token = tokens.token_use(raw)
    assert token is not None
    assert (token.role, token.only) == ("operator", ["chat", "search"])


def test_a_token_that_cannot_be_written_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        run("create_token", "--name", "nightly", "--out", str(tmp_path))
    assert not ManagementToken.objects.exists()


def test_an_admin_who_is_locked_out_is_let_in_again(tmp_path: Path) -> None:
    for _ in range(3):
        lockout.attempt_begin(name="admin", address="192.0.2.1")

    assert "Forgot 3 failed logins of Admin" in run("unlock_login", "--name", "Admin")
    assert "Forgot 0" in run("unlock_login", "--address", "192.0.2.1")
