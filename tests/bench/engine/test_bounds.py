from __future__ import annotations

import torch
from safetensors.torch import save_file

from tests.bench.engine.bounds import count_weights


def test_a_tied_embedding_is_read_whole_once(tmp_path) -> None:
    save_file(
        {"model.embed_tokens.weight": torch.zeros(10, 4), "layer.weight": torch.zeros(4, 4)}, tmp_path / "a.safetensors"
    )
    assert count_weights(tmp_path) == 56


def test_of_an_untied_embedding_only_rows_are_read(tmp_path) -> None:
    save_file({"model.embed_tokens.weight": torch.zeros(10, 4)}, tmp_path / "a.safetensors")
    save_file({"lm_head.weight": torch.zeros(10, 4), "norm": torch.zeros(4)}, tmp_path / "b.safetensors")
    assert count_weights(tmp_path) == 44
