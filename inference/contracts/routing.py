"""What the router reads: where each model is served, and which keys may call."""

from __future__ import annotations

import msgspec

from inference.contracts.abilities import Abilities
from inference.contracts.reports import Address
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.states import PriorityClass, Role


class WorkerRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One worker that takes requests. Two workers may hand KV over only when their fingerprints are equal.

    in_sight: its node reports that it is ready. False: its node is silent, and this is how the worker was last seen. It
    may serve still, since the control plane need not reach what the router reaches: a last resort.
    """

    worker_id: str
    incarnation: str
    pool_id: str
    node_id: str
    role: Role
    http: Address
    transfer: Address | None
    fingerprint: str
    kv_blocks_total: int | None = None
    revision: int = 1
    in_sight: bool = True


class DeploymentRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One served model.

    model_name: what clients put into "model", and what its workers answer to. The control plane gives the
    deployment's own name, so that two deployments of one model can be told apart.
    local_prefill_tokens: prompts with at most this many uncached tokens are read by the decode worker itself, unless
    `policy` says otherwise. itl_target_s: the promised time between tokens; None: nothing is promised.
    default_max_tokens: answer limit when the client names none. embeddings: its workers make embeddings too.
    abilities: what each of its workers can do, as far as it is known.
    """

    name: str
    model_name: str
    created: int
    context_length: int | None
    local_prefill_tokens: int
    default_max_tokens: int
    workers: tuple[WorkerRoute, ...]
    itl_target_s: float | None = None
    policy: RoutingPolicy = RoutingPolicy()
    embeddings: bool = False
    abilities: Abilities = Abilities()


class RoutingTable(msgspec.Struct, frozen=True, kw_only=True):
    """All served models. `version` only grows; a router ignores an older table."""

    version: int
    deployments: tuple[DeploymentRoute, ...]


class ServingKeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One serving key. digest: SHA-256 of the key in hex (keys are 256-bit random, so no salt is needed).

    expires_at: unix seconds; None never expires. models: names it may call; empty means all.
    priority_class: whose requests go first. requests_per_minute, tokens_per_minute (of prompts and answers),
    max_concurrent: None is no limit. A rejected request uses up none of them.
    """

    key_id: str
    digest: str
    expires_at: float | None = None
    models: tuple[str, ...] = ()
    priority_class: PriorityClass = PriorityClass.STANDARD
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None


class KeyTable(msgspec.Struct, frozen=True, kw_only=True):
    """All serving keys that are not revoked."""

    version: int
    keys: tuple[ServingKeyEntry, ...]
