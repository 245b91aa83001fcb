"""What must hold at every moment, looked at all the time, and what must hold once the faults are over."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import psutil

from inference.contracts import names
from inference.contracts.auth import PURPOSE_METRICS, PURPOSE_WORKER_HTTP, bearer
from inference.contracts.codec import CodecError, decode
from inference.contracts.routing import RoutingTable
from inference.contracts.worker import WorkerStatus
from tests.chaos.api import Away
from tests.chaos.world import DEPLOYMENT, NODES, EngineProcess, World

_LOOK_EVERY_S = 0.7
#: What is told of a hand-off when the worker at its other end is gone.
_OF_PAIRS = ("transfer_failed", "ticket_expired", "ticket_unknown", "deadline_exceeded")


class Watch:
    """Looks at processes and rows in a thread of its own. wrong: what should never have been, once each."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = threading.Event()
        self.wrong: list[str] = []
        self.looks = 0
        self.seen: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            for found in self._look():
                if found not in self.wrong:
                    self.wrong.append(found)
                    print(f"  !! {time.strftime('%H:%M:%S')} {found}", flush=True)

    def _look(self) -> Iterable[str]:
        processes = self._world.engine_processes()
        self.seen.update(each.spec.worker_id for each in processes)
        yield from _doubly_owned(processes)
        try:
            rows = workers_by_id(self._world)
        except (Away, LookupError):
            return
        self.looks += 1
        for process in processes:
            if process.spec.worker_id not in rows and _lives(process):
                yield f"engine {process.spec.worker_id} (pid {process.pid} on {process.node}) belongs to no row"


def _doubly_owned(processes: Iterable[EngineProcess]) -> Iterable[str]:
    owners: dict[tuple[str, str], list[EngineProcess]] = defaultdict(list)
    for process in processes:
        for device in process.spec.devices:
            owners[process.node, device.device_id].append(process)
    for (node, device), holders in owners.items():
        if len(holders) > 1:
            time.sleep(0.2)  # one of them may have been read in the moment of its end
            living = [f"{each.spec.worker_id} (pid {each.pid})" for each in holders if _lives(each)]
            if len(living) > 1:
                yield f"{device} of {node} is held by {' and '.join(living)}"


