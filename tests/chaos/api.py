"""The REST API as a program calls it that does not give up: with a token, and each write under a name of its own."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from typing import Any


class Away(Exception):
    """No answer, or one that says "not now"."""


class Answer:
    """status and body of an answer that came."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body

    def __repr__(self) -> str:
        return f"{self.status} {json.dumps(self.body)[:300]}"


class Api:
    """faults: answers that no control plane should give (500 and the like), for the invariants."""

    def __init__(self, url: str, token: str) -> None:
        self._base = f"{url}/api/v1"
        self._token = token
        self.faults: list[str] = []

    def get(self, path: str) -> Any:
        """
        Raises:
            Away: the control plane is, or what it needs.
            LookupError: there is no such thing.
        """
        answer = self._once("GET", path, None, None)
        if answer.status >= 400:
            raise LookupError(f"GET {path}: {answer}")
        return answer.body

    def items(self, path: str) -> list[Any]:
        """Every item of a list, page after page. Raises as `get`."""
        joined = "&" if "?" in path else "?"
        page = self.get(path)
        items = list(page["items"])
        while page["next"] is not None:
            page = self.get(f"{path}{joined}cursor={page['next']}")
            items += page["items"]
        return items

    def write(self, method: str, path: str, body: dict[str, Any], within_s: float = 60.0) -> Answer:
        """Send until an answer comes, always under the same idempotency key.

        Raises:
            Away: none came within `within_s`.
        """
        key = str(uuid.uuid4())
        deadline = time.monotonic() + within_s
        while True:
            try:
                answer = self._once(method, path, body, key)
            except Away:
                if time.monotonic() > deadline:
                    raise
            else:
                if answer.status != 409 or answer.body.get("code") != "still_running" or time.monotonic() > deadline:
                    return answer
            time.sleep(0.5)

    def _once(self, method: str, path: str, body: dict[str, Any] | None, key: str | None) -> Answer:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, method=method, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                content = response.read()
                return Answer(response.status, json.loads(content) if content else None)
        except urllib.error.HTTPError as error:
            content = error.read()
            if error.code in (429, 503):
                raise Away(f"{method} {path}: {error.code} {content[:200]!r}") from error
            if error.code >= 500:
                self.faults.append(f"{method} {path}: {error.code} {content[:300]!r}")
                raise Away(f"{method} {path}: {error.code}") from error
            return Answer(error.code, json.loads(content) if content else None)
        except (OSError, ValueError) as error:
            raise Away(f"{method} {path}: {error}") from error
