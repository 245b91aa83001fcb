from __future__ import annotations

import stat
from pathlib import Path

import pytest

from controlplane.core import secret_file


def test_a_secret_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret"
    secret_file.write(path, "s3cret")

    assert secret_file.read(path) == "s3cret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_replacing_one_leaves_nothing_else_behind(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old and readable by all")
    secret_file.write(path, "new")

    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.mkdir()

    with pytest.raises(OSError, match="secret"):
        secret_file.write(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


def test_no_file_is_no_secret(tmp_path: Path) -> None:
    assert secret_file.read(tmp_path / "none") == ""
