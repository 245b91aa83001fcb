"""What only shows over real sockets: browsers that don't read, and a server that ends."""

from __future__ import annotations

import asyncio

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from controlplane.telemetry.stream import BEGINNING, StreamId
from inference.contracts import codec
from inference.contracts.console import DeploymentRemoved, EventMessage, SnapshotMessage
from tests.control.console.events import removed, send
from tests.control.console.server import serving

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("live_redis")]

EVENTS = 2_000
LARGE = "x" * 20_000


def console(url: str, session_key: str) -> connect:
    return connect(
        f"{url.replace('http', 'ws')}/ws/console",
        origin=websockets.Origin(url),
        additional_headers={"Cookie": f"sessionid={session_key}"},
        compression=None,
        max_queue=1,
    )


async def receive(socket: ClientConnection) -> str:
    return str(await asyncio.wait_for(socket.recv(), 10))


async def test_a_browser_that_does_not_read_is_brought_up_to_date_by_a_snapshot_not_by_all_it_missed(
    session_key: str,
) -> None:
    with serving() as url:
        async with console(url, session_key) as sleepy, console(url, session_key) as awake:
            codec.decode(await receive(sleepy), SnapshotMessage)
            codec.decode(await receive(awake), SnapshotMessage)
            for n in range(EVENTS):
                await asyncio.to_thread(send, removed(f"{n}-{LARGE}"))
                assert f'"name":"{n}-' in await receive(awake)
            last = StreamId.parse(send(removed("the last")))
            events, snapshots, reached = 0, 0, BEGINNING
            while reached < last:
                message = await receive(sleepy)
                if message.startswith('{"type":"event"'):
                    events, reached = events + 1, StreamId.parse(codec.decode(message, EventMessage).seq)
                else:
                    snapshots += 1
                    reached = StreamId.parse(codec.decode(message, SnapshotMessage).snapshot.seq)
            assert snapshots >= 1
            assert events < EVENTS / 2


async def test_when_the_server_ends_browsers_are_told_that_it_restarts(session_key: str) -> None:
    with serving() as url:
        socket = await console(url, session_key)
        await receive(socket)
        send(removed("seen"))
        assert codec.decode(await receive(socket), EventMessage).event == DeploymentRemoved(name="seen")
    with pytest.raises(websockets.ConnectionClosed) as closed:
        await receive(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
