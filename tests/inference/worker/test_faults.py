"""What breaks in the middle: the answer is right or says that it failed, and nothing stays held. Names of field reports
(F..) are kept in the docstrings."""

import asyncio
import contextlib

import msgspec
import pytest

from inference.contracts import names
from inference.contracts.auth import PURPOSE_WORKER_HTTP, bearer
from inference.contracts.codec import encode
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished, GenerateRequest, HandoffDone, StreamFailed, TokenDelta
from inference.contracts.sampling import Sampling
from inference.contracts.states import KVTransport, PrefillPath, Role
from inference.contracts.timings import Latency
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.fleet import SECRET, StubFleet, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.testing.tampered_link import TamperedLink
from inference.testing.worker_client import Answer, WorkerClient, collect, failure
from inference.transfer.base import TransferLimits, TransferSettings
from inference.worker.limits import WorkerLimits

GREEDY = Sampling(max_tokens=8, temperature=0.0)
LONG = "x" * 200
SLOW_PREFILL = StubSettings(prefill_s_per_token=0.002)
SLOW_DECODE = StubSettings(decode_s_per_token=0.02)
QUICK = WorkerLimits(
    lease_s=0.5,
    handoff_wait_s=5,
    handoff_s=0.5,
    transfer=TransferLimits(open_s=0.5, frame_s=0.3, verdict_s=0.3, abort_s=0.3),
)

#: Only over TCP does KV pass a bad network.
OVER_TCP = msgspec.structs.replace(QUICK, handoff=TransferSettings(transports=(KVTransport.TCP,)))


async def pair(client: WorkerClient, fleet: StubFleet, prompt: str = LONG, **changed) -> tuple[Answer, Answer]:
    """What prefill and decode each say of one request, both called at once as a router does."""
    decode = fleet.decode[0].http
    ticket = msgspec.structs.replace(await client.reserve(decode, prompt, GREEDY), **changed)
    return await asyncio.gather(
        collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY)),
        collect(client.generate(decode, ticket, PrefillPath.HANDOFF)),
    )


def faulty(point: FaultPoint, kind: FaultKind, **more) -> Fault:
    return Fault(point=point, kind=kind, **more)


# -- wrong KV --------------------------------------------------------------------------------------


async def test_damaged_kv_never_becomes_an_answer(client):
    """F01: 20 identical prompts, every fifth over a line that flips a bit."""
    async with stub_fleet(limits=OVER_TCP) as fleet:
        right = (await client.answer_here(fleet.decode[0].http, LONG, GREEDY)).text
        transfer = fleet.decode[0].route.transfer
        broken = 0
        for number in range(20):
            async with TamperedLink(transfer, flip_at=2000 if number % 5 == 0 else None) as link:
                first, rest = await pair(client, fleet, transfer=link.address)
            if isinstance(rest.end, Finished):
                assert first.text + rest.text == right
            else:
                broken += 1
                assert failure(first).code == failure(rest).code == ErrorCode.CHECKSUM_MISMATCH
                assert rest.token_ids == []
            await fleet.settled()
        assert broken == 4
        metrics = await client.metrics(fleet.decode[0].http)
        assert 'tandem_kv_transfer_failures_total{cause="checksum_mismatch"' in metrics
        assert next(line for line in metrics.splitlines() if "checksum_mismatch" in line).endswith(" 4.0")


async def test_a_prefill_worker_without_the_secret_hands_nothing_over_and_nothing_stays_held(client):
    """Prefill's blocks come back at once; a stranger must not end a ticket, so decode's come back with its lease."""
    async with stub_fleet(0, 1, limits=QUICK) as fleet, stub_fleet(1, 0, limits=QUICK, secret="another") as strangers:
        decode, stranger = fleet.decode[0], strangers.prefill[0]
        ticket = await client.reserve(decode.http, LONG, GREEDY)
        async with WorkerClient("another") as outside:
            said = failure(await collect(outside.prefill(stranger.http, ticket, GREEDY)))
            assert said.code == ErrorCode.UNAUTHENTICATED
            assert 'cause="unauthenticated",' in await outside.metrics(stranger.http)
        await strangers.settled()
        assert decode.load.kv_bytes_received == 0
        async with asyncio.timeout(3):
            while 'cause="unauthenticated",' not in await client.metrics(decode.http):
                await asyncio.sleep(0.01)
        await fleet.settled()
        with pytest.raises(TandemError) as late:
            await collect(client.generate(decode.http, ticket, PrefillPath.HANDOFF))
        assert late.value.code is ErrorCode.TICKET_EXPIRED


