"""The kinds of engines, and what each can do beyond serving: read by the control plane, which plans with it, and by the
agents, which do it."""

from __future__ import annotations

from dataclasses import dataclass

NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """switches_role: a running process changes its role (prefill, decode, unified) with its weights loaded; without it
    a flip is a warm restart on the same devices. tensor_parallel: one worker may use several devices. embeddings: its
    workers make embeddings of texts."""

    switches_role: bool = False
    tensor_parallel: bool = False
    embeddings: bool = False


#: Engines that a deployment can name.
ENGINES = {NATIVE: Capabilities(switches_role=True)}
