"""A whole agent with a key and a broker user of its own, and the part of a control plane that it says hello to."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import redis
from aiohttp import web

from inference.agent.state_dir import Membership
from inference.contracts.auth import CODE_NODE_RETIRED, is_bearer, is_node_authorization, sign_message, verify_message
from inference.contracts.codec import decode, encode, encode_text
from inference.contracts.names import (
    CONTROL_QUEUE,
    TASK_APPLY_NODE_SPEC,
    TASK_RECORD_NODE_REPORT,
    TASK_SEND_LOG,
    log_reply_key,
    node_queue,
)
from inference.contracts.reports import LogReply, NodeHello, NodeWelcome
from inference.contracts.specs import LogRequest, NodeSpec
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.agent_under_test import AgentUnderTest
from tests.inference.agent.control_plane_stub import control_plane
from tests.inference.agent.node_under_test import NODE, SECRET

KEY = "k" * 64


class ControlPlane:
    """Answers hellos from a thread of its own. welcome: made anew for each. hellos: what was said, and by which proof
    ("key" or "cluster"). retired: the node was retired."""

    def __init__(self, welcome: Callable[[], NodeWelcome]) -> None:
        self.hellos: list[tuple[str, NodeHello]] = []
        self.retired = False
        self.url = ""
        self._welcome = welcome
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()), daemon=True)

    def __enter__(self) -> ControlPlane:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        async with control_plane(self._answer) as self.url:
            self._ready.set()
            await self._done.wait()

    async def _answer(self, request: web.Request) -> web.Response:
        body, proof = await request.read(), request.headers["Authorization"]
        if is_node_authorization(proof, KEY, body):
            self.hellos.append(("key", decode(body, NodeHello)))
        elif is_bearer(proof, SECRET, "node-hello"):
            self.hellos.append(("cluster", decode(body, NodeHello)))
        else:
            return web.Response(status=401)
        if self.retired:
            return web.json_response({"code": CODE_NODE_RETIRED, "detail": "It was retired."}, status=401)
        return web.Response(body=encode(self._welcome()))


class SecuredAgent(AgentUnderTest):
    """url: the control plane's; nobody answers at the default. key: that the agent remembers; empty for one that joined
    under the previous release. broker_url: that it remembers."""

    def __init__(
        self,
        folder: Path,
        broker: ValkeyServer,
        *,
        broker_url: str,
        url: str = "http://127.0.0.1:1",
        key: str = KEY,
        **environment: str,
    ) -> None:
        super().__init__(folder, broker, **environment)
        welcome = NodeWelcome(
            node_id=NODE,
            name="node",
            redis_url=broker_url,
            cluster_secret=SECRET,
            report_interval_s=2.0,
            node_key=key,
        )
        self.state.save_membership(Membership(url=url, address="127.0.0.1", welcome=welcome))

    @property
    def membership(self) -> Membership:
        known = self.state.membership
        assert known is not None
        return known

    def send(self, text: str) -> None:
        """As the control plane sends it: with its code."""
        self.send_as(text, sign_message(KEY, TASK_APPLY_NODE_SPEC, text))

    def send_as(self, text: str, *code: str) -> None:
        self._app.send_task(TASK_APPLY_NODE_SPEC, args=[text, *code], queue=node_queue(NODE))

    def want_beside(self, **beside: Any) -> None:
        """The next generation, without workers but with weights or links."""
        self._generation += 1
        self.send(encode_text(NodeSpec(node_id=NODE, generation=self._generation, workers=(), **beside)))

    def ask_log(self, request: LogRequest, code: str | None = None, within_s: int = 10) -> LogReply | None:
        text = encode_text(request)
        code = sign_message(KEY, TASK_SEND_LOG, text) if code is None else code
        self._app.send_task(TASK_SEND_LOG, args=[text, code], queue=node_queue(NODE))
        answer = self._redis.blpop([log_reply_key(request.request_id)], timeout=within_s)
        return None if answer is None else decode(answer[1], LogReply)

    def signed_reports(self) -> Sequence[bool]:
        """Of every report in the control plane's queue, whether its code is right."""
        messages = [json.loads(message) for message in self._redis.lrange(CONTROL_QUEUE, 0, -1)]
        arguments = [json.loads(base64.b64decode(message["body"]))[0] for message in messages]
        return [verify_message(KEY, TASK_RECORD_NODE_REPORT, report, code) for report, code in arguments]


def welcome_with(redis_url: str, **changes: Any) -> NodeWelcome:
    welcome = NodeWelcome(
        node_id=NODE,
        name="node",
        redis_url=redis_url,
        cluster_secret=SECRET,
        report_interval_s=2.0,
        node_key=KEY,
    )
    return msgspec.structs.replace(welcome, **changes)


def admin(broker: ValkeyServer) -> redis.Redis:
    return redis.Redis.from_url(broker.url)
