"""What values of a specification are accepted. The control plane checks what people ask for, and each node once more
what it is sent, by the same numbers, so that no node refuses an honest specification.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from inference.contracts.specs import EngineSettings

#: What fits into every place where such a number is kept.
LARGEST = 2**31 - 1

#: Seconds for which a join token can be used, where nothing else is asked for.
JOIN_TOKEN_TTL_S = 3600

DTYPES = ("auto", "float32", "bfloat16", "float16")

#: Field of `EngineSettings` -> smallest value.
_LEAST = {
    "max_model_len": 1,
    "kv_tokens": 1,
    "block_size": 1,
    "prefill_chunk_tokens": 0,
    "max_running": 1,
    "threads": 0,
    "kv_streams": 1,
}

#: More connections for one prompt only take turns.
_MOST_STREAMS = 16

#: What KV may be narrowed to on its way; empty: it is not.
WIRE_DTYPES = ("", "bfloat16")


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that can't be used: the field it is in, and one sentence on why."""

    field: str
    message: str


def settings_fault(settings: EngineSettings) -> Fault | None:
    """The first value that no engine can run with; None when all may be right."""
    if settings.dtype not in DTYPES:
        return Fault("dtype", f"dtype is one of {', '.join(DTYPES)}, not {settings.dtype!r}.")
    for name, least in _LEAST.items():
        value = getattr(settings, name)
        if value is not None and not least <= value <= LARGEST:
            bound = f"at least {least}" if value < least else f"at most {LARGEST}"
            return Fault(name, f"{name} is {bound}, not {value}.")
    if not 0 <= settings.itl_target_s < math.inf:
        return Fault("itl_target_s", f"itl_target_s is 0 or more seconds, not {settings.itl_target_s}.")
    if settings.kv_streams > _MOST_STREAMS:
        return Fault("kv_streams", f"kv_streams is at most {_MOST_STREAMS}, not {settings.kv_streams}.")
    if settings.kv_wire_dtype not in WIRE_DTYPES:
        return Fault("kv_wire_dtype", f'kv_wire_dtype is "bfloat16" or empty, not {settings.kv_wire_dtype!r}.')
    if len(set(settings.kv_transports)) < len(settings.kv_transports):
        named = ", ".join(settings.kv_transports)
        return Fault("kv_transports", f"kv_transports names each transport once, not {named[:100]}.")
    if settings.kv_tokens < settings.block_size:
        block, room = settings.block_size, settings.kv_tokens
        return Fault("kv_tokens", f"kv_tokens holds at least one block of {block} tokens; {room} does not.")
    return None
