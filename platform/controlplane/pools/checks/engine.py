"""Whether an engine exists and can do what is asked of it. Pure."""

from __future__ import annotations

from controlplane.core.errors import Invalid
from inference.contracts.engines import ENGINES, Capabilities


def capabilities(engine: str) -> Capabilities:
    """
    Raises:
        Invalid: nobody knows such an engine.
    """
    known = ENGINES.get(engine)
    if known is None:
        raise Invalid(f"There is no engine {engine!r}; known are {', '.join(ENGINES)}.", field="engine")
    return known


def tensor_parallel_check(engine: str, devices: int) -> None:
    """
    Raises:
        Invalid: a worker of this engine can't have so many devices.
    """
    if devices < 1:
        raise Invalid(f"A worker has at least 1 device, not {devices}.", field="tensor_parallel")
    if devices > 1 and not capabilities(engine).tensor_parallel:
        raise Invalid(
            f"The {engine} engine runs each worker on 1 device, not {devices}: it does no tensor parallelism.",
            code="not_supported",
            field="tensor_parallel",
        )
