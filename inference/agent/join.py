"""How a machine becomes a node: one call with a join token, answered with everything the agent needs from then on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp
import msgspec
import structlog

from inference.contracts.codec import CodecError, decode, encode
from inference.contracts.reports import NodeHello, NodeWelcome

JOIN_PATH = "/api/v1/nodes/join"
CALL_TIMEOUT_S = 15.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0

log = structlog.get_logger()


class JoinRefused(Exception):
    """The control plane, or whatever answers at its URL, does not let this node join; trying again can't help."""


class ControlPlaneUnreachable(Exception):
    """No usable answer came within the deadline."""


class _NotNow(Exception):
    """No connection, or an error on the other side."""


class _Refusal(msgspec.Struct):
    code: str = ""
    message: str = ""


class _RefusalBody(msgspec.Struct):
    error: _Refusal


@dataclass(frozen=True, slots=True)
class JoinCall:
    """url: the control plane's. token: shown once by its Fleet page, good for one join."""

    url: str
    token: str = field(repr=False)
    hello: NodeHello


async def join(call: JoinCall, *, deadline_s: float, first_pause_s: float = FIRST_PAUSE_S) -> NodeWelcome:
    """Join, trying again with growing pauses while the control plane can't be reached.

    Raises:
        JoinRefused: the token is not taken, or the URL is not a control plane's.
        ControlPlaneUnreachable: no usable answer within `deadline_s`.
    """
    deadline = time.monotonic() + deadline_s
    pause = first_pause_s
    timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            try:
                return await _call(session, call)
            except _NotNow as error:
                if time.monotonic() + pause > deadline:
                    raise ControlPlaneUnreachable(
                        f"the control plane at {call.url} could not be reached within {deadline_s:g} s: {error}"
                    ) from error
                log.warning("the control plane can't be reached", url=call.url, reason=str(error), next_try_s=pause)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)


async def _call(session: aiohttp.ClientSession, call: JoinCall) -> NodeWelcome:
    headers = {"Authorization": f"Join {call.token}", "Content-Type": "application/json"}
    url = call.url.rstrip("/") + JOIN_PATH
    try:
        async with session.post(url, data=encode(call.hello), headers=headers, allow_redirects=False) as answer:
            body, status = await answer.read(), answer.status
    except aiohttp.InvalidURL as error:
        raise JoinRefused(
            f"{call.url!r} is not a URL of a control plane (example: http://control.example:8000)"
        ) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _NotNow(str(error) or type(error).__name__) from error
    if status >= 500:
        raise _NotNow(f"it answered {status}")
    if status >= 300:
        raise JoinRefused(_refusal(status, body))
    try:
        return decode(body, NodeWelcome)
    except CodecError as error:
        raise JoinRefused(f"what answers at {call.url} is no control plane of this version: {error}") from error


def _refusal(status: int, body: bytes) -> str:
    try:
        reason = decode(body, _RefusalBody).error.message
    except CodecError:
        reason = f"it answered {status}"
    hint = " Create a new join token on the Fleet page." if status in (401, 403, 409, 410) else ""
    return f"the control plane refused this node: {reason}.{hint}".replace("..", ".")
