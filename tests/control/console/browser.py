"""A browser's socket, and what it shows."""

from __future__ import annotations

from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from controlplane.config.asgi import application
from inference.contracts import codec
from inference.contracts.console import ConsoleEvent, EventMessage, Snapshot, SnapshotMessage, StaleMessage

WAIT_S = 10


class Browser:
    """Messages come as their contract's structs."""

    def __init__(self, address: str, session_key: str, origin: str = "http://localhost") -> None:
        path, _, query = address.partition("?")
        cookie = f"{settings.SESSION_COOKIE_NAME}={session_key}"
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"origin", origin.encode()), (b"cookie", cookie.encode())],
            "subprotocols": [],
        }
        self._socket = ApplicationCommunicator(application, scope)

    async def open(self) -> bool:
        """Whether the server accepted."""
        await self._socket.send_input({"type": "websocket.connect"})
        answer = await self._socket.receive_output(WAIT_S)
        return bool(answer["type"] == "websocket.accept")

    async def say(self, **data: str | bytes) -> None:
        await self._socket.send_input({"type": "websocket.receive", **data})

    async def snapshot(self) -> Snapshot:
        return codec.decode(await self._text(), SnapshotMessage).snapshot

    async def event(self) -> ConsoleEvent:
        return codec.decode(await self._text(), EventMessage).event

    async def stale(self) -> str:
        return codec.decode(await self._text(), StaleMessage).reason

    async def closing_code(self) -> int:
        answer = await self._socket.receive_output(WAIT_S)
        assert answer["type"] == "websocket.close"
        return int(answer["code"])

    async def is_quiet(self) -> bool:
        return bool(await self._socket.receive_nothing(timeout=0.3))

    async def close(self) -> None:
        """Leave. May be called again."""
        if not self._socket.future.done():
            await self._socket.send_input({"type": "websocket.disconnect", "code": 1001})
            await self._socket.wait(WAIT_S)

    async def _text(self) -> str:
        answer = await self._socket.receive_output(WAIT_S)
        assert answer["type"] == "websocket.send", answer
        return str(answer["text"])
