"""Clients that leave: both workers are freed, whenever that happens."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time

import psutil
import pytest

from inference.contracts.states import Role
from tests.inference.router.conftest import DEADLINES, KEY, LONG, PATIENT, SHORT, Bench, eventually
from tests.inference.router.scripted import PIECES, Misstep


class LeavingClient:
    """A client on a raw socket, which can close it at any moment."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._model = bench.model
        self._writer: asyncio.StreamWriter | None = None
        self.reader: asyncio.StreamReader

    async def connect(self) -> None:
        self.reader, self._writer = await asyncio.open_connection("127.0.0.1", self._bench.router.port)

    async def ask(self, text: str, *, stream: bool) -> None:
        if self._writer is None:
            await self.connect()
        assert self._writer is not None
        body = json.dumps(
            {"model": self._model, "messages": [{"role": "user", "content": text}], "stream": stream}
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        self._writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self._writer.drain()

    async def leave(self) -> None:
        assert self._writer is not None
        self._writer.close()
        await self._writer.wait_closed()


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_before_the_first_token_stops_the_prefill_and_frees_decode(bench: Bench, stream: bool) -> None:
    """F07."""
    prefill, decode = bench.pair()
    await bench.start()
    for _ in range(10):
        prefill.missteps["prefill"] = Misstep("hang")
        client = LeavingClient(bench)
        await client.ask(LONG, stream=stream)
        await eventually(lambda: prefill.streams["prefill"] == 1 and decode.streams["generate"] == 1)
        await client.leave()
        prefill.missteps.clear()
        status, _ = await bench.chat(SHORT)
        assert status == 200
        await bench.at_rest()
    assert 'outcome="cancelled"} 10.0' in await bench.metrics()
    assert "worker_faults_total{" not in await bench.metrics()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", [SHORT, LONG])
async def test_leaving_in_the_middle_of_the_answer_frees_everything(bench: Bench, stream: bool, text: str) -> None:
    _, decode = bench.pair()
    decode.pace_s = 0.05
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(text, stream=stream)
    if stream:
        await client.reader.readuntil(b"R\xc3\xa4der")
    else:
        await eventually(lambda: decode.streams["generate"] == 1)
    await client.leave()
    await bench.at_rest()
    assert decode.streams["generate"] == 0


async def test_leaving_between_the_first_token_and_the_hand_off_frees_both(bench: Bench) -> None:
    """F08: the prompt is read, its KV is about to travel or to be accepted."""
    prefill, decode = bench.pair()
    await bench.start()
    for number in range(10):
        prefill.missteps["prefill"] = Misstep("hang", after=1)
        decode.missteps["generate"] = Misstep("hang")
        client = LeavingClient(bench)
        await client.ask(f"{LONG} {number}", stream=True)
        await client.reader.readuntil(PIECES[0].encode())
        assert (prefill.streams["prefill"], decode.streams["generate"]) == (1, 1)
        await client.leave()
        await bench.at_rest()
    assert "worker_faults_total{" not in await bench.metrics()


async def test_leaving_while_the_reservation_is_made_gives_it_back(bench: Bench) -> None:
    """F08: a ticket that nobody waits for any more is released when it comes."""
    prefill, decode = bench.pair()
    decode.missteps["reserve"] = Misstep("slow", seconds=0.15)
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(LONG, stream=True)
    await eventually(lambda: decode.calls["reserve"] == 1)
    await client.leave()
    await eventually(lambda: not bench.router.live.in_flight())
    await eventually(lambda: decode.calls["release"] == 1)
    await bench.at_rest()
    assert prefill.calls["prefill"] == 0


async def test_a_client_that_leaves_before_it_has_sent_all_costs_nothing(bench: Bench) -> None:
    _, decode = bench.pair()
    await bench.start()
    _, writer = await asyncio.open_connection("127.0.0.1", bench.router.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\nContent-Length: 99\r\n\r\n"
    writer.write(head.encode() + b"{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await bench.chat(SHORT))[0] == 200
    assert decode.calls["reserve"] == 1


async def test_a_client_that_does_not_read_is_let_go(bench: Bench) -> None:
    """A full window must not hold decode's KV for ever."""
    worker = bench.worker(Role.UNIFIED, pieces=("x" * 100_000,) * 400)
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(SHORT, stream=True)
    await client.reader.readuntil(b"xxx")
    await eventually(lambda: worker.streams["generate"] == 0, within_s=15)
    await bench.at_rest()
    await client.leave()


def connections_at(port: int) -> list[object]:
    """Of the router of this process, with clients."""
    mine = psutil.Process().net_connections("tcp4")
    return [each for each in mine if each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED]


async def test_a_client_that_does_not_read_a_whole_answer_is_let_go(bench: Bench) -> None:
    """Its connection must not keep the answer in memory for ever."""
    bench.worker(Role.UNIFIED, pieces=("x" * 100_000,) * 400)
    bench.deadlines = dataclasses.replace(DEADLINES, client_write_s=0.3)
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(SHORT, stream=False)
    await client.reader.readuntil(b"xxx")
    await eventually(lambda: not connections_at(bench.router.port))
    await client.leave()


async def test_a_client_that_reads_slowly_gets_a_whole_answer(bench: Bench) -> None:
    bench.worker(Role.UNIFIED, pieces=("x" * 100_000,) * 400)
    bench.deadlines = dataclasses.replace(DEADLINES, client_write_s=0.3)
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(SHORT, stream=False)
    read = 0
    async with asyncio.timeout(20):
        while read < 6_400_000:
            read += (await client.reader.read(1_000_000)).count(b"x")
            await asyncio.sleep(0.04)
    await client.leave()


async def test_fifty_aborted_streams_leave_no_load(bench: Bench) -> None:
    """F17."""
    bench.deadlines = PATIENT
    _, decode = bench.pair()
    decode.pace_s = 0.05
    await bench.start()
    clients = [LeavingClient(bench) for _ in range(50)]
    await asyncio.gather(*(client.ask(LONG, stream=True) for client in clients))
    await eventually(lambda: decode.streams["generate"] > 20)
    await asyncio.gather(*(client.leave() for client in clients))
    await bench.at_rest()


async def test_a_stopping_router_lets_streams_end_and_takes_no_new_requests(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.pace_s = 0.05
    await bench.start()
    running = asyncio.create_task(bench.stream(LONG))
    await eventually(lambda: decode.streams["generate"] == 1)
    port = bench.router.port
    kept = LeavingClient(bench)
    await kept.connect()
    stopping = asyncio.create_task(bench.router.stop())
    await asyncio.sleep(0.05)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)
    await kept.ask(SHORT, stream=False)
    assert (await kept.reader.readline()).startswith(b"HTTP/1.1 503")
    await kept.leave()
    assert (await running)[-1] == (None, "[DONE]")
    await stopping


async def test_a_stop_has_a_deadline_and_tells_the_clients(bench: Bench) -> None:
    bench.deadlines = dataclasses.replace(bench.deadlines, stop_s=0.1, idle_s=20.0)
    _, decode = bench.pair()
    decode.pace_s = 10.0
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(LONG, stream=True)
    await eventually(lambda: decode.streams["generate"] == 1)
    started = time.monotonic()
    await bench.router.stop()
    assert time.monotonic() - started < 5
    received = (await client.reader.read()).decode()
    assert "[DONE]" not in received
    assert "The router is stopping." in received
    await eventually(lambda: decode.streams["generate"] == 0)
    await client.leave()
