"""The agent's calls to the control plane's REST API: a hello, answered by a welcome."""

from __future__ import annotations

from dataclasses import dataclass, field

import aiohttp
import msgspec

from inference.contracts.codec import CodecError, decode
from inference.contracts.reports import NodeWelcome

JOIN_PATH = "/api/v1/nodes/join"
HELLO_PATH = "/api/v1/nodes/hello"
CALL_TIMEOUT_S = 15.0


class Refused(Exception):
    """The control plane, or whatever answers at its URL, said no. status: of the answer; None when none came. code:
    why, for programs; empty when it was not told."""

    def __init__(self, message: str, status: int | None = None, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class NotNow(Exception):
    """No connection, or an error on the other side; the text says which."""


class _Refusal(msgspec.Struct, frozen=True):
    message: str = ""
    code: str = ""


class _RefusalBody(msgspec.Struct, frozen=True):
    """Both forms in which refusals are known: problem details, and those of the release before them."""

    detail: str = ""
    code: str = ""
    error: _Refusal = _Refusal()


@dataclass(frozen=True, slots=True)
class Call:
    """url: the control plane's. authorization: value of that header. body: a `NodeHello`, encoded."""

    url: str
    path: str
    authorization: str = field(repr=False)
    body: bytes


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=CALL_TIMEOUT_S))


async def post(http: aiohttp.ClientSession, call: Call) -> NodeWelcome:
    """Make the call once.

    Raises:
        Refused: trying again at once can't help.
        NotNow: it may.
    """
    headers = {"Authorization": call.authorization, "Content-Type": "application/json"}
    url = call.url.rstrip("/") + call.path
    try:
        async with http.post(url, data=call.body, headers=headers, allow_redirects=False) as answer:
            body, status = await answer.read(), answer.status
    except aiohttp.InvalidURL as error:
        raise Refused(f"{call.url!r} is not a URL of a control plane (example: http://control.example:8000)") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise NotNow(str(error) or type(error).__name__) from error
    if status >= 500 or status == 429:
        raise NotNow(f"it answered {status}")
    if status >= 300:
        raise _refused(status, body)
    try:
        return decode(body, NodeWelcome)
    except CodecError as error:
        raise Refused(f"what answers at {call.url} is no control plane of this version: {error}", status) from error


def _refused(status: int, body: bytes) -> Refused:
    try:
        refusal = decode(body, _RefusalBody)
    except CodecError:
        refusal = _RefusalBody()
    reason = refusal.detail or refusal.error.message or f"it answered {status}"
    code = refusal.code or refusal.error.code
    return Refused(f"the control plane refused this node: {reason.rstrip('.')}.", status, code)
