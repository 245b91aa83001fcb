from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest
import torch
from huggingface_hub.errors import RevisionNotFoundError
from safetensors.torch import load_file, save_file

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.loader import load
from inference.testing.tiny_model import END_ID, write_tiny_model

CPU = torch.device("cpu")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "model")


def refusal(path: Path | str, dtype: str = "auto") -> str:
    with pytest.raises(TandemError) as caught:
        load(str(path), dtype, CPU)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    return caught.value.message


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_model_directory_is_loaded_whole(directory: Path) -> None:
    loaded = load(str(directory), "auto", CPU)
    assert loaded.dtype is torch.float32
    assert loaded.model.dtype is torch.float32
    assert not loaded.model.training
    assert loaded.eos_ids == {END_ID}
    assert loaded.context_length == 1024


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_dtype_is_taken_from_the_settings(directory: Path, dtype: str) -> None:
    assert load(str(directory), dtype, CPU).model.dtype is getattr(torch, dtype)


def test_an_unknown_dtype_is_refused_with_the_choices(directory: Path) -> None:
    assert "'int3' is not one of auto, float32" in refusal(directory, "int3")


def test_an_unknown_path_is_refused() -> None:
    assert refusal("/no/such/model") == "/no/such/model is no model: there is no such directory"


def test_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    assert refusal(path) == f"{path} is no model: it is a file, not a directory"


def test_a_directory_without_a_configuration_is_refused(tmp_path: Path) -> None:
    assert "it has no config.json" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "nonsense"}', "{}"])
def test_a_broken_configuration_is_refused(directory: Path, text: str) -> None:
    (directory / "config.json").write_text(text)
    assert "its config.json can't be read" in refusal(directory)


def test_a_model_that_writes_no_text_is_refused(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "vit"}')
    assert "vit is no causal language model" in refusal(directory)


def test_missing_weights_are_refused(directory: Path) -> None:
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    assert "no .safetensors file" in refusal(directory)


def test_cut_weights_are_refused(directory: Path) -> None:
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "its weights can't be read" in refusal(directory)


def test_lacking_parameters_are_refused_rather_than_drawn_at_random(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    assert "lack 1 parameters, such as model.layers.2.mlp.up_proj.weight" in refusal(directory)


def test_weights_of_another_shape_are_refused(directory: Path) -> None:
    edit(directory / "config.json", intermediate_size=96)
    assert "12 of its weights do not fit its config.json, such as model.layers.0.mlp" in refusal(directory)


def test_a_missing_tokenizer_is_refused(directory: Path) -> None:
    (directory / "tokenizer.json").unlink()
    (directory / "tokenizer_config.json").unlink()
    assert "its tokenizer can't be read" in refusal(directory)


def test_an_answer_may_end_in_any_of_several_ways(directory: Path) -> None:
    edit(directory / "generation_config.json", eos_token_id=[3, 4])
    edit(directory / "config.json", eos_token_id=5)
    assert load(str(directory), "auto", CPU).eos_ids == {3, 4, 5, END_ID}


def test_the_end_of_a_turn_ends_an_answer_though_no_configuration_names_it(directory: Path) -> None:
    edit(directory / "generation_config.json", eos_token_id=3)
    edit(directory / "config.json", eos_token_id=3)
    edit(directory / "tokenizer_config.json", eos_token="<|pad|>")
    assert load(str(directory), "auto", CPU).eos_ids == {3, END_ID, END_ID + 1}


def test_an_unreachable_hub_is_no_final_verdict(monkeypatch) -> None:
    def offline(*_args: object, **_kwargs: object) -> None:
        raise OSError("name resolution failed")

    monkeypatch.setattr("inference.engine.loader.snapshot_download", offline)
    with pytest.raises(ConnectionError, match="org/model is no directory here"):
        load("org/model", "auto", CPU)


@pytest.mark.parametrize(("revision", "asked"), [("", None), ("v2", "v2")])
def test_the_revision_that_was_asked_for_is_fetched(
    directory: Path, monkeypatch: pytest.MonkeyPatch, revision: str, asked: str | None
) -> None:
    seen: list[object] = []

    def download(model: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        seen.append((model, revision))
        return str(directory)

    monkeypatch.setattr("inference.engine.loader.snapshot_download", download)
    load("org/model", "auto", CPU, revision)
    assert seen == [("org/model", asked)]


def test_a_revision_that_the_hub_does_not_have_is_a_final_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_args: object, **_kwargs: object) -> None:
        answer = httpx2.Response(404, request=httpx2.Request("GET", "https://hub.example/org/model"))
        raise RevisionNotFoundError("no such revision", response=answer)

    monkeypatch.setattr("inference.engine.loader.snapshot_download", without)
    with pytest.raises(TandemError, match="the hub has no revision 'v9' of it"):
        load("org/model", "auto", CPU, "v9")
