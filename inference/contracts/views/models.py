"""Models of the catalogue, their weights on nodes, and where they fit."""

from __future__ import annotations

import msgspec

from inference.contracts.models import ModelShape
from inference.contracts.states import DeviceKind, FetchState, ModelSource


class WeightsView(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of one model on one node. revision: of a hub id; empty: its default. wanted: the node is to fetch and
    keep them; else it has them from before, or is not done letting go of them."""

    node_id: str
    node_name: str
    model: str
    state: FetchState
    size_bytes: int | None
    fetched_bytes: int | None
    reason: str
    revision: str = ""
    wanted: bool = False


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """path: a directory as nodes see it, a hub id or an address; of an address, without what follows a question mark,
    which may be a credential. revision: of a hub id, where a deployment names none; empty: the hub's default.

    shape: None is not known. shape_from: who told it ("its files here", "node alpha", "ada"). kv_bytes_per_token:
    with 16-bit numbers, of a token that all layers keep; kv_bytes_of_context: of one request of full length, where
    layers with a window forget what is outside of it.
    """

    name: str
    path: str
    description: str
    created_at: str
    source: ModelSource = ModelSource.DIRECTORY
    revision: str = ""
    licence: str = ""
    shape: ModelShape | None = None
    shape_from: str = ""
    kv_bytes_per_token: int | None = None
    kv_bytes_of_context: int | None = None


class DeviceFitView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model fits on one type of device of the fleet.

    count: how many the fleet has. fits: None where the model or the device's memory is not known, and where it needs
    more than its share on a CPU slot: it may have it while others leave theirs. All bytes are those
    of one device. allowance_bytes: for the runtime, a rule of thumb. kv_tokens_max: the most tokens whose KV has room.
    """

    name: str
    kind: DeviceKind
    memory_total: int | None
    count: int
    fits: bool | None
    weights_bytes: int | None
    kv_bytes: int | None
    allowance_bytes: int | None
    needed_bytes: int | None
    kv_tokens_max: int | None


class ModelFitView(msgspec.Struct, frozen=True, kw_only=True):
    """kv_tokens, tensor_parallel, dtype: how it is to be run. devices: by type, GPUs first."""

    model: str
    kv_tokens: int
    tensor_parallel: int
    dtype: str
    devices: tuple[DeviceFitView, ...]
