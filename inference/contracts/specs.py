"""Desired state, as the control plane sends it to a node: whole specs, never commands."""

from __future__ import annotations

import msgspec

from inference.contracts.states import Role, WorkerDesired


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one native engine is to run.

    dtype: "auto" (float32 on CPU, bfloat16 on GPU), "float32", "bfloat16" or "float16".
    max_model_len: longest prompt + answer in tokens; None takes the model's own context length.
    kv_tokens: size of the KV arena in tokens, rounded down to whole blocks.
    block_size: tokens per KV block.
    prefill_chunk_tokens: most prompt tokens computed in one step; 0 computes prompts whole.
    max_running: most requests in one decode batch.
    threads: torch CPU threads; 0 takes the cores of the worker's devices.
    """

    dtype: str = "auto"
    max_model_len: int | None = None
    kv_tokens: int = 16384
    block_size: int = 16
    prefill_chunk_tokens: int = 256
    max_running: int = 32
    threads: int = 0


class DeviceAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """One device given to a worker.

    device_id: the node-local id from the device report ("gpu-<uuid>", "cpu-0").
    index: CUDA index for a GPU; slot number for a CPU slot.
    cores: processor cores to pin to; empty for no pinning.
    """

    device_id: str
    kind: str
    index: int
    cores: tuple[int, ...] = ()


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One worker that a node shall run.

    incarnation: names this particular start of the worker; a changed incarnation means "replace the process".
    model_path: a local directory, or a hub id, of a Hugging Face causal LM.
    model_name: the name that clients use.
    restart: counts operator retries; a raised number clears back-off and the failed state.
    drain_deadline_s: seconds a drain may take before it turns into a stop.
    """

    worker_id: str
    incarnation: str
    deployment: str
    pool_id: str
    role: Role
    desired: WorkerDesired
    model_path: str
    model_name: str
    devices: tuple[DeviceAssignment, ...]
    engine: str = "native"
    settings: EngineSettings = EngineSettings()
    restart: int = 0
    drain_deadline_s: float = 300.0


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one node shall run. A worker that is not listed shall not run. Older generations are ignored."""

    node_id: str
    generation: int
    workers: tuple[WorkerSpec, ...]
