"""The two endpoints that agents call, on a real port, answering as a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def control_plane(handler: Handler) -> AsyncIterator[str]:
    """Its URL; `handler` answers both a join and a hello."""
    application = web.Application()
    application.router.add_post("/api/v1/nodes/join", handler)
    application.router.add_post("/api/v1/nodes/hello", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
