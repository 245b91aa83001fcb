"""A running worker changes its role: what it may do then, and that it stays what it was when that fails."""

import asyncio
import re

import aiohttp
import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished
from inference.contracts.sampling import Sampling
from inference.contracts.states import PrefillPath, Role
from inference.contracts.timings import Counter
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.fleet import FleetWorker, StubFleet, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.testing.worker_client import WorkerClient, collect
from inference.worker.limits import WorkerLimits

PROMPT = "read this prompt and answer, please"
GREEDY = Sampling(max_tokens=8, temperature=0.0)


async def flip(client: WorkerClient, worker: FleetWorker, role: Role, pool_id: str | None = None):
    """As an agent does it: drain, switch, serve again."""
    await client.drain(worker.http)
    await client.switch(worker.http, role, pool_id)
    return await client.drain(worker.http, undo=True)


def plant(fleet: StubFleet, kind: FaultKind) -> FleetWorker:
    worker = fleet.prefill[0]
    worker.engine.faults.plant(Fault(point=FaultPoint.SWITCH, kind=kind))
    return worker


async def refused(client: WorkerClient, worker: FleetWorker, role: Role) -> TandemError:
    with pytest.raises(TandemError) as caught:
        await client.switch(worker.http, role)
    return caught.value


async def test_both_workers_trade_places_and_answer_as_before(fleet, client):
    one, other = fleet.prefill[0], fleet.decode[0]
    before = await client.answer_by_handoff(one.http, other.http, PROMPT, GREEDY)
    here = await client.answer_here(other.http, PROMPT, GREEDY)
    for reader, writer in ((other, one), (one, other), (other, one)):
        assert (await flip(client, reader, Role.PREFILL)).role is Role.PREFILL
        assert (await flip(client, writer, Role.DECODE)).role is Role.DECODE
        there = await client.answer_by_handoff(reader.http, writer.http, PROMPT, GREEDY)
        assert (there.token_ids, there.text) == (before.token_ids, before.text)
        assert (await client.answer_here(writer.http, PROMPT, GREEDY)).token_ids == here.token_ids
        assert isinstance(there.end, Finished)


async def test_the_status_tells_the_new_role_and_the_place_where_kv_is_received(fleet, client):
    worker, was_decode = fleet.prefill[0], fleet.decode[0]
    old_address = (await client.status(was_decode.http)).transfer
    status = await flip(client, worker, Role.DECODE)
    assert (status.role, status.ready, status.draining) == (Role.DECODE, True, False)
    assert status.transfer is not None
    _, writer = await asyncio.open_connection(status.transfer.host, status.transfer.port)
    writer.close()
    assert (await flip(client, was_decode, Role.PREFILL)).transfer is None
    with pytest.raises(OSError):  # noqa: PT011 - refused, by the kernel
        await asyncio.open_connection(old_address.host, old_address.port)


async def test_each_role_takes_its_own_calls_only_after_a_switch_too(fleet, client):
    worker = fleet.prefill[0]
    await flip(client, worker, Role.DECODE)
    ticket = await client.reserve(worker.http, PROMPT, GREEDY)
    with pytest.raises(TandemError, match="a decode worker takes no prefill hand-offs"):
        await collect(client.prefill(worker.http, ticket, GREEDY))
    await client.release(worker.http, ticket.ticket_id)
    await flip(client, worker, Role.PREFILL)
    with pytest.raises(TandemError, match="a prefill worker writes no answers"):
        await client.reserve(worker.http, PROMPT, GREEDY)


async def test_kv_for_a_ticket_of_the_time_before_is_refused_after_the_worker_came_back_to_decode(fleet, client):
    prefill, decode = fleet.prefill[0], fleet.decode[0]
    ticket = await client.reserve(decode.http, PROMPT, GREEDY)
    await client.release(decode.http, ticket.ticket_id)
    await flip(client, decode, Role.PREFILL)
    await flip(client, decode, Role.DECODE)
    answer = await collect(client.prefill(prefill.http, ticket, GREEDY))
    assert not isinstance(answer.end, Finished)
    assert decode.load.kv_blocks_used == 0
    with pytest.raises(TandemError) as caught:
        await collect(client.generate(decode.http, ticket, PrefillPath.HANDOFF))
    assert caught.value.code is ErrorCode.TICKET_UNKNOWN


