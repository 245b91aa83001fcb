"""Whether engine settings can be right, before a worker is started with them."""

from __future__ import annotations

from controlplane.core.errors import Invalid
from inference.contracts.specs import EngineSettings

_DTYPES = ("auto", "float32", "bfloat16", "float16")

#: What fits into every place where such a number is kept.
LARGEST = 2**31 - 1

#: Field -> smallest value.
_LEAST = {
    "max_model_len": 1,
    "kv_tokens": 1,
    "block_size": 1,
    "prefill_chunk_tokens": 0,
    "max_running": 1,
    "threads": 0,
}


def settings_check(settings: EngineSettings) -> None:
    """
    Raises:
        Invalid: a value that no engine can run with; `field` is "settings.<name>".
    """
    if settings.dtype not in _DTYPES:
        raise Invalid(
            f"dtype is one of {', '.join(_DTYPES)}, not {settings.dtype!r}.",
            code="invalid_setting",
            field="settings.dtype",
        )
    for name, least in _LEAST.items():
        value = getattr(settings, name)
        if value is not None and not least <= value <= LARGEST:
            bound = f"at least {least}" if value < least else f"at most {LARGEST}"
            raise Invalid(f"{name} is {bound}, not {value}.", code="invalid_setting", field=f"settings.{name}")
    if settings.kv_tokens < settings.block_size:
        raise Invalid(
            f"kv_tokens holds at least one block of {settings.block_size} tokens; {settings.kv_tokens} does not.",
            code="invalid_setting",
            field="settings.kv_tokens",
        )
