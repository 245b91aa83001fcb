"""A control plane that answers what a test tells it to, and views to answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import msgspec

from inference.cli.client import Client
from inference.cli.login import Login
from inference.contracts.states import OperationKind, OperationState
from inference.contracts.views.operations import OperationView

LOGIN = Login(url="http://control", token="tdm-a-secret-of-tests")

Step = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


class Script:
    """Answers one after the other; the last one for ever."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = list(steps)
        self.requests: list[httpx2.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        return step(request) if callable(step) else step

    def client(self, **more: Any) -> Client:
        return Client(LOGIN, transport=httpx2.MockTransport(self), sleep=self.pauses.append, **more)


def json(value: Any, status: int = 200, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, content=msgspec.json.encode(value), headers=headers)


def problem(status: int, code: str, detail: str, **headers: str) -> httpx2.Response:
    told = {"type": "t", "title": "T", "status": status, "detail": detail, "code": code}
    return json(told, status, **headers)


def operation(state: OperationState = OperationState.RUNNING, **more: Any) -> OperationView:
    told: dict[str, Any] = {
        "id": "0f8fad5b-d9cb-469f-a165-70867728950e",
        "kind": OperationKind.RESIZE,
        "state": state,
        "target": "chat/decode",
        "title": "Resize decode of chat",
        "requested_by": "ada",
        "reason": "",
        "before": "2 replicas",
        "after": "3 replicas",
        "progress": 0.5,
        "outcome": "",
        "started_at": None,
        "finished_at": None,
        "steps": (),
    }
    return OperationView(**(told | more))
