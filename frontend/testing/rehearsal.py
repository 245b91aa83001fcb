"""The built console on a make-believe control plane, to look at pages without running anything:

    python -m frontend.testing.rehearsal [--port 8800] [--empty]

Who signs in as "viewer" or "operator" has that role; everybody else is an administrator.

For the eye only: product tests run against the real control plane.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from aiohttp import WSMsgType, web

from frontend.testing.answers import answer, refuse
from frontend.testing.operating import operating_routes
from frontend.testing.playground import playground_routes
from frontend.testing.records import record_routes
from frontend.testing.stage import Stage
from inference.contracts import codec
from inference.contracts.console import SnapshotMessage

DIST = Path(__file__).parents[1] / "dist"


def console_routes(stage: Stage) -> web.RouteTableDef:
    """Who is signed in, the socket, and the built pages."""
    table = web.RouteTableDef()

    @table.get("/api/v1/session")
    async def session(request: web.Request) -> web.Response:
        return answer(stage.session())

    @table.post("/api/v1/session")
    async def sign_in(request: web.Request) -> web.Response:
        body = await request.json()
        if body["password"] == "wrong":
            return refuse(401, "bad_credentials", "This user name and password do not belong together.")
        stage.user = body["username"]
        return answer(stage.session())

    @table.delete("/api/v1/session")
    async def sign_out(request: web.Request) -> web.Response:
        stage.user = None
        return web.Response(status=204)

    @table.get("/ws/console")
    async def socket(request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(heartbeat=20)
        await connection.prepare(request)
        await connection.send_str(codec.encode_text(SnapshotMessage(snapshot=stage.snapshot())))
        stage.sockets.add(connection)
        try:
            async for message in connection:
                if message.type == WSMsgType.ERROR:
                    break
        finally:
            stage.sockets.discard(connection)
        return connection

    @table.get("/{path:.*}")
    async def console_page(request: web.Request) -> web.FileResponse:
        file = DIST / request.match_info["path"]
        return web.FileResponse(file if file.is_file() else DIST / "index.html")

    return table


async def start_ticking(app: web.Application) -> None:
    app["ticking"] = asyncio.create_task(app["stage"].tick())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8800)
    parser.add_argument("--empty", action="store_true", help="before anything was deployed")
    chosen = parser.parse_args()
    app = web.Application()
    app["stage"] = stage = Stage(chosen.empty)
    app.add_routes(record_routes(stage.records))
    app.add_routes(operating_routes(stage))
    app.add_routes(playground_routes(stage))
    app.add_routes(console_routes(stage))
    app.on_startup.append(start_ticking)
    web.run_app(app, host="127.0.0.1", port=chosen.port, print=None)


if __name__ == "__main__":
    main()
