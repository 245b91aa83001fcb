"""A stream of what operators ask for, drawn from a seed and from what is there at that moment."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.api import Answer, Api, Away
from tests.chaos.world import DEPLOYMENT, MODELS

#: With three nodes of three slots: what fits even with one node away.
SIZES = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2))
POLICY = {"observe_s": 1.0, "min_requests": 3, "step_deadline_s": 60.0, "max_error_rate": 1.0}


@dataclass
class Intent:
    """answer: None when none came. reason: names it in its operation."""

    reason: str
    what: str
    answer: Answer | None = None


class Intents:
    """One operator who asks for something every few seconds, in a thread of its own, while not `paused`."""

    def __init__(self, api: Api, seed: int, pause_s: tuple[float, float] = (1.0, 4.0)) -> None:
        self._api = api
        self._random = random.Random(f"intents {seed}")
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._going = threading.Event()
        self._resting = threading.Event()
        self.sent: list[Intent] = []
        self.troubles: list[str] = []
        self._thread = threading.Thread(target=self._run, name="intents", daemon=True)
        self._kinds: tuple[Callable[[], tuple[str, str, dict[str, Any]] | None], ...] = (
            self._resize,
            self._resize,
            self._resize,
            self._rebalance,
            self._rebalance,
            self._flip,
            self._flip,
            self._drain,
            self._cordon,
            self._uncordon,
            self._uncordon,
            self._roll_out,
            self._roll_out,
            self._roll_back,
            self._cancel,
            self._cancel,
            self._retry,
            self._restart,
        )
        self._thread.start()

    def go(self) -> None:
        self._resting.clear()
        self._going.set()

    def rest(self, within_s: float = 90.0) -> None:
        """Returns once nothing more is being asked for."""
        self._going.clear()
        if not self._resting.wait(within_s):
            raise AssertionError("an intent is still waiting for its answer")

    def stop(self) -> None:
        self._stopping.set()
        self._going.set()
        self._thread.join(90)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._going.is_set():
                self._resting.set()
                self._going.wait()
                continue
            try:
                self._one()
            except Away:
                pass  # nothing could be seen, so nothing is asked for
            except LookupError as error:
                self.troubles.append(f"while looking around for an intent: {error}")
            self._stopping.wait(self._random.uniform(*self._pause_s))

    def _one(self) -> None:
        made = self._random.choice(self._kinds)()
        if made is None:
            return
        method, path, body = made
        reason = f"intent {len(self.sent) + 1}"
        if self._random.random() < 0.25 and not path.endswith(("/cancel", "/retry")):
            path += "?on_conflict=queue"
        intent = Intent(reason, f"{method} {path} {body}")
        self.sent.append(intent)
        if not path.endswith(("/cancel", "/retry")):
            body = {**body, "reason": reason}
        try:
            intent.answer = self._api.write(method, path, body, within_s=75)
        except Away:
            return
        print(f"    {time.strftime('%H:%M:%S')} asks {intent.what}: {_short(intent.answer)}", flush=True)

    # -- what can be asked for

    def _deployment(self) -> dict[str, Any]:
        return dict(self._api.get(f"/deployments/{DEPLOYMENT}"))

    def _pools(self) -> dict[str, dict[str, Any]]:
        return {pool["role"]: pool for pool in self._deployment()["pools"]}

    def _size(self) -> dict[str, int]:
        prefill, decode = self._random.choice(SIZES)
        return {"prefill": prefill, "decode": decode}

    def _resize(self) -> tuple[str, str, dict[str, Any]]:
        role, size = self._random.choice(("prefill", "decode")), self._size()
        pool = self._pools()[role]
        return "PATCH", f"/pools/{pool['id']}", {"generation": pool["generation"], "replicas": size[role]}

    def _rebalance(self) -> tuple[str, str, dict[str, Any]]:
        size, pools = self._size(), self._pools()
        seen = {f"{role}_generation": pools[role]["generation"] for role in ("prefill", "decode")}
        return "POST", f"/deployments/{DEPLOYMENT}/rebalance", {**size, **seen}

    def _worker(self) -> dict[str, Any] | None:
        workers = [worker for pool in self._pools().values() for worker in pool["workers"]]
        return self._random.choice(workers) if workers else None

    def _flip(self) -> tuple[str, str, dict[str, Any]] | None:
        worker = self._worker()
        return None if worker is None else ("POST", f"/workers/{worker['id']}/flip", {})

    def _restart(self) -> tuple[str, str, dict[str, Any]] | None:
        worker = self._worker()
        return None if worker is None else ("POST", f"/workers/{worker['id']}/restart", {})

    def _nodes(self, *desired: str) -> list[dict[str, Any]]:
        return [node for node in self._api.items("/nodes") if node["desired"] in desired]

    def _drain(self) -> tuple[str, str, dict[str, Any]] | None:
        return self._on_node("drain")

    def _cordon(self) -> tuple[str, str, dict[str, Any]] | None:
        return self._on_node("cordon")

    def _on_node(self, verb: str) -> tuple[str, str, dict[str, Any]] | None:
        """At most one node at a time is not to be used."""
        active = self._nodes("active")
        if len(active) < 3:
            return self._uncordon()
        return "POST", f"/nodes/{self._random.choice(active)['id']}/{verb}", {}

    def _uncordon(self) -> tuple[str, str, dict[str, Any]] | None:
        nodes = self._nodes("cordoned", "draining")
        return ("POST", f"/nodes/{self._random.choice(nodes)['id']}/uncordon", {}) if nodes else None

    def _roll_out(self) -> tuple[str, str, dict[str, Any]]:
        model = self._random.choice(MODELS)
        settings = {"max_running": self._random.choice((16, 24, 32))}
        body = {"model": model, "settings": settings, "policy": POLICY}
        return "POST", f"/deployments/{DEPLOYMENT}/rollout", body

    def _roll_back(self) -> tuple[str, str, dict[str, Any]]:
        return "POST", f"/deployments/{DEPLOYMENT}/rollback", {}

    def _cancel(self) -> tuple[str, str, dict[str, Any]] | None:
        running = [each for each in self._api.items("/operations?state=running") if each["cancellable"]]
        return ("POST", f"/operations/{self._random.choice(running)['id']}/cancel", {}) if running else None

    def _retry(self) -> tuple[str, str, dict[str, Any]] | None:
        ended = [each for each in self._api.get("/operations")["items"] if each["retryable"]]
        return ("POST", f"/operations/{self._random.choice(ended)['id']}/retry", {}) if ended else None


def _short(answer: Answer) -> str:
    body = answer.body or {}
    operation = body.get("operation") or {}
    return f"{answer.status} {operation.get('title') or body.get('detail') or body.get('title') or ''}"