async def test_kv_for_a_ticket_nobody_issued_is_refused_and_nothing_stays_held(client):
    async with stub_fleet(limits=QUICK) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, LONG, GREEDY)
        unknown = msgspec.structs.replace(ticket, ticket_id="f" * 32)
        said = failure(await collect(client.prefill(prefill.http, unknown, GREEDY)))
        assert said.code == ErrorCode.TICKET_UNKNOWN
        for worker in (prefill, decode):
            assert 'cause="ticket_unknown",' in await client.metrics(worker.http)
        await fleet.settled(workers=[prefill])
        assert decode.load.kv_bytes_received == 0
        await client.release(decode.http, ticket.ticket_id)
        await fleet.settled()


async def test_half_the_blocks_are_not_an_answer(client):
    """F01: the connection is cut in the middle."""
    async with stub_fleet(limits=OVER_TCP) as fleet, TamperedLink(fleet.decode[0].route.transfer, cut_at=6000) as link:
        first, rest = await pair(client, fleet, transfer=link.address)
        assert failure(first).code == failure(rest).code == ErrorCode.TRANSFER_FAILED
        assert rest.token_ids == []
        await fleet.settled()


# -- leases ------------------------------------------------------------------------------------------


async def test_a_waiting_generate_call_holds_its_ticket_past_the_lease(client):
    """F02: prefill takes three leases, and nothing expires as long as somebody waits."""
    settings = StubSettings(prefill_chunk_tokens=1000, prefill_s_per_token=0.003)
    async with stub_fleet(settings=settings, limits=WorkerLimits(lease_s=0.2)) as fleet:
        first, rest = await pair(client, fleet)
        assert isinstance(first.end, HandoffDone)
        assert isinstance(rest.end, Finished)
        await fleet.settled()


async def test_a_prompt_that_queues_for_many_leases_keeps_its_ticket_and_its_wait_is_measured(client):
    """The prefill worker has room for one prompt at a time: for the others not one frame comes for a long while."""
    async with stub_fleet(0, 1, limits=WorkerLimits(lease_s=0.2)) as fleet:
        await fleet.add(Role.PREFILL, StubSettings(kv_blocks=13, prefill_s_per_token=0.002))
        for first, rest in await asyncio.gather(*(pair(client, fleet) for _ in range(3))):
            assert isinstance(first.end, HandoffDone)
            assert isinstance(rest.end, Finished)
        await fleet.settled()
        recorder = fleet.prefill[0].server.worker.recorder
        recorder.close_window()
        queue = recorder.total.latencies[Latency.QUEUE]
        assert queue.total == 3
        assert queue.quantile(1.0) > 0.7


async def test_without_a_waiting_call_the_lease_ends_and_the_late_kv_is_refused(client):
    """F02, the other half: nobody waits (the router died), so the blocks come back within a lease."""
    settings = StubSettings(prefill_chunk_tokens=1000, prefill_s_per_token=0.003)
    async with stub_fleet(settings=settings, limits=WorkerLimits(lease_s=0.2)) as fleet:
        ticket = await client.reserve(fleet.decode[0].http, LONG, GREEDY)
        prefill = asyncio.create_task(collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY)))
        await fleet.settled(within_s=0.5, workers=fleet.decode)
        assert failure(await prefill).code == ErrorCode.TICKET_EXPIRED
        await fleet.settled()


async def test_when_decode_dies_prefill_frees_its_blocks_at_once(client):
    """F02: decode is killed while the hand-off is under way."""
    async with stub_fleet(settings=SLOW_PREFILL, limits=QUICK) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, LONG, GREEDY)
        running = asyncio.create_task(collect(client.prefill(prefill.http, ticket, GREEDY)))
        while decode.load.kv_bytes_received == 0:
            await asyncio.sleep(0.005)
        await decode.kill()
        assert failure(await running).code == ErrorCode.TRANSFER_FAILED
        await fleet.settled(workers=[prefill])


async def test_when_prefill_dies_the_waiting_call_hears_of_it_at_once(client):
    """F15: the partner leg does not wait for a time-out."""
    async with stub_fleet(settings=SLOW_PREFILL) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, LONG, GREEDY)
        waiting = asyncio.create_task(collect(client.generate(decode.http, ticket, PrefillPath.HANDOFF)))
        running = asyncio.create_task(collect(client.prefill(prefill.http, ticket, GREEDY)))
        while decode.load.kv_bytes_received == 0:
            await asyncio.sleep(0.005)
        await prefill.kill()
        async with asyncio.timeout(2):
            assert failure(await waiting).code in (ErrorCode.TRANSFER_FAILED, ErrorCode.CANCELLED)
        with contextlib.suppress(Exception):
            await running
        await fleet.settled()


