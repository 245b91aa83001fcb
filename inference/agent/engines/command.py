"""How an engine is launched: one builder of a command line per engine name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inference.agent.hosts import Hosts
from inference.contracts.specs import WorkerSpec


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a command is built from.

    spec_file: holds the `WorkerSpec`. announce_file: where the process writes its `ProcessAnnouncement`.
    secret_file: holds the cluster secret. hosts: what to listen on, and what peers dial.
    """

    spec: WorkerSpec
    spec_file: Path
    announce_file: Path
    secret_file: Path
    hosts: Hosts


@dataclass(frozen=True, slots=True)
class Command:
    """env: added to what every worker gets."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


CommandBuilder = Callable[[LaunchRequest], Command]


class UnknownEngine(ValueError):
    """A spec names an engine that this agent cannot launch; the text lists those it can."""


class EngineRegistry:
    """The engines an agent can launch, given to it by whoever starts it."""

    def __init__(self, builders: Mapping[str, CommandBuilder]) -> None:
        self._builders = dict(builders)

    def command(self, request: LaunchRequest) -> Command:
        """Raises `UnknownEngine` when the spec's engine is not registered."""
        name = request.spec.engine
        builder = self._builders.get(name)
        if builder is None:
            known = ", ".join(sorted(self._builders)) or "none"
            raise UnknownEngine(f"engine {name!r} is not known to this agent (known: {known})")
        return builder(request)
