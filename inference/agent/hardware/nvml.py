"""NVIDIA's management library as the agent asks it: a figure that a card does not give is None, never zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

log = structlog.get_logger()


def load_nvml() -> Any | None:
    """The initialised NVML binding; None without library or driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.info("no GPU is offered", reason=str(error))
        return None
    return pynvml


def figure(nvml: Any, read: Callable[[], T]) -> T | None:
    """What `read` gives; None for what this card or driver does not tell.

    Raises:
        NVMLError: the GPU itself is gone or must be reset.
    """
    try:
        return read()
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            raise
        return None


def text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
