"""Whether a model fits into the memory of a device, worked out before anything is started. Pure.

    needed = weights / devices + KV arena + allowance

The KV arena is what an engine sets aside when it starts: `kv_tokens` tokens that every layer keeps. The native engine
does so for layers with a window, too. On a CPU it lays out anew the weights of the layers that it multiplies by, so an
embedding that is the output layer as well is there twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.contracts.models import ModelShape
from inference.contracts.states import DeviceKind
from inference.planning.model.kv import kv_bytes_per_token

#: Bytes beside weights and KV: the runtime's own (libraries, contexts), the numbers of a step, what is lost between
#: allocations. Rules of thumb, not measured for each model: on GPUs it is mostly context and workspaces, on CPUs
#: libraries and what they compile (0.6 GB with a small model).
ALLOWANCE = {DeviceKind.GPU: 2 * 10**9, DeviceKind.CPU: 7 * 10**8}

_ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

#: What "auto" means, see `EngineSettings.dtype`.
_AUTO_BYTES = {DeviceKind.GPU: 2, DeviceKind.CPU: 4}


@dataclass(frozen=True, slots=True)
class Load:
    """How the model is to be run. dtype: as in `EngineSettings`. tensor_parallel: devices of one worker."""

    kv_tokens: int
    dtype: str = "auto"
    tensor_parallel: int = 1


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on each device of a worker."""

    weights: int
    kv: int
    allowance: int
    kv_per_token: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.allowance

    def kv_tokens_max(self, memory: int) -> int:
        """The most tokens whose KV has room on a device of so many bytes; 0 where not even the weights have."""
        room = memory - self.weights - self.allowance
        return max(0, room // self.kv_per_token) if self.kv_per_token else 0


def element_bytes(dtype: str, kind: DeviceKind) -> int:
    """Of one number, on a device of this kind."""
    return _ELEMENT_BYTES.get(dtype, _AUTO_BYTES[kind])


def need(shape: ModelShape, load: Load, kind: DeviceKind) -> Need | None:
    """What each device of a worker needs; None where it is not known of this model."""
    size = element_bytes(load.dtype, kind)
    weights = _weights(shape, size, kind)
    if weights is None or shape.kv is None:
        return None
    per_token = kv_bytes_per_token(shape.kv, element_bytes=size, tensor_parallel=load.tensor_parallel)
    return Need(
        weights=-(-weights // load.tensor_parallel),
        kv=per_token * load.kv_tokens,
        allowance=ALLOWANCE[kind],
        kv_per_token=per_token,
    )


def _weights(shape: ModelShape, size: int, kind: DeviceKind) -> int | None:
    """Bytes of all weights as they are loaded: quantised ones as they are stored, others in the type that is computed
    in."""
    if shape.quantization:
        return None if shape.weights_bytes is None else sum(shape.weights_bytes.values())
    if shape.parameters is None:
        return None
    twice = shape.tied_parameters or 0 if kind == DeviceKind.CPU else 0
    return (shape.parameters + twice) * size
