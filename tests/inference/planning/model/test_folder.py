from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from inference.planning.model.folder import read_shape
from tests.inference.planning.model import known_models as known


def write_weights(file: Path, **tensors: tuple[str, int]) -> None:
    """Only the header, which is all that is read. tensors: name -> (dtype, bytes)."""
    described: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, size) in tensors.items():
        described[name] = {"dtype": dtype, "shape": [size], "data_offsets": [offset, offset + size]}
        offset += size
    header = json.dumps(described).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(known.SMOLLM2_135M))
    return tmp_path


def test_bytes_are_counted_from_the_headers_of_all_shards(folder: Path) -> None:
    write_weights(folder / "a.safetensors", q=("BF16", 200), k=("F32", 40))
    write_weights(folder / "b.safetensors", v=("BF16", 100))
    write_weights(folder / "consolidated.safetensors", q=("BF16", 300))  # the same once more, which is not loaded
    index = {"metadata": {"total_size": 1}, "weight_map": {"q": "a.safetensors", "v": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    shape = read_shape(folder)
    assert shape is not None
    assert (shape.weights_bytes, shape.parameters) == ({"BF16": 300, "F32": 40}, 160)


def test_one_file_needs_no_index(folder: Path) -> None:
    write_weights(folder / "model.safetensors", q=("F32", 400))
    write_weights(folder / "other.safetensors", q=("F32", 400))

    shape = read_shape(folder)
    assert shape is not None
    assert shape.weights_bytes == {"F32": 400}


def test_without_weights_the_configuration_tells_what_it_can(folder: Path) -> None:
    shape = read_shape(folder)
    assert shape is not None
    assert (shape.weights_bytes, shape.parameters) == (None, 134_515_008)


@pytest.mark.parametrize("damage", [b"", b"\x05", struct.pack("<Q", 2**62), struct.pack("<Q", 4) + b"{[}]"])
def test_damaged_weights_are_unknown(folder: Path, damage: bytes) -> None:
    (folder / "model.safetensors").write_bytes(damage)

    shape = read_shape(folder)
    assert shape is not None
    assert shape.weights_bytes is None


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", ""])
def test_an_index_leads_nowhere_else(folder: Path, name: str) -> None:
    write_weights(folder.parent / "secret.safetensors", q=("F32", 4))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"q": name}}))

    shape = read_shape(folder)
    assert shape is not None
    assert shape.weights_bytes is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"num_hidden_layers": "x"}', "\0"])
def test_a_folder_without_a_readable_configuration_has_no_shape(tmp_path: Path, content: str) -> None:
    assert read_shape(tmp_path) is None
    (tmp_path / "config.json").write_text(content)
    assert read_shape(tmp_path) is None


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")

    assert read_shape(tmp_path) is None


def test_a_path_that_no_file_system_can_have_is_nothing() -> None:
    assert read_shape(Path("/a\0b")) is None
