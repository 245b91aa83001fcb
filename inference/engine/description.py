"""What an engine will be: its model, its settings and its limits, as others are told of them."""

from __future__ import annotations

from inference.contracts.abilities import LLGUIDANCE, Abilities
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.specs import EngineSettings
from inference.engine import chat
from inference.engine.fingerprint import digest_files, fingerprint
from inference.engine.interface import EngineInfo
from inference.engine.loader import LoadedModel

_LEAST = {"block_size": 1, "max_running": 1, "prefill_chunk_tokens": 0, "threads": 0}


def check_settings(settings: EngineSettings) -> None:
    """Refuse settings that no model can be run with.

    Raises:
        TandemError(INVALID_REQUEST): names the field.
    """
    for name, least in (_LEAST | {"kv_tokens": settings.block_size}).items():
        value = getattr(settings, name)
        if value < least:
            raise TandemError(ErrorCode.INVALID_REQUEST, f"{name} is {value}; the least is {least}", name)


def describe(model_name: str, loaded: LoadedModel, settings: EngineSettings) -> EngineInfo:
    """What the engine will be.

    Raises:
        TandemError(INVALID_REQUEST): `max_model_len` is more than the model was made for.
    """
    geometry, blocks = loaded.geometry, settings.kv_tokens // settings.block_size
    own = loaded.context_length
    if settings.max_model_len is not None and own is not None and settings.max_model_len > own:
        raise TandemError(
            ErrorCode.INVALID_REQUEST,
            f"max_model_len is {settings.max_model_len}, but the model was made for {own} tokens",
            "max_model_len",
        )
    limits = [blocks * settings.block_size, settings.max_model_len, own]
    dtype_name = str(loaded.dtype).removeprefix("torch.")
    tool_format = chat.tool_format(loaded.tokenizer)
    return EngineInfo(
        model_name=model_name,
        fingerprint=fingerprint(
            loaded.config,
            geometry,
            dtype_name,
            settings.block_size,
            loaded.eos_ids,
            digest_files(loaded.directory),
        ),
        context_length=min(limit for limit in limits if limit is not None),
        vocab_size=loaded.config.vocab_size,
        block_size=settings.block_size,
        kv_blocks_total=blocks,
        kv_bytes_per_token=geometry.bytes_per_token(loaded.dtype),
        layers=geometry.layers,
        windows=geometry.windows,
        kv_dtype=dtype_name,
        tool_format=tool_format,
        abilities=Abilities(
            vocab_size=loaded.config.vocab_size,
            max_answers=settings.max_running,
            chat=bool(loaded.tokenizer.chat_template),
            tools=tool_format is not None,
            schemas=LLGUIDANCE,
        ),
    )