def _lives(process: EngineProcess) -> bool:
    try:
        found = psutil.Process(process.pid)
        return bool(found.create_time() == process.born and found.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def workers_by_id(world: World) -> dict[str, dict[str, Any]]:
    """Every worker that the control plane knows. Raises as `Api.get`."""
    deployments = world.api.items("/deployments")
    return {worker["id"]: worker for each in deployments for pool in each["pools"] for worker in pool["workers"]}


def converge(world: World, within_s: float, differences: Callable[[World], list[str]]) -> list[str]:
    """Wait until there are no differences; those that are left."""
    deadline = time.monotonic() + within_s
    left = ["nothing was seen"]
    while left and time.monotonic() < deadline:
        try:
            left = differences(world)
        except (Away, LookupError) as error:
            left = [str(error)]
        time.sleep(0.5)
    return left


def open_operations(world: World) -> list[str]:
    found = [*world.api.items("/operations?state=running"), *world.api.items("/operations?state=queued")]
    return [f"operation {each['title']!r} ({each['reason']}) is {each['state']}: {_last_step(each)}" for each in found]


def _last_step(operation: dict[str, Any]) -> str:
    return "; ".join(f"{step['text']} [{step['state']}]" for step in operation["steps"][-3:])


def differences(world: World) -> list[str]:
    """Between what is wanted, what is reported, what is routed to, and what really runs."""
    return [
        *_of_nodes(world),
        *_of_pools(world),
        *_of_processes(world),
        *_of_routing(world),
    ]


def _of_nodes(world: World) -> Iterable[str]:
    for node in world.api.items("/nodes"):
        if node["phase"] != "ready":
            yield f"{node['name']} is {node['phase']}"
        if node["observed_generation"] != node["generation"]:
            yield f"{node['name']} has applied {node['observed_generation']} of generation {node['generation']}"
        missing = [device["device_id"] for device in node["devices"] if device["missing"]]
        if missing:
            yield f"devices of {node['name']} are missing: {missing}"


def _of_pools(world: World) -> Iterable[str]:
    for deployment in world.api.items("/deployments"):
        for pool in deployment["pools"]:
            shown = f"{deployment['name']}/{pool['role']}"
            if not pool["ready"] == pool["replicas"] == len(pool["workers"]):
                workers = [
                    f"{each['name']} {each['desired']}/{each['phase']}: {each['reason']}" for each in pool["workers"]
                ]
                yield f"{shown} wants {pool['replicas']}, {pool['ready']} are ready: {workers} {pool['refusals']}"
            elif pool["refusals"]:
                yield f"{shown} is at its size and refused: {pool['refusals']}"
            for worker in pool["workers"]:
                if worker["revision"] != deployment["revision"]:
                    yield f"{worker['name']} runs revision {worker['revision']}, not {deployment['revision']}"


def _of_processes(world: World) -> Iterable[str]:
    rows = workers_by_id(world)
    running = {process.spec.worker_id: process for process in world.engine_processes()}
    for worker_id in rows.keys() - running.keys():
        yield f"{rows[worker_id]['name']} has no process"
    for worker_id in running.keys() - rows.keys():
        yield f"a process of worker {worker_id} runs on {running[worker_id].node} and has no row"
    held = {
        (node["name"], device["device_id"]): device["worker_id"]
        for node in world.api.items("/nodes")
        for device in node["devices"]
        if device["worker_id"] is not None
    }
    really = {
        (process.node, device.device_id): process.spec.worker_id
        for process in running.values()
        for device in process.spec.devices
    }
    if held != really:
        yield f"devices are given to {held}, and held by {really}"


def _of_routing(world: World) -> Iterable[str]:
    table = routing_table(world)
    if table is None:
        yield "Redis holds no routing table"
        return
    routed = {worker.worker_id: worker.role for each in table.deployments for worker in each.workers}
    ready = {
        worker_id: worker["role"]
        for worker_id, worker in workers_by_id(world).items()
        if (worker["desired"], worker["phase"]) == ("run", "ready")
    }
    if routed != ready:
        yield f"routed to are {routed}, ready are {ready}"


def routing_table(world: World) -> RoutingTable | None:
    import redis

    with redis.Redis.from_url(world.redis.url, socket_timeout=3) as client:
        held = client.get(names.ROUTING_TABLE_KEY)
    try:
        return None if held is None else decode(held, RoutingTable)
    except CodecError:
        return None


def busy_workers(world: World) -> list[str]:
    """Workers that hold anything for requests, by their own word; nobody asks for anything now."""
    table = routing_table(world)
    found = []
    for worker in [worker for each in (table.deployments if table else ()) for worker in each.workers]:
        try:
            status = decode(
                _get(f"http://{worker.http.host}:{worker.http.port}{names.WORKER_STATUS}", world, PURPOSE_WORKER_HTTP),
                WorkerStatus,
            )
        except OSError as error:
            found.append(f"{worker.worker_id} does not answer: {error}")
            continue
        load = status.load
        if load is None or load.running or load.waiting or load.tickets or load.handoffs or load.kv_blocks_used:
            found.append(f"{worker.worker_id} holds {load}")
    return found


def stale_metrics(world: World) -> list[str]:
    """Workers that the router's metrics name although they are gone (F37)."""
    text = _get(f"{world.router_url}/metrics", world, PURPOSE_METRICS).decode()
    living = set(workers_by_id(world))
    named = {line.split('worker="', 1)[1].split('"', 1)[0] for line in text.splitlines() if 'worker="' in line}
    return [f"the router still measures worker {worker_id}" for worker_id in named - living]


def _get(url: str, world: World, purpose: str) -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": bearer(world.cluster_secret, purpose)})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return bytes(answer.read())


def failed_by(world: World) -> dict[str, list[set[str]]]:
    """By request and failure, from the router's log: the worker that failed; and its partner where the hand-off between
    the two did, which either may have broken."""
    blamed: dict[str, list[set[str]]] = defaultdict(list)
    for line in world.log("router").splitlines():
        if '"a worker failed a request"' in line:
            said = json.loads(line)
            partner = {said["partner"]} if said["code"] in _OF_PAIRS else set()
            blamed[said["request_id"]].append({said["worker"]} | partner)
    return blamed


def nodes_in_use(world: World) -> list[str]:
    return [node["id"] for node in world.api.items("/nodes") if node["name"] in NODES and node["desired"] != "active"]


def size_of(world: World) -> dict[str, tuple[int, int]]:
    """By role: how many workers are wanted, and how many are ready."""
    pools = world.api.get(f"/deployments/{DEPLOYMENT}")["pools"]
    return {pool["role"]: (pool["replicas"], pool["ready"]) for pool in pools}
