"""How a machine becomes a node: one call with a join token, answered with everything the agent needs from then on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import structlog

from inference.agent.control.api import JOIN_PATH, Call, NotNow, Refused, post, session
from inference.contracts.codec import encode
from inference.contracts.reports import NodeHello, NodeWelcome

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0

log = structlog.get_logger()


class JoinRefused(Exception):
    """The control plane, or whatever answers at its URL, does not let this node join; trying again can't help."""


class ControlPlaneUnreachable(Exception):
    """No usable answer came within the deadline."""


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
    request = Call(url=call.url, path=JOIN_PATH, authorization=f"Join {call.token}", body=encode(call.hello))
    async with session() as http:
        while True:
            try:
                return await post(http, request)
            except Refused as error:
                hint = " Create a new join token on the Fleet page." if error.status in (401, 403, 409, 410) else ""
                raise JoinRefused(f"{error}{hint}") from error
            except NotNow as error:
                if time.monotonic() + pause > deadline:
                    raise ControlPlaneUnreachable(
                        f"the control plane at {call.url} could not be reached within {deadline_s:g} s: {error}"
                    ) from error
                log.warning("the control plane can't be reached", url=call.url, reason=str(error), next_try_s=pause)
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_S, pause * 2)
