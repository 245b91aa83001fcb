"""Whether a node takes a spec that arrived."""

from __future__ import annotations

import re

from inference.contracts.specs import NodeSpec

#: Worker ids name files, so they may not contain anything that a path gives a meaning.
_WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class SpecRefused(ValueError):
    """The spec is not for this node or contradicts itself; the text says where."""


def is_worker_id(text: str) -> bool:
    """Whether `text` may name a worker, and with it files."""
    return _WORKER_ID.fullmatch(text) is not None


def accepts(spec: NodeSpec, node_id: str, current_generation: int) -> bool:
    """Whether `spec` is newer than what the node has. An older or equal generation is ignored without complaint:
    messages may arrive twice and out of order.

    Raises:
        SpecRefused: another node's spec, a worker id that can't name a file, or one listed twice.
    """
    if spec.node_id != node_id:
        raise SpecRefused(f"the spec is for node {spec.node_id!r}, this is {node_id!r}")
    seen: set[str] = set()
    for worker in spec.workers:
        if not is_worker_id(worker.worker_id):
            raise SpecRefused(f"worker id {worker.worker_id!r} is not made of letters, digits, '.', '_' and '-'")
        if worker.worker_id in seen:
            raise SpecRefused(f"worker {worker.worker_id!r} is listed twice in generation {spec.generation}")
        seen.add(worker.worker_id)
    return spec.generation > current_generation
