"""Starts a router: `python -m inference.router [--host HOST] [--port PORT] [--processes N]`, configured by the
environment."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import uvloop

from inference.process.garbage import collect_seldom
from inference.process.logs import configure_logging
from inference.router.app import running
from inference.router.config import CannotListen, RouterConfig, read_config
from inference.router.processes import run_processes, watch_parent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="inference.router",
        description="Serves OpenAI's API from Tandem's workers. Needs REDIS_URL and TANDEM_CLUSTER_SECRET(_FILE).",
    )
    parser.add_argument("--host", help="address to listen on (default: TANDEM_ROUTER_HOST or 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: TANDEM_ROUTER_PORT or 8080)")
    parser.add_argument("--processes", type=int, default=1, help="how many share the port (default: 1)")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"--processes is {options.processes}: at least 1 is needed")
    try:
        config = read_config(os.environ, host=options.host, port=options.port)
    except (ValueError, OSError) as error:
        return _end_with(error)
    configure_logging(os.environ)
    try:
        uvloop.run(_serve(config) if options.processes == 1 else run_processes(config, options.processes))
    except CannotListen as error:
        return _end_with(error)
    return 0


def _end_with(error: Exception) -> int:
    print(f"router: {error}", file=sys.stderr)  # noqa: T201 - for the person at the terminal
    return 2


async def _serve(config: RouterConfig) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    if config.number:
        watch_parent(stop)
    async with running(config):
        collect_seldom()
        await stop.wait()
