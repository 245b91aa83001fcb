"""GGUF file -> Hugging Face directory of safetensors, de-quantised to float32.

transformers reads GGUF but takes many seconds for it at every start and refuses to save a model that it loaded
that way. So a GGUF file is converted once: its weights are put into a fresh model of the same configuration, which
saves.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint


def convert_gguf(gguf: Path, out: Path) -> None:
    """Write model, configurations and tokenizer (with its chat template) of the file `gguf` to directory `out`.

    Raises:
        ValueError: the file lacks weights that its architecture needs, or the architecture is unknown.
    """
    config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
    config.__dict__.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    weights = load_gguf_checkpoint(str(gguf), return_tensors=True, model_to_load=model)["tensors"]
    tied = model.all_tied_weights_keys
    absent = [name for name in model.load_state_dict(weights, strict=False).missing_keys if name not in tied]
    if absent:
        raise ValueError(f"{gguf} lacks weights of its model: {', '.join(absent)}")
    model.tie_weights()
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(out)
