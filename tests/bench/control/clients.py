"""What people and programs do meanwhile: pages of the lists, a console's socket, resizes of a pool."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import aiohttp

from tests.bench.control.fleet import WatchedNode, wanted_of

#: Pause between two requests of the client that turns pages.
PAGE_EVERY_S = 0.2
RESIZE_WITHIN_S = 60.0

#: Pages by what they are called in the table. Fleet is read to its last page, page after page.
PAGES = {
    "Fleet: 100 nodes with devices": "/api/v1/nodes?limit=100",
    "operations": "/api/v1/operations?limit=100",
    "deployments": "/api/v1/deployments?limit=100",
    "audit": "/api/v1/audit?limit=100",
    "models": "/api/v1/models?limit=100",
}


class Api:
    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}

    async def __aenter__(self) -> Api:
        self._session = aiohttp.ClientSession(self._url, headers=self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> tuple[Any, int]:
        """The answer, and its bytes."""
        async with self._session.get(path) as response:
            raw = await response.read()
            if response.status != 200:
                raise RuntimeError(f"GET {path}: {response.status} {raw[:300]!r}")
            return json.loads(raw), len(raw)

    async def send(self, method: str, path: str, body: dict[str, Any]) -> Any:
        async with self._session.request(method, path, json=body) as response:
            raw = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"{method} {path}: {response.status} {raw[:300]!r}")
            return json.loads(raw)


class Pages:
    """Turns pages one after the other. took: seconds of each answer, by page."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.took: dict[str, list[float]] = defaultdict(list)
        self.bytes: dict[str, int] = {}

    async def run(self) -> None:
        others = [name for name in PAGES if not name.startswith("Fleet")]
        turn, fleet = 0, "Fleet: 100 nodes with devices"
        following = PAGES[fleet]
        while True:
            answer = await self._timed(fleet, following)
            following = PAGES[fleet] + (f"&cursor={answer['next']}" if answer["next"] else "")
            await asyncio.sleep(PAGE_EVERY_S)
            turn += 1
            if turn % 4 == 0:
                name = others[turn // 4 % len(others)]
                await self._timed(name, PAGES[name])
                await asyncio.sleep(PAGE_EVERY_S)

    async def _timed(self, name: str, path: str) -> Any:
        began = time.perf_counter()
        answer, size = await self._api.get(path)
        self.took[name].append(time.perf_counter() - began)
        self.bytes[name] = max(size, self.bytes.get(name, 0))
        return answer


class Console:
    """One browser that looks. snapshots: bytes and seconds of each. events, event_bytes: by kind."""

    def __init__(self, url: str, cookie: str) -> None:
        self._url, self._cookie = url, cookie
        self.snapshots: list[tuple[int, float]] = []
        self.events: Counter[str] = Counter()
        self.event_bytes: Counter[str] = Counter()
        self.tick_gaps: list[float] = []
        self.since = time.monotonic()

    def clear(self) -> None:
        """Count events from now on."""
        self.events.clear()
        self.event_bytes.clear()
        self.tick_gaps.clear()
        self.since = time.monotonic()

    async def run(self) -> None:
        headers = {"Cookie": self._cookie, "Origin": self._url}
        async with aiohttp.ClientSession() as session:
            began = time.perf_counter()
            async with session.ws_connect(
                f"{self._url}/ws/console", headers=headers, max_msg_size=0, compress=15
            ) as socket:
                ticked = None
                async for message in socket:
                    size, said = len(message.data), json.loads(message.data)
                    if said["type"] == "snapshot":
                        self.snapshots.append((size, time.perf_counter() - began))
                    elif said["type"] == "event":
                        kind = said["event"]["type"]
                        self.events[kind] += 1
                        self.event_bytes[kind] += size
                        if kind == "telemetry.tick":
                            now = time.monotonic()
                            if ticked is not None:
                                self.tick_gaps.append(now - ticked)
                            ticked = now

    def rows(self) -> list[dict[str, Any]]:
        seconds = time.monotonic() - self.since
        return [
            {"event": kind, "per_s": count / seconds, "kib_per_s": self.event_bytes[kind] / seconds / 1024}
            for kind, count in self.events.most_common()
        ]


async def resize(api: Api, nodes: Sequence[WatchedNode], pool: dict[str, Any], replicas: int) -> dict[str, Any]:
    """One resize over REST. sent_s: from the request until the last node concerned has its new spec. done_s: until the
    operation ended."""
    pool_id = pool["id"]
    current, _ = await api.get(f"/api/v1/pools/{pool_id}")
    began = time.monotonic()
    answer = await api.send(
        "PATCH", f"/api/v1/pools/{pool_id}", {"replicas": replicas, "generation": current["generation"]}
    )
    answered = time.monotonic()
    deadline = began + RESIZE_WITHIN_S
    while wanted_of(nodes, pool_id) != replicas:
        if time.monotonic() > deadline:
            raise RuntimeError(f"nodes were not told of a resize to {replicas} within {RESIZE_WITHIN_S} s")
        await asyncio.sleep(0.005)
    sent = max(node.spec_at for node in nodes)
    state = await _ended(api, answer["operation"]["id"], deadline)
    return {
        "resize": f"{current['replicas']} -> {replicas}",
        "answered_s": answered - began,
        "sent_s": sent - began,
        "done_s": time.monotonic() - began,
        "ended": state,
    }


async def _ended(api: Api, operation_id: str, deadline: float) -> str:
    while time.monotonic() < deadline:
        operation, _ = await api.get(f"/api/v1/operations/{operation_id}")
        if operation["state"] not in ("queued", "running"):
            return str(operation["state"])
        await asyncio.sleep(0.1)
    return "still running"
