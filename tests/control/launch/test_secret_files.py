"""Secrets are made once and only their owner can read them."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.launch.environment import final_environment
from controlplane.launch.layout import Layout, layout_from_environment
from controlplane.launch.redis_server import find_binary, write_config
from controlplane.launch.secret_files import ensure_secret


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return replace(layout_from_environment(), data=tmp_path / "data", own_redis=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_stays_what_it_was(tmp_path: Path) -> None:
    first = ensure_secret(tmp_path / "secrets" / "x")
    assert len(first) >= 40
    assert ensure_secret(tmp_path / "secrets" / "x") == first
    assert mode(tmp_path / "secrets" / "x") == 0o600
    assert mode(tmp_path / "secrets") == 0o700


def test_the_redis_password_is_in_a_private_file_and_the_server_binds_loopback(layout: Layout) -> None:
    path = write_config(layout, "the-password")
    assert mode(path) == 0o600
    lines = path.read_text().splitlines()
    assert "requirepass the-password" in lines
    assert "bind 127.0.0.1" in lines
    assert find_binary().exists()


def test_the_environment_names_secret_files_and_keeps_what_the_operator_set(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TANDEM_PUBLIC_URL", "https://tandem.example")
    monkeypatch.delenv("REDIS_URL")
    first = final_environment(layout)
    assert "TANDEM_PUBLIC_URL" not in first
    assert Path(first["TANDEM_CLUSTER_SECRET_FILE"]).read_text()
    assert first["REDIS_URL"] == final_environment(layout)["REDIS_URL"]
