"""Names instead of ids: what people call something -> the view of it.

Pools and workers are "deployment/role" and "deployment/worker", devices "node/device". Ids, and their beginnings where
only one begins so, do as well.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from inference.cli.client import Answer, Client, segment
from inference.cli.errors import BadValue, NotThere
from inference.contracts.states import NodeDesired, Role
from inference.contracts.views.access import KeyView, TokenView
from inference.contracts.views.fleet import DeviceView, NodeView
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, PoolView, WorkerView

T = TypeVar("T")

_LEAST_OF_AN_ID = 4
_NAMED_AT_MOST = 5
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def deployments(client: Client) -> Answer[tuple[DeploymentView, ...]]:
    return client.items("/deployments", DeploymentView)


def nodes(client: Client) -> Answer[tuple[NodeView, ...]]:
    return client.items("/nodes", NodeView)


def deployment(client: Client, name: str) -> Answer[DeploymentView]:
    return client.get(f"/deployments/{segment(name)}", DeploymentView)


def pool(client: Client, name: str) -> PoolView:
    """name: "chat/decode"; "chat" where it has one pool only."""
    of, slash, role = name.partition("/")
    pools = deployment(client, of).view.pools
    if not slash and len(pools) == 1:
        return pools[0]
    if not slash:
        raise BadValue(f"Which pool of {of}: {' or '.join(pool_name(each) for each in pools)}?")
    return _one("pool", role, pools, lambda each: each.role)


def pool_of(client: Client, name: str, role: Role) -> PoolView:
    return pool(client, f"{name}/{role}")


def pool_name(pool: PoolView) -> str:
    return f"{pool.deployment}/{pool.role}"


def workers(client: Client) -> list[tuple[str, WorkerView]]:
    """Every worker with the name of its deployment."""
    return [(each.name, worker) for each in deployments(client).view for pool in each.pools for worker in pool.workers]


def worker(client: Client, name: str) -> WorkerView:
    """name: "chat/decode-1"; "decode-1" where only one deployment has such a worker."""
    of, slash, short = name.rpartition("/")
    if slash:
        found = [(of, worker) for pool in deployment(client, of).view.pools for worker in pool.workers]
        return _one("worker", short, found, lambda each: each[1].name, lambda each: each[1].id, worker_name)[1]
    return _one("worker", name, workers(client), lambda each: each[1].name, lambda each: each[1].id, worker_name)[1]


def worker_name(each: tuple[str, WorkerView]) -> str:
    return f"{each[0]}/{each[1].name}"


def node(client: Client, name: str) -> NodeView:
    """Of nodes that bear the same name, the one that is not retired."""
    if _UUID.fullmatch(name):
        return client.get(f"/nodes/{name}", NodeView).view
    named = client.items("/nodes", NodeView, name=name).view
    current = [each for each in named if each.desired != NodeDesired.RETIRED]
    candidates = current or named or nodes(client).view
    return _one("node", name, candidates, lambda each: each.name, lambda each: each.id)


def device(client: Client, name: str) -> tuple[NodeView, DeviceView]:
    """name: "node-1/gpu-0"."""
    of, slash, short = name.partition("/")
    if not slash:
        raise BadValue(f"A device is named by its node and its id there, like node-1/gpu-0, not {name!r}.")
    holder = node(client, of)
    found = _one("device", short, holder.devices, lambda each: each.device_id, lambda each: each.device_id)
    return holder, found


def operation(client: Client, wanted: str) -> Answer[OperationView]:
    """By id or its beginning; "latest" is the newest that one may see."""
    if _UUID.fullmatch(wanted):
        return client.get(f"/operations/{wanted}", OperationView)
    newest = client.items("/operations", OperationView, at_most=1 if wanted == "latest" else 500).view
    if wanted == "latest" and newest:
        found = newest[0]
    else:
        found = _one("operation", wanted, newest, lambda each: each.id, lambda each: each.id)
    return client.get(f"/operations/{found.id}", OperationView)


def key(client: Client, wanted: str) -> KeyView:
    """Of keys of the same name, the one that is not revoked."""
    found = client.items("/keys", KeyView).view
    return _one("serving key", wanted, _unrevoked(found), lambda each: each.name, lambda each: each.id)


def token(client: Client, wanted: str) -> TokenView:
    found = client.items("/tokens", TokenView).view
    return _one("token", wanted, _unrevoked(found), lambda each: each.name, lambda each: each.id)


_Revocable = TypeVar("_Revocable", KeyView, TokenView)


def _unrevoked(found: Sequence[_Revocable]) -> list[_Revocable]:
    return [each for each in found if each.revoked_at is None]


def _one(
    kind: str,
    wanted: str,
    found: Sequence[T],
    name_of: Callable[[T], str],
    id_of: Callable[[T], str] | None = None,
    in_full: Callable[[T], str] | None = None,
) -> T:
    """The one that is called `wanted`. in_full: how to name it where the name alone is not enough.

    Raises:
        NotThere: none is.
        BadValue: several are.
    """
    matching = [each for each in found if name_of(each) == wanted]
    if not matching and id_of is not None:
        matching = [each for each in found if id_of(each) == wanted]
        if not matching and len(wanted) >= _LEAST_OF_AN_ID:
            matching = [each for each in found if id_of(each).startswith(wanted)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        tell_apart = in_full or id_of or name_of
        several = ", ".join(tell_apart(each) for each in matching[:_NAMED_AT_MOST])
        raise BadValue(f"{len(matching)} {kind}s are called {wanted!r}: say which of {several}.")
    near = difflib.get_close_matches(wanted, [name_of(each) for each in found], n=3)
    raise NotThere(f"There is no {kind} {wanted!r}.{f' Did you mean {_either(near)}?' if near else ''}")


def _either(names: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(names))
