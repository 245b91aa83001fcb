"""Several router processes behind one port: the kernel deals connections out among them (SO_REUSEPORT).

They share the workers, and one account of what keys use, which the process that starts them keeps. Each learns from the
workers' own word what the others have there, and gives a session to the same worker as the others would.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from inference.router.admission.key_limits import KeyLimits
from inference.router.admission.ledger import Ledger
from inference.router.config import ENV_PREFIX, NUMBER, SIBLINGS, CannotListen, RouterConfig

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LIVED_S = 0.5, 10.0, 30.0
_KILL_AFTER_S = 10.0
_log = structlog.get_logger()


async def run_processes(config: RouterConfig, count: int) -> None:
    """Keep `count` routers alive until told to stop (SIGINT, SIGTERM), then let all of them end.

    Raises:
        CannotListen: the port can't be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    with _held_port(config) as port, tempfile.TemporaryDirectory(prefix="tandem-router-") as siblings:
        _log.info("routers listen", host=config.host, port=port, processes=count)
        ledger = Ledger(KeyLimits(config.limits.retry_after_s), time.monotonic)
        async with ledger.served(Path(siblings)), asyncio.TaskGroup() as keepers:
            for number in range(count):
                keepers.create_task(Kept(config, port, siblings, number).keep(stop))


class Kept:
    """One router process, started again whenever it ends, and until it can be started."""

    def __init__(self, config: RouterConfig, port: int, siblings: str, number: int) -> None:
        self._config = config
        self._number = number
        self._command = [sys.executable, "-m", "inference.router", "--host", config.host, "--port", str(port)]
        self._environment = {
            **os.environ,
            ENV_PREFIX + "ID": f"{config.router_id}-{number}",
            NUMBER: str(number),
            SIBLINGS: siblings,
        }

    async def keep(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.create_task(stop.wait())
        pause = _FIRST_PAUSE_S
        try:
            while not stop.is_set():
                began = loop.time()
                code = await self._run(stopping)
                if stop.is_set():
                    return
                pause = _FIRST_PAUSE_S if loop.time() - began > _LIVED_S else min(2 * pause, _LONGEST_PAUSE_S)
                _log.error("a router ended, it is started again", number=self._number, code=code)
                await asyncio.wait({stopping}, timeout=pause)
        finally:
            stopping.cancel()

    async def _run(self, stopping: asyncio.Task[bool]) -> int | str | None:
        """Start it, and let it run until it ends or all are to; how it ended."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:  # too many processes, say: the others go on
            return str(error)
        ended = asyncio.create_task(process.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            await self._end(process, ended)
        return process.returncode

    async def _end(self, process: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        """Streams end first; who does not end is killed."""
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        done, _ = await asyncio.wait({ended}, timeout=self._config.deadlines.stop_s + _KILL_AFTER_S)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await ended


@contextlib.contextmanager
def _held_port(config: RouterConfig) -> Iterator[int]:
    """A port that this process and its children may bind, and nobody else: bound, but without listening."""
    with contextlib.ExitStack() as stack:
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            held = stack.enter_context(socket.socket(family, kind))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(address)
        except OSError as error:
            raise CannotListen(config, error) from error
        yield int(held.getsockname()[1])


def watch_parent(stop: asyncio.Event) -> None:
    """Stop when the process that started this one is gone: then nobody would."""

    def gone() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            stop.set()

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), gone)