async def test_a_worker_that_takes_requests_or_holds_any_is_not_switched(fleet, client):
    worker = fleet.decode[0]
    error = await refused(client, worker, Role.PREFILL)
    assert (error.code, error.message) == (ErrorCode.NOT_IDLE, "the worker takes new requests; drain it first")
    ticket = await client.reserve(worker.http, PROMPT, GREEDY)
    await client.drain(worker.http)
    error = await refused(client, worker, Role.PREFILL)
    assert error.code is ErrorCode.NOT_IDLE
    assert "1 tickets" in error.message
    await client.release(worker.http, ticket.ticket_id)
    assert (await client.switch(worker.http, Role.PREFILL)).role is Role.PREFILL


async def test_a_hand_off_under_way_keeps_a_prefill_worker_from_switching(client):
    async with stub_fleet(settings=StubSettings(prefill_s_per_token=0.005)) as fleet:
        worker, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, "x" * 100, GREEDY)
        running = asyncio.create_task(collect(client.prefill(worker.http, ticket, GREEDY)))
        while not worker.load.handoffs:
            await asyncio.sleep(0.005)
        await client.drain(worker.http)
        assert "1 hand-offs" in (await refused(client, worker, Role.DECODE)).message
        await running
        assert (await client.switch(worker.http, Role.DECODE)).role is Role.DECODE


async def test_a_refusing_engine_leaves_the_worker_what_it_was(fleet, client):
    worker = plant(fleet, FaultKind.REFUSE)
    before = await client.answer_by_handoff(worker.http, fleet.decode[0].http, PROMPT, GREEDY)
    await client.drain(worker.http)
    error = await refused(client, worker, Role.DECODE)
    assert (error.code, error.message) == (ErrorCode.SWITCH_REFUSED, "refused at switch (planted)")
    status = await client.drain(worker.http, undo=True)
    assert (status.role, status.ready, status.healthy, status.transfer) == (Role.PREFILL, True, True, None)
    again = await client.answer_by_handoff(worker.http, fleet.decode[0].http, PROMPT, GREEDY)
    assert again.token_ids == before.token_ids
    assert (await flip(client, worker, Role.DECODE)).role is Role.DECODE, "the next order is a new try"


async def test_a_worker_becomes_unified_and_comes_back(fleet, client):
    prefill, worker = fleet.prefill[0], fleet.decode[0]
    before = await client.answer_by_handoff(prefill.http, worker.http, PROMPT, GREEDY)
    status = await flip(client, worker, Role.UNIFIED)
    assert (status.role, status.transfer) == (Role.UNIFIED, None)
    assert (await client.answer_here(worker.http, PROMPT, GREEDY)).token_ids == before.token_ids
    assert (await flip(client, worker, Role.DECODE)).transfer is not None
    assert (await client.answer_by_handoff(prefill.http, worker.http, PROMPT, GREEDY)).token_ids == before.token_ids


async def test_the_role_it_has_already_is_an_answer_and_no_change(fleet, client):
    assert (await client.switch(fleet.decode[0].http, Role.DECODE)).role is Role.DECODE


async def test_a_loading_worker_is_not_switched(fleet, client):
    fleet.decode[0].server.worker.state.ready = False
    await client.drain(fleet.decode[0].http)
    assert (await refused(client, fleet.decode[0], Role.PREFILL)).code is ErrorCode.NOT_READY
    fleet.decode[0].server.worker.state.ready = True