async def test_kv_that_never_comes_ends_the_wait(client):
    async with stub_fleet(limits=msgspec.structs.replace(QUICK, handoff_wait_s=0.1)) as fleet:
        ticket = await client.reserve(fleet.decode[0].http, LONG, GREEDY)
        answer = await collect(client.generate(fleet.decode[0].http, ticket, PrefillPath.HANDOFF))
        assert failure(answer).code == ErrorCode.DEADLINE_EXCEEDED
        await fleet.settled()


async def test_a_decode_worker_that_stops_reading_is_given_up_on(client):
    """F15, F18: SIGSTOP looks like this from outside."""
    async with (
        stub_fleet(limits=OVER_TCP) as fleet,
        TamperedLink(fleet.decode[0].route.transfer, stall_at=3000) as link,
    ):
        ticket = await client.reserve(fleet.decode[0].http, LONG, GREEDY)
        ticket = msgspec.structs.replace(ticket, transfer=link.address)
        answer = await collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY))
        assert failure(answer).code in (ErrorCode.TRANSFER_FAILED, ErrorCode.DEADLINE_EXCEEDED)
        await fleet.settled(workers=fleet.prefill)


# -- faults of engines -----------------------------------------------------------------------------


@pytest.mark.parametrize("point", [FaultPoint.BEFORE_PREFILL, FaultPoint.AFTER_PREFILL, FaultPoint.MID_TRANSFER])
async def test_a_failing_prefill_ends_both_legs(client, point):
    """F15: both sides are told, with the cause, and both are free."""
    async with stub_fleet() as fleet:
        fleet.prefill[0].engine.faults.plant(faulty(point, FaultKind.REFUSE))
        first, rest = await pair(client, fleet)
        assert failure(first).code == failure(rest).code == ErrorCode.ENGINE_FAILED
        assert rest.token_ids == []
        await fleet.settled()
        first, rest = await pair(client, fleet)
        assert isinstance(rest.end, Finished)
        await fleet.settled()


@pytest.mark.parametrize("point", [FaultPoint.BEFORE_PREFILL, FaultPoint.AFTER_PREFILL, FaultPoint.MID_TRANSFER])
async def test_a_crashing_prefill_worker_ends_the_waiting_call(client, point):
    async with stub_fleet(settings=SLOW_PREFILL, limits=QUICK) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        prefill.engine.faults.plant(faulty(point, FaultKind.CRASH, after=0))
        ticket = await client.reserve(decode.http, LONG, GREEDY)
        waiting = asyncio.create_task(collect(client.generate(decode.http, ticket, PrefillPath.HANDOFF)))
        with pytest.raises(Exception, match=r"(?i)payload|disconnect|reset|closed"):
            await collect(client.prefill(prefill.http, ticket, GREEDY))
        await client.release(decode.http, ticket.ticket_id)  # what a router does when a leg breaks
        assert failure(await waiting).code in (ErrorCode.TRANSFER_FAILED, ErrorCode.CANCELLED)
        await fleet.settled()


async def test_a_hanging_prefill_is_noticed_and_its_client_may_leave(client):
    async with stub_fleet(limits=msgspec.structs.replace(QUICK, heartbeat_s=0.1)) as fleet:
        prefill = fleet.prefill[0]
        prefill.engine.faults.plant(faulty(FaultPoint.AFTER_PREFILL, FaultKind.HANG))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await pair(client, fleet)
        await fleet.settled()
        status = await client.status(prefill.http)
        assert not status.healthy


async def test_a_failing_decode_step_ends_the_stream_with_its_cause(client):
    async with stub_fleet() as fleet:
        fleet.decode[0].engine.faults.plant(faulty(FaultPoint.MID_DECODE, FaultKind.REFUSE, after=3))
        _, rest = await pair(client, fleet)
        assert failure(rest).code == ErrorCode.ENGINE_FAILED
        assert len(rest.token_ids) == 3
        await fleet.settled()


async def test_slow_is_not_failed(client):
    async with stub_fleet() as fleet:
        fleet.decode[0].engine.faults.plant(faulty(FaultPoint.MID_DECODE, FaultKind.SLOW, after=2, seconds=0.2))
        fleet.prefill[0].engine.faults.plant(faulty(FaultPoint.MID_TRANSFER, FaultKind.SLOW, seconds=0.2))
        first, rest = await pair(client, fleet)
        assert isinstance(first.end, HandoffDone)
        assert isinstance(rest.end, Finished)
        await fleet.settled()


