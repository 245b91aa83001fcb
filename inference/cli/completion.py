"""Names that the shell offers, asked of the control plane: quickly, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from inference.cli import find
from inference.cli.client import Client
from inference.cli.login import login_current
from inference.contracts.states import NodeDesired, Role
from inference.contracts.views.access import KeyView, TokenView, UserView
from inference.contracts.views.models import ModelView
from inference.contracts.views.operations import OperationView

#: Nobody waits longer for a Tab key.
BOUND_S = 1.5
_MOST = 200

Names = Callable[[Client], Iterable[str]]
Completer = Callable[[str], list[str]]


def completer(names: Names) -> Completer:
    """What Typer asks with what was typed so far. Silent about whatever goes wrong: a prompt is no place for it."""

    def complete(incomplete: str) -> list[str]:
        found: list[str] = []

        def ask() -> None:
            try:
                client = Client(login_current(), timeout_s=BOUND_S, attempts=1)
                try:
                    found.extend(sorted(set(names(client))))
                finally:
                    client.close()
            except Exception:  # noqa: S110 - no names, then
                pass

        # A thread: the timeouts of a request are for each of its parts, and there may be several pages.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(BOUND_S)
        return [] if thread.is_alive() else [each for each in found if each.startswith(incomplete)][:_MOST]

    return complete


def _deployments(client: Client) -> Iterable[str]:
    return (each.name for each in find.deployments(client).view)


def _pools(client: Client) -> Iterable[str]:
    return (find.pool_name(pool) for each in find.deployments(client).view for pool in each.pools)


def _workers(client: Client) -> Iterable[str]:
    return (find.worker_name(each) for each in find.workers(client))


def _nodes(client: Client) -> Iterable[str]:
    return (each.name for each in find.nodes(client).view if each.desired != NodeDesired.RETIRED)


def _devices(client: Client) -> Iterable[str]:
    return (f"{node.name}/{device.device_id}" for node in find.nodes(client).view for device in node.devices)


def _models(client: Client) -> Iterable[str]:
    return (each.name for each in client.items("/models", ModelView).view)


def _operations(client: Client) -> Iterable[str]:
    return (each.id for each in client.items("/operations", OperationView, at_most=50).view)


def _keys(client: Client) -> Iterable[str]:
    return (each.name for each in client.items("/keys", KeyView, active=True).view)


def _tokens(client: Client) -> Iterable[str]:
    return (each.name for each in client.items("/tokens", TokenView, active=True).view)


def _users(client: Client) -> Iterable[str]:
    return (each.username for each in client.items("/users", UserView).view)


deployments = completer(_deployments)
pools = completer(_pools)
workers = completer(_workers)
nodes = completer(_nodes)
devices = completer(_devices)
models = completer(_models)
operations = completer(_operations)
keys = completer(_keys)
tokens = completer(_tokens)
users = completer(_users)


def roles(incomplete: str) -> list[str]:
    return [role for role in Role if role.startswith(incomplete)]
