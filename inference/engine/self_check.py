"""Proof at start that the engine computes what the model means: its logits against the model's own attention.

Two prompts go through the engine's path in one step and, one by one, through the model as transformers runs it. An
architecture with a twist that no gate knows fails here, instead of answering nonsense.

The prompts are far shorter than windows are. So what windows the model's own masks have is seen as they are made, and
has to be what its attention is told of, which is all that the engine goes by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from inference.engine.attention.seam import ATTENTION, AttentionBackend
from inference.engine.block_manager import Extent
from inference.engine.gate import refuse
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.model_runner import ModelRunner, Piece
from inference.engine.reservations import SlotMap

_LENGTHS = (9, 5)

#: Largest relative error of logits (2-norm). Rounding alone stays far below; a skipped term is far above.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.15}


@dataclass(frozen=True, slots=True)
class Reference:
    """What a model computes as transformers runs it. logits: [prompts, vocabulary], after each prompt. windows: that
    its masks have, in tokens."""

    logits: torch.Tensor
    windows: frozenset[int]


def reference_of(model: Any, device: torch.device) -> Reference:
    """To be computed before anything of `model` is replaced. Use within inference mode."""
    masked: set[int] = set()
    with _windows_noted(masked):
        logits = torch.stack([_logits(model, prompt, device) for prompt in _prompts(model)])
    return Reference(logits, frozenset(masked))


def check_against_reference(
    model: Any,
    reference: Reference,
    geometry: KVGeometry,
    device: torch.device,
    attention: AttentionBackend,
    block_size: int,
) -> None:
    """Compute what `reference` holds by the engine's path. Use within inference mode.

    Raises:
        TandemError(INVALID_REQUEST): they differ by more than rounding, or would after more tokens.
    """
    prompts = _prompts(model)
    blocks = -(-max(_LENGTHS) // block_size)
    slots = len(prompts) * blocks * block_size
    cache = KVCache(geometry, slots, model.dtype, device, token_major=attention.token_major)
    maps = [SlotMap((Extent(i * blocks, blocks),), block_size) for i in range(len(prompts))]
    # In two steps, so that the second attends to what the first left in the cache.
    runner = ModelRunner(model, device, attention)
    runner.run(cache, [Piece(m, prompt[:-2], 0, False) for m, prompt in zip(maps, prompts, strict=True)])
    ours = runner.run(cache, [Piece(m, p[-2:], len(p) - 2, True) for m, p in zip(maps, prompts, strict=True)])
    for mine, expected in zip(ours, reference.logits, strict=True):
        error = _relative_error(mine, expected)
        if not error <= _TOLERANCE[model.dtype]:
            raise refuse(f"its logits differ from those of its own attention by {error:.1%}")
    told = {window for window in geometry.windows if window is not None}
    _check_windows(model.config, told, set(reference.windows))


def _prompts(model: Any) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(model.config.vocab_size, (n,), generator=generator).tolist() for n in _LENGTHS]


def _check_windows(config: Any, told: set[int], masked: set[int]) -> None:
    """Windows as long as the model's context hide nothing."""
    longest = getattr(config, "max_position_embeddings", None)
    wrong = {window for window in told ^ masked if longest is None or window < longest}
    if wrong:
        sizes = ", ".join(str(window) for window in sorted(wrong))
        where = "masks but not its attention has" if wrong & masked else "attention but not its masks has"
        raise refuse(f"its {where} a window of {sizes} tokens")


@contextmanager
def _windows_noted(found: set[int]) -> Iterator[None]:
    """Models that attend eagerly within the context leave the windows of their masks in `found`."""
    plain = ALL_MASK_ATTENTION_FUNCTIONS["eager"]

    def noted(*arguments: Any, local_size: int | None = None, **more: Any) -> Any:
        if local_size:  # some configurations say 0 for none
            found.add(local_size)
        return plain(*arguments, local_size=local_size, **more)

    ALL_MASK_ATTENTION_FUNCTIONS["eager"] = noted
    try:
        yield
    finally:
        del ALL_MASK_ATTENTION_FUNCTIONS["eager"]


def _logits(model: Any, prompt: list[int], device: torch.device) -> torch.Tensor:
    model.set_attn_implementation("eager")
    try:
        logits: torch.Tensor = model(input_ids=torch.tensor([prompt], device=device), use_cache=False).logits
        return logits[0, -1]
    finally:
        model.set_attn_implementation(ATTENTION)


def _relative_error(ours: torch.Tensor, reference: torch.Tensor) -> float:
    return float((ours.float() - reference.float()).norm() / reference.float().norm())
