"""Desired state, as the control plane sends it to a node: whole specs, never commands."""

from __future__ import annotations

import msgspec

from inference.contracts.states import KVTransport, LogRun, Role, WorkerDesired


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one native engine is to run.

    dtype: "auto" (bfloat16 on GPU; float32 on CPU, but for processors on which bfloat16 is far faster), "float32",
    "bfloat16" or "float16".
    max_model_len: longest prompt + answer in tokens; None takes the model's own context length.
    kv_tokens: size of the KV arena in tokens, rounded down to whole blocks.
    block_size: tokens per KV block.
    prefill_chunk_tokens: most prompt tokens computed in one step; 0 computes prompts whole.
    max_running: most requests in one decode batch.
    threads: torch CPU threads; 0 takes as many of the cores of the worker's devices as measurably help.
    prefix_cache: whether requests share the KV of equal beginnings of their prompts.
    itl_target_s: seconds that a step may take while answers run; less of waiting prompts is then read beside them. 0:
    no target.
    kv_transports: how KV may travel, the best first; TCP always may, where none of them can.
    kv_streams: TCP connections that carry the KV of one prompt.
    kv_wire_dtype: "bfloat16" halves the bytes of float32 KV on TCP; answers may then differ from those of one process,
    so it is off ("") unless asked for.
    kv_by_layer: each layer of a chunk leaves once it is computed, not the whole chunk afterwards; on CPUs only.
    """

    dtype: str = "auto"
    max_model_len: int | None = None
    kv_tokens: int = 16384
    block_size: int = 16
    prefill_chunk_tokens: int = 256
    max_running: int = 32
    threads: int = 0
    prefix_cache: bool = True
    itl_target_s: float = 0.0
    kv_transports: tuple[KVTransport, ...] = (KVTransport.SHARED_MEMORY, KVTransport.TCP)
    kv_streams: int = 2
    kv_wire_dtype: str = ""
    kv_by_layer: bool = False


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
    role: a changed role under the same incarnation means "drain, then switch the running process" where the engine can
    do that with its weights loaded, and "replace the process" where it can't.
    revision: number of the deployment's revision (model and settings) that this worker runs.
    model_revision: of a hub id; empty takes the hub's default.
    memory_bytes: least memory that a start needs on its devices together, where the control plane knows it; a node with
    less free puts the start off.
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
    revision: int = 1
    model_revision: str = ""
    memory_bytes: int | None = None


class WeightsSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Weights that a node shall have, before or without a worker that needs them.

    path, revision: as in `WorkerSpec.model_path` and `model_revision`. attempt: raised to have a failed fetch tried
    again.
    """

    path: str
    revision: str = ""
    attempt: int = 0


class LinkSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of the network between two nodes, made with the real transfer code.

    measurement_id: names it in both nodes' specs and reports. listen: this node receives and reports its `address`.
    peer: where the other node listens (its report, never a client, said so); None until that is known.
    size_bytes: how much is sent. deadline_s: the node gives up after this many seconds of its own clock.
    """

    measurement_id: str
    listen: bool
    peer_host: str = ""
    peer_port: int | None = None
    size_bytes: int = 64 * 1024 * 1024
    deadline_s: float = 30.0


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one node shall run. A worker that is not listed shall not run. Older generations are ignored.
    report_interval_s: between reports when nothing changes; None: as the node's welcome said."""

    node_id: str
    generation: int
    workers: tuple[WorkerSpec, ...]
    weights: tuple[WeightsSpec, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    report_interval_s: float | None = None


class LogRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a node for the last `lines` lines of one worker's log; answered by a `LogReply` that is pushed to
    `names.log_reply_key(request_id)`. Travels as `names.TASK_SEND_LOG`, with its authentication code."""

    request_id: str
    worker_id: str
    run: LogRun = LogRun.CURRENT
    lines: int = 200
