"""Writes tiny random-weight models as ordinary model directories, in milliseconds and without any download.

Weights are drawn with a large spread (`initializer_range` 0.15): with the usual 0.02 a random model tends to repeat
one token for ever, which hides faults. Tokens are single bytes plus the three ChatML markers, so a random answer is
full of broken and split UTF-8, as a hard test of detokenising.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
BYTES = 256
END_ID = BYTES + 1
VOCAB_SIZE = BYTES + 3

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

#: What each family adds to the common shape: 4 layers, 4 query and 2 KV heads of size 16.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 32},
    "qwen2": {"vocab_size": VOCAB_SIZE + 1},  # the tokenizer of this family adds a token
    "qwen3": {"use_sliding_window": False},
    "gemma3_text": {
        "sliding_window": 24,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        "query_pre_attn_scalar": 16,
        "tie_word_embeddings": False,  # with its scaled embeddings, tied ones repeat the last token
    },
    "phi3": {},
    "olmo": {"clip_qkv": 2.0},
    "olmo2": {},
    "granite": {"attention_multiplier": 0.25, "residual_multiplier": 0.5, "embedding_multiplier": 2.0},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
}


def write_tiny_model(
    directory: Path, *, family: str = "llama", seed: int = 0, context_length: int = 1024, **overrides: Any
) -> Path:
    """Make `directory` a model of `family` (a key of `FAMILIES`) and return it.

    seed: two seeds give two models with different fingerprints. overrides: further fields of the configuration.
    """
    fields = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": context_length,
        "initializer_range": 0.15,
        "bos_token_id": BYTES,
        "eos_token_id": END_ID,
        "pad_token_id": BYTES + 2,
    }
    config = CONFIG_MAPPING[family](**(fields | FAMILIES[family] | overrides))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.generation_config = GenerationConfig(eos_token_id=END_ID, pad_token_id=BYTES + 2)
    model.save_pretrained(directory)
    byte_tokenizer().save_pretrained(directory)
    return directory


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Tokens are single bytes and the three markers of ChatML."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (START, END, PAD)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
