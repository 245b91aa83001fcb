"""Files appear whole, for their owner alone, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference.process.files import write_atomically


def test_a_file_is_replaced_as_a_whole_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
