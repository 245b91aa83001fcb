"""What each kind of engine can do beyond serving. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.errors import Invalid

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """switches_role: changes between prefill and decode with its weights loaded; without it a flip is a warm restart on
    the same devices. tensor_parallel: one worker may use several devices."""

    switches_role: bool
    tensor_parallel: bool


#: Engines that a deployment can name.
ENGINES = {NATIVE: Capabilities(switches_role=True, tensor_parallel=False)}


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
