"""Prefill processes that a test may kill while they push: forked, so that each is there within milliseconds.

Run as a module it reads orders from standard input, one JSON a line, and writes the id of the process that obeys.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from inference.contracts.reports import Address
from inference.contracts.states import KVTransport
from inference.engine.interface import Progress
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from inference.transfer.base import Computed, PushOrder, TransferCounters, TransferLimits, TransferSettings
from inference.transfer.sender import KVSender
from inference.transfer.tickets import HeldTicket
from tests.inference.transfer.rig import SECRET

ROOT = Path(__file__).resolve().parents[3]


class PushingProcesses:
    """`python`: the interpreter that runs them."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._parent: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> PushingProcesses:
        self._parent = await asyncio.create_subprocess_exec(
            self._python, "-m", __name__, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._parent is not None
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        await self._parent.wait()
        await asyncio.sleep(0)

    async def push(
        self, target: Address, ticket: HeldTicket, transports: tuple[KVTransport, ...], over_s: float
    ) -> Callable[[], None]:
        """Start one that pushes the ticket's prompt within `over_s` seconds and never commits. What kills it."""
        assert self._parent is not None
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        order = {
            "port": target.port,
            "ticket": ticket.ticket_id,
            "tokens": ticket.token_ids,
            "transports": list(transports),
            "over_s": over_s,
        }
        self._parent.stdin.write(json.dumps(order).encode() + b"\n")
        await self._parent.stdin.drain()
        async with asyncio.timeout(30):
            pid = int(await self._parent.stdout.readline())
        return lambda: os.kill(pid, signal.SIGKILL)


async def _push(order: dict) -> None:
    tokens = order["tokens"]
    engine = StubEngine(StubSettings())
    handle = engine.reserve(len(tokens))
    engine.kv.compute(handle, tokens, 0, len(tokens))
    sender = KVSender(
        secret=SECRET,
        engine=engine,
        counters=TransferCounters(),
        limits=TransferLimits(),
        settings=TransferSettings(transports=tuple(map(KVTransport, order["transports"]))),
    )
    computed: Computed = asyncio.Queue()
    target = Address(host="127.0.0.1", port=order["port"])
    push = asyncio.create_task(
        sender.push(PushOrder(order["ticket"], order["ticket"], target, tokens, handle), computed)
    )
    for at in range(len(tokens)):
        computed.put_nowait(Progress(start=at, end=at + 1, done=at + 1 == len(tokens)))
        await asyncio.sleep(order["over_s"] / len(tokens))
    await push


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that were killed
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                asyncio.run(_push(json.loads(line)))
            os._exit(0)
        print(pid, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