async def test_while_it_switches_nothing_is_taken_and_a_second_order_waits_for_the_same_change(fleet, client):
    worker = fleet.prefill[0]
    worker.engine.faults.plant(Fault(point=FaultPoint.SWITCH, kind=FaultKind.SLOW, seconds=0.3))
    await client.drain(worker.http)
    first = asyncio.create_task(client.switch(worker.http, Role.DECODE))
    while worker.server.worker.state.switching_to is None:
        await asyncio.sleep(0.005)
    assert (await client.drain(worker.http, undo=True)).role is Role.PREFILL
    with pytest.raises(TandemError, match="changing its role to decode"):
        worker.server.worker.state.check_open()
    assert (await refused(client, worker, Role.PREFILL)).code is ErrorCode.NOT_IDLE
    assert (await client.switch(worker.http, Role.DECODE)).role is Role.DECODE
    assert (await first).role is Role.DECODE


async def test_a_caller_that_leaves_does_not_stop_the_change(fleet, client):
    worker = fleet.prefill[0]
    worker.engine.faults.plant(Fault(point=FaultPoint.SWITCH, kind=FaultKind.SLOW, seconds=0.2))
    await client.drain(worker.http)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.switch(worker.http, Role.DECODE)
    async with asyncio.timeout(5):
        while (await client.status(worker.http)).role is not Role.DECODE:
            await asyncio.sleep(0.01)


async def test_an_engine_that_hangs_in_the_change_ends_the_worker_because_nobody_knows_what_it_is(client):
    async with stub_fleet(limits=WorkerLimits(switch_s=0.2)) as fleet:
        worker = plant(fleet, FaultKind.HANG)
        await client.drain(worker.http)
        error = await refused(client, worker, Role.DECODE)
        assert (error.code, error.message) == (
            ErrorCode.SWITCH_REFUSED,
            "the engine did not become decode within 0.2 s",
        )
        status = await client.status(worker.http)
        assert (status.role, status.healthy, status.failure) == (Role.PREFILL, False, error.message)


async def test_a_crash_in_the_change_is_a_lost_connection(client):
    async with stub_fleet() as fleet:
        worker = plant(fleet, FaultKind.CRASH)
        await client.drain(worker.http)
        with pytest.raises(aiohttp.ClientError):
            async with asyncio.timeout(5):
                await client.switch(worker.http, Role.DECODE)
        assert not worker.alive


async def test_without_the_bearer_no_role_changes(fleet):
    async with WorkerClient("another secret") as stranger:
        assert (await refused(stranger, fleet.decode[0], Role.PREFILL)).code is ErrorCode.UNAUTHENTICATED


async def test_windows_and_metrics_tell_apart_what_was_done_in_which_role(fleet, client):
    prefill, decode = fleet.prefill[0], fleet.decode[0]
    await client.answer_by_handoff(prefill.http, decode.http, PROMPT, GREEDY)
    await flip(client, decode, Role.PREFILL, pool_id="pool-prefill")
    await flip(client, prefill, Role.DECODE, pool_id="pool-decode")
    await client.answer_by_handoff(decode.http, prefill.http, PROMPT, GREEDY)
    decode.server.worker.recorder.close_window()
    windows = (await client.windows(decode.http)).windows
    told = {}
    for window in windows:
        told.setdefault((window.pool_id, window.role), []).append(window)
    assert told.keys() == {("pool-decode", Role.DECODE), ("pool-prefill", Role.PREFILL)}
    prompt_tokens = {
        role: sum(w.counters.get(Counter.PROMPT_TOKENS, 0) for w in of_role) for (_, role), of_role in told.items()
    }
    assert prompt_tokens == {Role.DECODE: 0, Role.PREFILL: len(PROMPT)}
    moved = {role: sum(w.counters.get(Counter.TRANSFER_BYTES, 0) for w in ws) for (_, role), ws in told.items()}
    assert moved[Role.DECODE] == moved[Role.PREFILL] > 0
    metrics = await client.metrics(decode.http)
    assert set(re.findall(r'role="(\w+)"', metrics)) == {"prefill"}
    assert re.search(r"tandem_kv_transfer_received_bytes_total\{[^}]*\} 0\.0", metrics)
