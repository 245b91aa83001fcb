"""Which workers serve a request. Pure functions of the routing table, the load and what was tried.

The answering worker is chosen first, by KV room; then, knowing how much of the prompt it lacks, whether it reads the
prompt itself; only then a prefill worker, by the prompt tokens it has waiting (requests differ in size by a factor of a
hundred, so counting requests misleads).

A worker whose node is silent is a last resort, role by role: the control plane lost sight of it, which is no reason to
refuse a request that it may well serve.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from inference.contracts.generation import ChatPrompt, Prompt, TextPrompt
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import ANSWERING_ROLES, PrefillPath, Role
from inference.router.load import Load, WorkerKey, key_of

_BYTES_PER_TOKEN = 4
_NO_LOAD = Load()


def estimate_tokens(prompt: Prompt) -> int:
    """Rough prompt length for weighing load before a worker has tokenised it."""
    if isinstance(prompt, ChatPrompt):
        return sum(len(message.content.encode()) for message in prompt.messages) // _BYTES_PER_TOKEN + 1
    if isinstance(prompt, TextPrompt):
        return len(prompt.text.encode()) // _BYTES_PER_TOKEN + 1
    return len(prompt.token_ids)


def partners(answering: WorkerRoute, workers: Sequence[WorkerRoute]) -> list[WorkerRoute]:
    """Prefill workers that may hand KV to `answering`: those whose fingerprint is equal (F06)."""
    if answering.role is not Role.DECODE or answering.transfer is None:
        return []
    return [worker for worker in workers if worker.role is Role.PREFILL and worker.fingerprint == answering.fingerprint]


def can_serve(answering: WorkerRoute, workers: Sequence[WorkerRoute]) -> bool:
    """Whether `answering` can serve prompts of every length."""
    return answering.role is Role.UNIFIED or bool(partners(answering, workers))


def servable(deployment: DeploymentRoute) -> bool:
    """Whether one unified worker or one full pair is ready."""
    workers = deployment.workers
    return any(worker.role in ANSWERING_ROLES and can_serve(worker, workers) for worker in workers)


def what_is_missing(deployment: DeploymentRoute) -> str:
    """Why a deployment that is not servable is not."""
    roles = {worker.role for worker in deployment.workers}
    name = repr(deployment.name)
    if not roles & ANSWERING_ROLES:
        return f"No decode worker of {name} is ready."
    if Role.PREFILL not in roles:
        return f"No prefill worker of {name} is ready."
    return f"No pair of {name} is ready: its prefill and decode workers do not match."


def choose_answering(
    workers: Sequence[WorkerRoute],
    loads: Mapping[WorkerKey, Load],
    *,
    suspects: Collection[WorkerKey],
    excluded: Collection[WorkerKey],
    rng: random.Random,
) -> WorkerRoute | None:
    """The decode or unified worker with the most KV room in relation to its size; None when there is none.

    Workers out of sight come last, before them those that lately failed, and before these those without a partner. When
    the size of one in sight is not known, all are compared by the tokens they hold.
    """
    candidates = [worker for worker in workers if worker.role in ANSWERING_ROLES and key_of(worker) not in excluded]
    sizes_known = all(worker.kv_blocks_total for worker in candidates if worker.in_sight)
    seen = [worker for worker in workers if worker.in_sight]

    def order(worker: WorkerRoute) -> tuple[bool, bool, bool, bool, float, int, float]:
        load = loads.get(key_of(worker), _NO_LOAD)
        size = worker.kv_blocks_total if sizes_known and worker.kv_blocks_total else 1
        paired = can_serve(worker, seen)
        pairable = paired or can_serve(worker, workers)
        suspect = key_of(worker) in suspects
        return not worker.in_sight, suspect, not pairable, not paired, load.kv_tokens / size, load.answers, rng.random()

    return min(candidates, key=order, default=None)


def choose_path(answering: WorkerRoute, uncached_tokens: int, local_prefill_tokens: int) -> PrefillPath:
    """LOCAL for unified workers and for prompts of which few tokens are not cached."""
    if answering.role is Role.UNIFIED or uncached_tokens <= local_prefill_tokens:
        return PrefillPath.LOCAL
    return PrefillPath.HANDOFF


def choose_prefill(
    answering: WorkerRoute,
    workers: Sequence[WorkerRoute],
    loads: Mapping[WorkerKey, Load],
    *,
    suspects: Collection[WorkerKey],
    excluded: Collection[WorkerKey],
    rng: random.Random,
) -> WorkerRoute | None:
    """The partner of `answering` with the fewest prompt tokens waiting; None when there is none. Workers out of sight
    come last, and before them those that lately failed."""

    def order(worker: WorkerRoute) -> tuple[bool, bool, int, float]:
        load = loads.get(key_of(worker), _NO_LOAD)
        return not worker.in_sight, key_of(worker) in suspects, load.backlog_tokens, rng.random()

    candidates = [worker for worker in partners(answering, workers) if key_of(worker) not in excluded]
    return min(candidates, key=order, default=None)
