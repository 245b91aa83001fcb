from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from celery import Celery

from inference.agent.app import make_app
from inference.contracts.auth import sign_message
from inference.contracts.codec import decode, encode_text
from inference.contracts.names import (
    TASK_APPLY_NODE_SPEC,
    TASK_SEND_LOG,
    log_reply_key,
    node_queue,
)
from inference.contracts.reports import LogReply, NodeReport
from inference.contracts.specs import LogRequest, NodeSpec
from inference.contracts.states import WorkerPhase
from inference.testing.simulated_fleet import SimulatedFleet
from inference.testing.simulated_node import SimulatedNode
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.node_under_test import ROOT
from tests.inference.testing.test_simulated_node import KEY, QUICK, WELCOME, on_gpu

NODES = 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "valkey") as server:
        yield server


class Control:
    """A real Celery worker of the control plane's queue, in a process of its own."""

    def __init__(self, broker: ValkeyServer) -> None:
        self._broker = broker

    def __enter__(self) -> Control:
        self._redis = redis.Redis.from_url(self._broker.url)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.inference.testing.control_process", self._broker.url],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._redis.close()

    @property
    def newest(self) -> list[NodeReport]:
        return [decode(report, NodeReport) for report in self._redis.hvals("newest")]

    @property
    def unsigned(self) -> int:
        return int(self._redis.get("unsigned") or 0)


async def until(condition: Callable[[], Any], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.1)


def nodes(number: int, **settings: Any) -> list[SimulatedNode]:
    return [
        SimulatedNode(
            msgspec.structs.replace(WELCOME, node_id=f"n-{index}", name=f"sim-{index}"),
            devices=2,
            settings=replace(QUICK, **settings),
        )
        for index in range(number)
    ]


def send(app: Celery, node_id: str, task: str, message: Any) -> None:
    """As the control plane does, by a real app of Celery."""
    text = encode_text(message)
    app.send_task(task, args=[text, sign_message(KEY, task, text)], queue=node_queue(node_id))


async def test_hundreds_of_nodes_take_what_a_real_app_sends_and_a_real_worker_takes_what_they_report(
    broker: ValkeyServer,
) -> None:
    app = make_app(broker.url, "control")
    with Control(broker) as control:
        async with SimulatedFleet(nodes(NODES, tick_s=0.5, probe_interval_s=5.0), broker.url) as fleet:
            await until(lambda: len(control.newest) == NODES)
            for node in fleet.nodes:
                spec = NodeSpec(node_id=node.node_id, generation=1, workers=(on_gpu(f"w-{node.node_id}"),))
                send(app, node.node_id, TASK_APPLY_NODE_SPEC, spec)
            await until(
                lambda: all(
                    report.observed_generation == 1 and [w.phase for w in report.workers] == [WorkerPhase.READY]
                    for report in control.newest
                )
            )
            assert control.unsigned == 0
    app.close()


async def test_a_frozen_node_leaves_its_messages_in_its_queue_until_it_thaws(broker: ValkeyServer) -> None:
    app = make_app(broker.url, "control")
    async with SimulatedFleet(nodes(2), broker.url) as fleet:
        frozen = fleet.node("n-0")
        frozen.freeze()
        await asyncio.sleep(1.2)  # a wait that began before goes on for up to a second
        with redis.Redis.from_url(broker.url) as client:
            for node_id in ("n-0", "n-1"):
                send(app, node_id, TASK_APPLY_NODE_SPEC, NodeSpec(node_id=node_id, generation=1, workers=()))
            await until(lambda: fleet.node("n-1").generation == 1)
            assert client.llen(node_queue("n-0")) == 1
            frozen.thaw()
            await until(lambda: frozen.generation == 1)
            send(app, "n-0", TASK_SEND_LOG, LogRequest(request_id="n-0:1", worker_id="w"))
            answer = await asyncio.to_thread(client.blpop, [log_reply_key("n-0:1")], 5)
            assert answer is not None
            assert decode(answer[1], LogReply).lines == ("simulated log of w",)
    app.close()


async def test_reports_are_held_back_while_the_control_plane_is_far_behind_and_while_redis_is_away(
    broker: ValkeyServer,
) -> None:
    async with SimulatedFleet(nodes(5), broker.url, backlog=3) as fleet:
        await until(lambda: fleet.reports_sent + fleet.reports_held >= 5)
        assert (fleet.reports_sent, fleet.reports_held) == (3, 2)
        broker.stop()
        fleet.node("n-0").break_device("gpu-0", "fell off the bus")
        await until(lambda: fleet.reports_held >= 3)
        broker.start(empty=True)
        fleet.node("n-1").break_device("gpu-0", "fell off the bus")
        await until(lambda: fleet.reports_sent == 4)
