"""The REST API, typed: one call sends one request, again where that is safe, and reads one answer.

A write is named by an Idempotency-Key of its own, so sending it again after a lost answer does nothing twice.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx2
import msgspec

from inference.cli.errors import BadValue, Refused, Unreachable
from inference.cli.login import Login
from inference.contracts import codec
from inference.contracts.answers import Page
from inference.contracts.bodies.body import Body

T = TypeVar("T")

API = "/api/v1"
_PAGE_LIMIT = 500

#: Sent again after these: the network, a control plane that restarts, or "in a moment".
_PASSING = frozenset({429, 502, 503, 504})
_LONGEST_PAUSE_S = 10.0


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What this program reads of a refusal; a proxy on the way may say as little."""

    status: int
    code: str
    detail: str
    current: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """view: what was answered, read. raw: its JSON, whole, with what this program does not know of. etag: its version,
    for a change of exactly this. tried: nothing was done, it was a dry run."""

    view: T
    raw: Any
    etag: str = ""
    tried: bool = False


@dataclass(slots=True)
class Client:
    """Close it. timeout_s: for each try. attempts: tries of one request, the first included."""

    login: Login
    timeout_s: float = 30.0
    attempts: int = 4
    transport: httpx2.BaseTransport | None = None
    sleep: Callable[[float], None] = time.sleep
    _http: httpx2.Client | None = field(default=None, init=False)

    def get(self, path: str, kind: type[T], /, **query: Any) -> Answer[T]:
        """
        Raises:
            Refused, Unreachable: as for all calls.
        """
        return self._call("GET", path, kind, query=query)

    def items(self, path: str, kind: type[T], /, *, at_most: int | None = None, **query: Any) -> Answer[tuple[T, ...]]:
        """Every item of a list, page after page, or the first `at_most`; raw is one page with all of them."""
        views: list[T] = []
        raw: list[Any] = []
        cursor: str | None = None
        while True:
            limit = _PAGE_LIMIT if at_most is None else max(1, min(_PAGE_LIMIT, at_most - len(views)))
            page = self.get(path, Page[kind], **query, limit=limit, cursor=cursor)  # type: ignore[valid-type]
            views += page.view.items
            raw += page.raw["items"]
            cursor = page.view.next
            if cursor is None or (at_most is not None and len(views) >= at_most):
                return Answer(tuple(views), {"items": raw, "next": cursor})

    def write(
        self,
        method: str,
        path: str,
        body: Body | None,
        kind: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        if_match: str = "",
    ) -> Answer[T]:
        """kind: None's type where nothing is answered."""
        headers = {"Idempotency-Key": str(uuid.uuid4())} | ({"If-Match": if_match} if if_match else {})
        return self._call(method, path, kind, query=query or {}, body=body, headers=headers)

    @contextmanager
    def stream(self, path: str, **query: Any) -> Iterator[Iterator[bytes]]:
        """The body of a GET as it comes, tried once."""
        try:
            with self._client().stream("GET", API + path, params=_given(query)) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refusal(response)
                yield response.iter_bytes()
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    def close(self) -> None:
        if self._http is not None:
            self._http.close()

    def _call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        query: Mapping[str, Any],
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer[T]:
        content = None if body is None else codec.encode(body)
        sent = dict(headers or {}) | ({"Content-Type": "application/json"} if body is not None else {})
        request = self._client().build_request(method, API + path, params=_given(query), content=content, headers=sent)
        response = self._send(request)
        if response.status_code >= 300:
            raise _refusal(response)
        return _answer(response, kind)

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The first answer that is not passing, or the last of all."""
        for attempt in range(1, self.attempts + 1):
            pause_s = min(0.25 * 2**attempt, _LONGEST_PAUSE_S)
            try:
                response = self._client().send(request)
            except httpx2.TransportError as error:
                if attempt == self.attempts or isinstance(error, httpx2.UnsupportedProtocol):
                    raise self._unreachable(error) from error
            else:
                if attempt == self.attempts or not _passes(response):
                    return response
                pause_s = _asked_pause_s(response, pause_s)
                if pause_s > _LONGEST_PAUSE_S:
                    return response
            self.sleep(pause_s)
        raise AssertionError("there is at least one attempt")

    def _client(self) -> httpx2.Client:
        if self._http is None:
            self._http = httpx2.Client(
                base_url=self.login.url,
                headers={"Authorization": f"Bearer {self.login.token}", "User-Agent": "tandem-cli"},
                timeout=self.timeout_s,
                transport=self.transport,
                verify=_trusted(self.login.ca_file),
            )
        return self._http

    def _unreachable(self, error: httpx2.HTTPError) -> Unreachable:
        why = "took too long to answer" if isinstance(error, httpx2.TimeoutException) else f"can't be reached ({error})"
        return Unreachable(f"The control plane at {self.login.url} {why}.")


def segment(name: str) -> str:
    """`name` as one part of a path."""
    return quote(name, safe="")


def _trusted(ca_file: str) -> ssl.SSLContext | bool:
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BadValue(f"{ca_file} holds no certificates that can be read: {error}.") from error


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not asked for. Times, enums and numbers as the API writes them."""
    return {name: _written(value) for name, value in query.items() if value is not None}


def _written(value: Any) -> str:
    built = msgspec.to_builtins(value)
    return str(built).lower() if isinstance(built, bool) else str(built)


def _passes(response: httpx2.Response) -> bool:
    return response.status_code in _PASSING or (
        response.status_code == 409 and _problem(response).code == "still_running"
    )


def _asked_pause_s(response: httpx2.Response, otherwise: float) -> float:
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else otherwise


def _answer(response: httpx2.Response, kind: type[T]) -> Answer[T]:
    tried = response.headers.get("Dry-Run") == "true"
    if not response.content:
        return Answer(msgspec.convert(None, kind), None, tried=tried)
    try:
        raw = msgspec.json.decode(response.content)
        view = msgspec.convert(raw, kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Unreachable(f"The control plane's answer can't be read ({error}): is it of another version?") from error
    return Answer(view, raw, response.headers.get("ETag", ""), tried)


def _refusal(response: httpx2.Response) -> Refused:
    problem = _problem(response)
    return Refused(problem.status, problem.code, problem.detail, problem.current)


def _problem(response: httpx2.Response) -> Problem:
    try:
        return codec.decode(response.content, Problem)
    except codec.CodecError:
        moved = response.headers.get("Location", "")
        sentence = f"{response.request.url.host} answers {response.status_code}, and not as a control plane does"
        return Problem(
            status=502,
            code="not_a_control_plane",
            detail=f"{sentence}{f' (it leads to {moved})' if moved else ''}: is the address right?",
        )
