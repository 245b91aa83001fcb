"""What a node says to its control plane at every start, and what it learns from the answer.

The agent never waits for it: it starts with what it remembers, and says hello beside its work until it is answered.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

import structlog

from inference.agent.control.api import HELLO_PATH, Call, NotNow, Refused, post, session
from inference.agent.state_dir import Membership
from inference.contracts.auth import CODE_NODE_RETIRED, PURPOSE_NODE_HELLO, bearer, node_authorization
from inference.contracts.codec import encode
from inference.contracts.reports import NodeHello, NodeWelcome

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0
#: Between two hellos that were both answered, however often another is asked for.
REST_S = 10.0
#: A hello that is said again is put off by up to so long: what makes one node say it makes all of a fleet.
SPREAD_S = 4.0

log = structlog.get_logger()


def hello_call(membership: Membership, hello: NodeHello) -> Call:
    """The call of a node that has joined. Its proof covers the exact body; one without a key yet proves that it knows
    the cluster secret."""
    welcome, body = membership.welcome, encode(hello)
    proof = (
        node_authorization(welcome.node_key, body)
        if welcome.node_key
        else bearer(welcome.cluster_secret, PURPOSE_NODE_HELLO)
    )
    return Call(url=membership.url, path=HELLO_PATH, authorization=proof, body=body)


async def say_hello(membership: Membership, hello: NodeHello) -> NodeWelcome:
    """One hello. Raises `Refused` and `NotNow`."""
    async with session() as http:
        welcome = await post(http, hello_call(membership, hello))
    if welcome.node_id != membership.welcome.node_id:
        raise Refused(f"the control plane took this node for {welcome.node_id!r}, it is {membership.welcome.node_id!r}")
    return welcome


class Greeter:
    """Says hello until it is answered, and again whenever `again` is called.

    membership: as it is now. build: the hello as of now (may block: it is called in a thread). on_welcome: called on
    the event loop with each answer. on_retired: the same, when the answer is that this node was retired for good.
    """

    def __init__(
        self,
        *,
        membership: Callable[[], Membership],
        build: Callable[[], NodeHello],
        on_welcome: Callable[[NodeWelcome], None],
        on_retired: Callable[[], None],
        answered: bool,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._membership = membership
        self._build = build
        self._on_welcome = on_welcome
        self._on_retired = on_retired
        self._due = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first_pause_s = first_pause_s
        self._is_away = False
        if not answered:
            self._due.set()

    def again(self) -> None:
        """What was learnt does not hold any more (the broker refuses this node's credentials). From any thread."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._due.set)

    async def run(self) -> None:
        """Runs until cancelled. Pauses grow while the control plane is away or refuses, and a hello that was answered
        is not repeated at once, however often it is asked for."""
        self._loop = asyncio.get_running_loop()
        pause = self._first_pause_s
        while True:
            if not self._due.is_set():
                await self._due.wait()
                await asyncio.sleep(random.uniform(0, SPREAD_S))  # noqa: S311 - spreads load, hides nothing
            self._due.clear()
            if await self._once():
                pause = self._first_pause_s
                await asyncio.sleep(REST_S)
            else:
                self._due.set()
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2)

    async def _once(self) -> bool:
        try:
            welcome = await say_hello(self._membership(), await asyncio.to_thread(self._build))
        except NotNow as error:
            if not self._is_away:
                log.warning("the control plane is away; this node goes on as last told", reason=str(error))
            self._is_away = True
            return False
        except Refused as error:
            if error.code == CODE_NODE_RETIRED:
                log.error("this node was retired; its workers are stopped", reason=str(error))
                return self._kept(self._on_retired)
            log.error("hello was refused; this node goes on as last told", reason=str(error), status=error.status)
            return False
        self._is_away = False
        if not self._kept(partial(self._on_welcome, welcome)):
            return False
        log.info("the control plane knows this node", node_id=welcome.node_id, name=welcome.name)
        return True

    def _kept(self, act: Callable[[], None]) -> bool:
        """Whether what the control plane answered could be acted upon, and remembered."""
        try:
            act()
        except OSError as error:
            log.error("what the control plane answered could not be kept; it is asked again", reason=str(error))
            return False
        return True