# -- callers that leave ------------------------------------------------------------------------------


async def test_a_client_that_leaves_during_prefill_stops_it_within_a_chunk(client):
    """F07, many times over: no block stays, and the next request does not wait for the abandoned one."""
    async with stub_fleet(settings=SLOW_PREFILL, limits=WorkerLimits(lease_s=30)) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0].http
        for number in range(12):
            ticket = await client.reserve(decode, "y" * 500, GREEDY)
            legs = [
                asyncio.create_task(collect(client.prefill(prefill.http, ticket, GREEDY))),
                asyncio.create_task(collect(client.generate(decode, ticket, PrefillPath.HANDOFF))),
            ]
            sent = prefill.load.kv_bytes_sent
            while number % 2 and prefill.load.kv_bytes_sent == sent:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.01 * (number % 3))
            for leg in legs:
                leg.cancel()
            await asyncio.gather(*legs, return_exceptions=True)
            await fleet.settled(within_s=2)
        _, rest = await pair(client, fleet, prompt="short")
        assert isinstance(rest.end, Finished)


async def test_leaving_prefill_alone_frees_decode_too(client):
    """F08: the prefill worker tells decode, whoever else does not."""
    async with stub_fleet(settings=SLOW_PREFILL, limits=WorkerLimits(lease_s=30)) as fleet:
        for wait_s in (0, 0.001, 0.05, 0.2):
            ticket = await client.reserve(fleet.decode[0].http, LONG, GREEDY)
            leg = asyncio.create_task(collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY)))
            while fleet.prefill[0].load.handoffs == 0:
                await asyncio.sleep(0.001)
            await asyncio.sleep(wait_s)
            leg.cancel()
            await asyncio.gather(leg, return_exceptions=True)
            await fleet.settled(within_s=2)


async def test_leaving_between_prefill_and_decode_costs_one_lease_at_most(client):
    """F08: the router is killed in the gap; with a release it is at once."""
    async with stub_fleet(limits=WorkerLimits(lease_s=0.3)) as fleet:
        for release in (False, True):
            ticket = await client.reserve(fleet.decode[0].http, LONG, GREEDY)
            answer = await collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY))
            assert isinstance(answer.end, HandoffDone)
            if release:
                await client.release(fleet.decode[0].http, ticket.ticket_id)
                assert fleet.decode[0].idle
            else:
                await fleet.settled(within_s=1)


@pytest.mark.parametrize("path", [PrefillPath.LOCAL, PrefillPath.HANDOFF])
async def test_a_client_that_leaves_during_the_answer_frees_decode(client, path):
    """F27"""
    async with stub_fleet(settings=SLOW_DECODE, limits=WorkerLimits(lease_s=30)) as fleet:
        decode = fleet.decode[0]
        ticket = await client.reserve(decode.http, LONG, Sampling(max_tokens=500))
        if path is PrefillPath.HANDOFF:
            await collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY))
        events = client.generate(decode.http, ticket, path)
        assert isinstance(await anext(events), TokenDelta)
        await events.aclose()
        await fleet.settled(within_s=2)
        assert decode.engine.load().running == 0


async def test_releasing_a_ticket_ends_its_stream(client):
    async with stub_fleet(settings=SLOW_DECODE) as fleet:
        decode = fleet.decode[0].http
        ticket = await client.reserve(decode, LONG, Sampling(max_tokens=500))
        events = client.generate(decode, ticket, PrefillPath.LOCAL)
        await anext(events)
        await client.release(decode, ticket.ticket_id)
        last = None
        async for event in events:
            last = event
        assert isinstance(last, StreamFailed)
        assert last.code == ErrorCode.CANCELLED
        await fleet.settled()


# -- full memory -------------------------------------------------------------------------------------


async def test_more_prompts_than_fit_all_finish_and_the_impossible_one_is_refused(client):
    """F19: 20 blocks, six prompts of eight blocks, and one that is bigger than all."""
    settings = StubSettings(kv_blocks=20, prefill_s_per_token=0.0002)
    async with stub_fleet(settings=settings) as fleet:
        prompts = [f"{number}" + "z" * (8 * 16 - 9) for number in range(6)]
        alone = [await client.answer_here(fleet.decode[0].http, prompt, GREEDY) for prompt in prompts]

        async def whole(prompt: str) -> str:
            while True:  # a router waits for room like this
                try:
                    first, rest = await pair(client, fleet, prompt)
                except TandemError as error:
                    if error.code is not ErrorCode.KV_FULL:
                        raise
                    await asyncio.sleep(0.02)
                else:
                    return first.text + rest.text

        async with asyncio.timeout(10):
            texts = await asyncio.gather(*(whole(prompt) for prompt in prompts))
        assert texts == [answer.text for answer in alone]
        with pytest.raises(TandemError) as impossible:
            await client.reserve(fleet.decode[0].http, "z" * 321, GREEDY)
        assert impossible.value.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED
        await fleet.settled()


