"""The `tandem` command against a control plane under uvicorn, whose nodes live in the test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from controlplane.access import tokens
from controlplane.core.principal import SYSTEM
from inference.cli import waiting
from inference.cli.main import app
from inference.contracts.states import UserRole
from tests.control.conftest import Clock, Outbox
from tests.control.console.server import serving
from tests.control.pools.world import World

#: More than anything takes.
_TURNS = 60


@dataclass
class Tandem:
    """Runs commands. secret: its token, which nothing that it says may hold."""

    url: str
    secret: str
    now: Clock
    said: list[str] = field(default_factory=list)

    def __call__(self, command: str, *, stdin: str | None = None, **environment: str) -> Result:
        self.now.advance(1)  # so that the latest of something is one
        env = {"TANDEM_URL": self.url, "TANDEM_TOKEN": self.secret, "COLUMNS": "200"} | environment
        told = CliRunner().invoke(app, _words(command), input=stdin, env=env)
        if told.exception is not None and not isinstance(told.exception, SystemExit):
            raise told.exception
        self.said.append(told.output)
        return told

    def ok(self, command: str, **more: Any) -> str:
        """What a command prints that must succeed."""
        told = self(command, **more)
        assert told.exit_code == 0, told.output
        return str(told.stdout)

    def json(self, command: str, **more: Any) -> Any:
        return msgspec.json.decode(self.ok(f"{command} --json", **more))

    def refused(self, command: str, code: int, **more: Any) -> str:
        """What a command says on stderr that must fail with `code`, and nothing elsewhere."""
        told = self(command, **more)
        assert (told.exit_code, told.stdout) == (code, ""), told.output
        return str(told.stderr)


def _words(command: str) -> list[str]:
    """By spaces; what is between apostrophes is one."""
    return [quoted or word for quoted, word in re.findall(r"'([^']*)'|(\S+)", command)]


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[str]:
    with serving() as url:
        yield url


def token(role: UserRole = UserRole.ADMIN, name: str = "cli", **more: Any) -> str:
    return tokens.token_create(by=SYSTEM, owner=None, name=name, role=role, **more).raw


@pytest.fixture
def world(transactional_db: None, now: Clock, outbox: Outbox) -> World:
    """With real commits: the server has threads of its own."""
    return World(now, outbox, None)


@pytest.fixture
def tandem(world: World, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tandem]:
    """An admin's program. Between two looks of a command that waits, nodes do what they were told."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    turns = iter(range(_TURNS))

    def pause(_: float) -> None:
        assert next(turns, None) is not None, "what is waited for does not end"
        turn(world)

    monkeypatch.setattr(waiting, "sleep_for", pause)
    runs = Tandem(server, token(), world.now)
    yield runs
    assert not any(runs.secret in said for said in runs.said)


def turn(world: World) -> None:
    """Whatever was sent arrives, whatever starts is up, whatever drains is empty; and one sweep."""
    world.settle()
    world.come_up()
    world.finish_drains()
    world.sweep()


@pytest.fixture
def chat(world: World) -> World:
    """One deployment "m", 1 prefill and 2 decode workers ready on nodes "a" and "b" of four slots each."""
    world.node("a")
    world.node("b")
    world.deploy(prefill=1, decode=2)
    world.come_up()
    return world
