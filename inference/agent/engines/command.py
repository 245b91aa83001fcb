"""How an engine is run: what builds its command line, and what its running processes can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inference.agent.hosts import Hosts
from inference.contracts.engines import Capabilities
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


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of engine. command: builds the command line of a process, whose arguments are single words for the
    kernel, never text for a shell."""

    command: CommandBuilder
    capabilities: Capabilities = field(default_factory=Capabilities)


class UnknownEngine(ValueError):
    """A spec names an engine that this agent cannot launch; the text lists those it can."""


class EngineRegistry:
    """The engines an agent can launch, given to it by whoever starts it."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = dict(engines)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._engines)

    def engine(self, name: str) -> Engine:
        """Raises `UnknownEngine` when no such engine is registered."""
        engine = self._engines.get(name)
        if engine is None:
            known = ", ".join(sorted(self._engines)) or "none"
            raise UnknownEngine(f"engine {name!r} is not known to this agent (known: {known})")
        return engine

    def command(self, request: LaunchRequest) -> Command:
        """Raises `UnknownEngine` when the spec's engine is not registered."""
        return self.engine(request.spec.engine).command(request)