async def test_prefills_wait_in_line_for_blocks(client):
    """F19 on the other side: prefill has room for one prompt only, and nobody overtakes."""
    async with stub_fleet(0, 1) as fleet:
        narrow = await fleet.add(Role.PREFILL, StubSettings(kv_blocks=13, prefill_s_per_token=0.0005))
        decode = fleet.decode[0].http
        tickets = [await client.reserve(decode, LONG, GREEDY, request_id=f"r{n}") for n in range(4)]
        order: list[int] = []

        async def run(number: int) -> None:
            answer = await collect(client.prefill(narrow.http, tickets[number], GREEDY))
            assert isinstance(answer.end, HandoffDone)
            order.append(number)

        runs = []
        for number in range(4):
            runs.append(asyncio.create_task(run(number)))
            while narrow.load.handoffs <= number - len(order):
                await asyncio.sleep(0.001)
        waiting = narrow.load
        assert waiting.waiting >= 3
        assert waiting.waiting_tokens >= 3 * 200
        await asyncio.gather(*runs)
        assert order == [0, 1, 2, 3]
        for ticket in tickets:
            await client.release(decode, ticket.ticket_id)
        await fleet.settled()


# -- the worker's own end ----------------------------------------------------------------------------


async def test_a_stopping_worker_says_so_in_every_stream(client):
    async with stub_fleet(settings=StubSettings(decode_s_per_token=0.02, prefill_s_per_token=0.01)) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, "short", Sampling(max_tokens=500))
        answering = asyncio.create_task(collect(client.generate(decode.http, ticket, PrefillPath.LOCAL)))
        other = await client.reserve(decode.http, LONG, GREEDY)
        reading = asyncio.create_task(collect(client.prefill(prefill.http, other, GREEDY)))
        while not (prefill.load.running + prefill.load.waiting and decode.load.running):
            await asyncio.sleep(0.005)
        await prefill.stop()
        assert failure(await reading).code == ErrorCode.ENGINE_FAILED
        await decode.stop()
        assert failure(await answering).code == ErrorCode.ENGINE_FAILED


async def test_an_engine_whose_loop_died_fails_what_it_has_and_takes_nothing_new(client):
    async with stub_fleet(0, 1, settings=SLOW_DECODE) as fleet:
        decode = fleet.decode[0]
        ticket = await client.reserve(decode.http, "hello", GREEDY)
        running = asyncio.create_task(collect(client.generate(decode.http, ticket, PrefillPath.LOCAL)))
        while not decode.load.running:
            await asyncio.sleep(0.005)
        decode.engine.die("the device fell off the bus")
        assert failure(await running).code == ErrorCode.ENGINE_FAILED
        with pytest.raises(TandemError, match="fell off") as refused:
            await client.reserve(decode.http, "hello", GREEDY)
        assert refused.value.code is ErrorCode.NOT_READY
        status = await client.status(decode.http)
        assert (status.healthy, status.failure, status.fatal) == (False, "the device fell off the bus", False)
        await fleet.settled()


async def test_a_caller_that_takes_no_events_is_cut_off_and_its_blocks_are_freed(client):
    """A router that hangs, or whose machine is gone: no connection tells."""
    settings = StubSettings(pieces=(b"x" * 100_000,) * 400)
    async with stub_fleet(0, 1, settings=settings, limits=WorkerLimits(write_s=0.2)) as fleet:
        worker = fleet.decode[0]
        ticket = await client.reserve(worker.http, "hello", Sampling(max_tokens=400))
        body = encode(GenerateRequest(request_id="r", ticket_id=ticket.ticket_id, path=PrefillPath.LOCAL))
        reader, writer = await asyncio.open_connection(worker.http.host, worker.http.port, limit=1024)
        allowed = f"Authorization: {bearer(SECRET, PURPOSE_WORKER_HTTP)}\r\n"
        head = f"POST {names.WORKER_GENERATE} HTTP/1.1\r\nHost: x\r\n{allowed}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await fleet.settled()
        writer.close()
