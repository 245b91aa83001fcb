"""An operator at the REST API of a running Tandem, with session and CSRF as a browser has them."""

from __future__ import annotations

import http.cookiejar
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any


class Refused(Exception):
    """The API said no: status and its problem (code, detail, field, current)."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(f"{status}: {problem}")
        self.status = status
        self.problem = problem


class Operator:
    def __init__(self, console_url: str, password: str) -> None:
        self._base = f"{console_url}/api/v1"
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        self._csrf = self.get("/session")["csrf"]
        self._csrf = self.post("/session", username="admin", password=password)["csrf"]

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def items(self, path: str) -> list[Any]:
        """Every item of a list, page after page."""
        joined = "&" if "?" in path else "?"
        page = self.get(path)
        items = list(page["items"])
        while page["next"] is not None:
            page = self.get(f"{path}{joined}cursor={page['next']}")
            items += page["items"]
        return items

    def post(self, path: str, /, **body: Any) -> Any:
        return self._call("POST", path, body)

    def patch(self, path: str, /, **body: Any) -> Any:
        return self._call("PATCH", path, body)

    def delete(self, path: str, /, **body: Any) -> Any:
        return self._call("DELETE", path, body)

    def pool(self, deployment: str, role: str) -> dict[str, Any]:
        pools = self.get(f"/deployments/{deployment}")["pools"]
        return next(pool for pool in pools if pool["role"] == role)

    def resize(self, deployment: str, role: str, replicas: int) -> str:
        """Start a resize with the generation as it is now; returns the operation's id."""
        pool = self.pool(deployment, role)
        answer = self.patch(f"/pools/{pool['id']}", generation=pool["generation"], replicas=replicas)
        return str(answer["operation"]["id"])

    def wait_for_operation(self, operation_id: str, deadline_s: float = 120.0) -> dict[str, Any]:
        def ended() -> Any:
            operation = self.get(f"/operations/{operation_id}")
            return operation if operation["state"] != "running" else None

        return dict(wait_for(ended, deadline_s))

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "X-CSRFToken": getattr(self, "_csrf", "")},
        )
        try:
            with self._opener.open(request, timeout=20) as response:
                content = response.read()
                return json.loads(content) if content else None
        except urllib.error.HTTPError as error:
            raise Refused(error.code, json.loads(error.read())) from error


def wait_for(look: Callable[[], Any], deadline_s: float, every_s: float = 0.5) -> Any:
    """The first truthy result of `look`; what is in the way (refusals, broken connections) is looked past until the
    deadline."""
    deadline = time.monotonic() + deadline_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = look()
            if last:
                return last
        except (Refused, OSError) as error:
            last = error
        time.sleep(every_s)
    raise AssertionError(f"not so within {deadline_s} s; last seen: {last!r}")
