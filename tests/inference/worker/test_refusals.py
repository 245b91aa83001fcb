"""Every refused call: which status, which code, which field, and nothing held afterwards."""

import asyncio

import aiohttp
import pytest

from inference.contracts import names
from inference.contracts.auth import PURPOSE_METRICS, PURPOSE_WORKER_HTTP, bearer
from inference.contracts.codec import decode, encode
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import GenerateRequest, HandoffDone, WorkerError
from inference.contracts.prompts import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import PrefillPath, Role
from inference.testing.fleet import SECRET, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.testing.worker_client import collect, failure, url
from inference.worker.limits import WorkerLimits

GREEDY = Sampling(max_tokens=8, temperature=0.0)

CALLS = [
    ("POST", names.WORKER_RESERVE),
    ("POST", names.WORKER_PREFILL),
    ("POST", names.WORKER_GENERATE),
    ("POST", names.WORKER_EMBED),
    ("DELETE", names.WORKER_TICKETS + "/0"),
    ("GET", names.WORKER_STATUS),
    ("POST", names.WORKER_DRAIN),
    ("POST", names.WORKER_UNDRAIN),
    ("GET", names.WORKER_WINDOWS),
    ("GET", names.HEALTH_READY),
    ("GET", names.METRICS),
    ("GET", "/no/such/path"),
]


async def refused(call) -> TandemError:
    with pytest.raises(TandemError) as error:
        await call
    return error.value


# -- who may call ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": bearer("another-secret", PURPOSE_WORKER_HTTP)},
        {"Authorization": f"Bearer {SECRET}"},
    ],
)
async def test_every_call_but_liveness_needs_the_bearer(fleet, headers):
    async with aiohttp.ClientSession(headers=headers) as stranger:
        for method, path in CALLS:
            async with stranger.request(method, url(fleet.decode[0].http, path)) as answer:
                assert answer.status == 401, path
                assert decode(await answer.read(), WorkerError).code == ErrorCode.UNAUTHENTICATED
        async with stranger.get(url(fleet.decode[0].http, names.HEALTH_LIVE)) as answer:
            assert answer.status == 200
    assert not fleet.decode[0].server.worker.state.draining


async def test_the_metrics_bearer_opens_metrics_only(fleet):
    async with aiohttp.ClientSession(headers={"Authorization": bearer(SECRET, PURPOSE_METRICS)}) as scraper:
        async with scraper.get(url(fleet.decode[0].http, names.METRICS)) as answer:
            assert answer.status == 200
        async with scraper.get(url(fleet.decode[0].http, names.WORKER_STATUS)) as answer:
            assert answer.status == 401


# -- what is asked -----------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"request_id": 3}', b"\xff\xfe", b"\x80\x04\x95pickle"])
@pytest.mark.parametrize("path", [names.WORKER_RESERVE, names.WORKER_PREFILL, names.WORKER_GENERATE])
async def test_what_is_no_message_is_refused_with_400(fleet, client, path, body):
    async with client.session.post(url(fleet.decode[0].http, path), data=body) as answer:
        assert answer.status == 400
        assert decode(await answer.read(), WorkerError).code == ErrorCode.UNREADABLE


async def test_unknown_paths_and_methods_are_typed_errors(fleet, client):
    async with client.session.get(url(fleet.decode[0].http, "/no/such/path")) as answer:
        assert (answer.status, decode(await answer.read(), WorkerError).code) == (404, "unreadable")
    async with client.session.get(url(fleet.decode[0].http, names.WORKER_RESERVE)) as answer:
        assert (answer.status, decode(await answer.read(), WorkerError).code) == (405, "unreadable")


async def test_bodies_beyond_the_limit_are_refused(client):
    async with (
        stub_fleet(0, 1, limits=WorkerLimits(max_body_bytes=1000)) as fleet,
        client.session.post(url(fleet.decode[0].http, names.WORKER_RESERVE), data=b"x" * 2000) as answer,
    ):
        assert answer.status == 413
        assert decode(await answer.read(), WorkerError).code == ErrorCode.UNREADABLE


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        (Sampling(max_tokens=0), "max_tokens"),
        (Sampling(max_tokens=-1), "max_tokens"),
        (Sampling(max_tokens=1, temperature=-0.1), "temperature"),
        (Sampling(max_tokens=1, top_p=0.0), "top_p"),
        (Sampling(max_tokens=1, top_p=1.1), "top_p"),
        (Sampling(max_tokens=1, top_k=-1), "top_k"),
        (Sampling(max_tokens=1, stop=("",)), "stop"),
    ],
)
async def test_sampling_that_can_not_be_is_refused_before_any_prefill(fleet, client, sampling, param):
    error = await refused(client.reserve(fleet.decode[0].http, "hello", sampling))
    assert (error.code, error.param) == (ErrorCode.INVALID_REQUEST, param)
    assert fleet.decode[0].idle


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (TextPrompt(text=""), "prompt"),
        (TokenPrompt(token_ids=()), "prompt"),
        (TokenPrompt(token_ids=(1, 99_999)), "prompt"),
        (ChatPrompt(messages=(ChatMessage(role="wizard", content="x"),)), "messages"),
    ],
)
async def test_prompts_that_can_not_be_laid_out_are_refused(fleet, client, prompt, param):
    error = await refused(client.reserve(fleet.decode[0].http, prompt, GREEDY))
    assert (error.code, error.param) == (ErrorCode.INVALID_REQUEST, param)


async def test_another_models_name_is_not_found(fleet, client):
    error = await refused(client.reserve(fleet.decode[0].http, "hello", GREEDY, model_name="gpt"))
    assert (error.code, error.param) == (ErrorCode.MODEL_NOT_FOUND, "model")


async def test_too_long_is_refused_with_both_numbers(client):
    """F30: at the limit it goes, one token beyond it does not."""
    async with stub_fleet(0, 1, settings=StubSettings(context_length=64)) as fleet:
        http = fleet.decode[0].http
        ticket = await client.reserve(http, "x" * 56, GREEDY)
        await client.release(http, ticket.ticket_id)
        error = await refused(client.reserve(http, "x" * 57, GREEDY))
        assert error.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED
        assert "64" in error.message
        assert "65" in error.message
        assert error.param == "prompt"
        assert fleet.decode[0].idle


@pytest.mark.parametrize(("prompt_tokens", "limit"), [(10, 30), (50, 14), (63, 1)])
async def test_a_default_limit_is_clipped_to_what_fits(client, prompt_tokens, limit):
    async with stub_fleet(0, 1, settings=StubSettings(context_length=64)) as fleet:
        http = fleet.decode[0].http
        asked = Sampling(max_tokens=30)
        ticket = await client.reserve(http, "x" * prompt_tokens, asked, clip_max_tokens=True)
        assert ticket.max_tokens == limit
        answer = await collect(client.generate(http, ticket, PrefillPath.LOCAL))
        assert len(answer.token_ids) == limit


async def test_a_default_limit_is_clipped_to_the_kv_there_is(client):
    async with stub_fleet(0, 1, settings=StubSettings(kv_blocks=4, context_length=4096)) as fleet:
        ticket = await client.reserve(fleet.decode[0].http, "x" * 50, Sampling(max_tokens=99), clip_max_tokens=True)
        assert ticket.max_tokens == 14


async def test_a_prompt_that_leaves_no_room_is_refused_even_when_clipping(client):
    async with stub_fleet(0, 1, settings=StubSettings(context_length=64)) as fleet:
        call = client.reserve(fleet.decode[0].http, "x" * 64, GREEDY, clip_max_tokens=True)
        assert (await refused(call)).code is ErrorCode.CONTEXT_LENGTH_EXCEEDED


async def test_long_prompts_are_tokenised_beside_the_event_loop(client):
    async with stub_fleet(0, 1, limits=WorkerLimits(inline_chars=10)) as fleet:
        ticket = await client.reserve(fleet.decode[0].http, "x" * 500, GREEDY)
        assert len(ticket.token_ids) == 500


# -- who is asked --------------------------------------------------------------------------------------


async def test_each_role_takes_its_own_calls_only(client):
    """A call to the wrong role comes from an old routing table: to be tried elsewhere, not the client's to mend."""
    async with stub_fleet(1, 1, 1) as fleet:
        prefill, decode_worker, unified = fleet.prefill[0], *fleet.decode
        error = await refused(client.reserve(prefill.http, "hello", GREEDY))
        assert error.code is ErrorCode.NOT_READY
        assert "no answers" in error.message
        ticket = await client.reserve(decode_worker.http, "hello", GREEDY)
        for worker in (decode_worker, unified):
            assert worker.spec.role is not Role.PREFILL
            error = await refused(collect(client.prefill(worker.http, ticket, GREEDY)))
            assert error.code is ErrorCode.NOT_READY
        error = await refused(collect(client.generate(prefill.http, ticket, PrefillPath.LOCAL)))
        assert error.code is ErrorCode.NOT_READY


async def test_a_fingerprint_mismatch_is_refused_before_anything_is_computed(client):
    """F06: the ticket stays usable, so that the router may send the prompt to a prefill worker that matches."""
    async with stub_fleet(1, 1) as fleet:
        other = await fleet.add(Role.PREFILL, StubSettings(block_size=32))
        decode_worker = fleet.decode[0]
        ticket = await client.reserve(decode_worker.http, "hello", GREEDY)
        error = await refused(collect(client.prefill(other.http, ticket, GREEDY)))
        assert error.code is ErrorCode.FINGERPRINT_MISMATCH
        assert "stub-1/block16" in error.message
        assert "stub-1/block32" in error.message
        assert other.idle
        answer = await collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY))
        assert isinstance(answer.end, HandoffDone)


# -- tickets -------------------------------------------------------------------------------------------


async def test_an_unknown_ticket_is_404_everywhere(fleet, client):
    http = fleet.decode[0].http
    order = GenerateRequest(request_id="r", ticket_id="0" * 32, path=PrefillPath.LOCAL)
    async with client.session.post(url(http, names.WORKER_GENERATE), data=encode(order)) as answer:
        assert answer.status == 404
    async with client.session.delete(url(http, names.WORKER_TICKETS + "/" + "0" * 32)) as answer:
        assert answer.status == 404
        assert decode(await answer.read(), WorkerError).code == ErrorCode.TICKET_UNKNOWN


async def test_a_ticket_is_answered_once(fleet, client):
    http = fleet.decode[0].http
    ticket = await client.reserve(http, "hello", GREEDY)
    await collect(client.generate(http, ticket, PrefillPath.LOCAL))
    error = await refused(collect(client.generate(http, ticket, PrefillPath.LOCAL)))
    assert error.code is ErrorCode.TICKET_UNKNOWN


async def test_two_calls_can_not_wait_for_one_ticket(fleet, client):
    http = fleet.decode[0].http
    ticket = await client.reserve(http, "hello", GREEDY)
    waiting = asyncio.create_task(collect(client.generate(http, ticket, PrefillPath.HANDOFF)))
    while not fleet.decode[0].server.worker.duties.tickets.find(ticket.ticket_id).callers:
        await asyncio.sleep(0.005)
    error = await refused(collect(client.generate(http, ticket, PrefillPath.HANDOFF)))
    assert error.code is ErrorCode.TICKET_UNKNOWN
    await client.release(http, ticket.ticket_id)
    assert failure(await waiting).code == ErrorCode.CANCELLED


async def test_an_expired_ticket_is_410_and_frees_its_blocks(client):
    async with stub_fleet(1, 1, limits=WorkerLimits(lease_s=0.05)) as fleet:
        http = fleet.decode[0].http
        ticket = await client.reserve(http, "hello", GREEDY)
        await fleet.settled()
        order = GenerateRequest(request_id="r", ticket_id=ticket.ticket_id, path=PrefillPath.LOCAL)
        async with client.session.post(url(http, names.WORKER_GENERATE), data=encode(order)) as answer:
            assert answer.status == 410
        error = failure(await collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY)))
        assert error.code == ErrorCode.TICKET_EXPIRED
        assert 'cause="ticket_expired",' in await client.metrics(http)
        await fleet.settled()


async def test_releasing_is_idempotent(fleet, client):
    http = fleet.decode[0].http
    ticket = await client.reserve(http, "hello", GREEDY)
    for _ in range(2):
        await client.release(http, ticket.ticket_id)
    assert fleet.decode[0].idle


async def test_the_number_of_tickets_is_bounded(client):
    async with stub_fleet(0, 1, limits=WorkerLimits(max_tickets=2)) as fleet:
        http = fleet.decode[0].http
        for _ in range(2):
            await client.reserve(http, "hello", GREEDY)
        assert (await refused(client.reserve(http, "hello", GREEDY))).code is ErrorCode.QUEUE_FULL


async def test_no_more_tickets_than_places_in_the_batch(client):
    async with stub_fleet(0, 1, settings=StubSettings(kv_blocks=4096)) as fleet:
        worker = fleet.decode[0]
        for _ in range(EngineSettings().max_running):
            await client.reserve(worker.http, "hello", GREEDY)
        assert (await refused(client.reserve(worker.http, "hello", GREEDY))).code is ErrorCode.QUEUE_FULL


async def test_the_number_of_prefills_is_bounded(client):
    async with stub_fleet(1, 1, limits=WorkerLimits(max_prefills=0)) as fleet:
        ticket = await client.reserve(fleet.decode[0].http, "hello", GREEDY)
        error = await refused(collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY)))
        assert error.code is ErrorCode.QUEUE_FULL


async def test_no_room_on_decode_is_503_at_once(client):
    async with stub_fleet(0, 1, settings=StubSettings(kv_blocks=2)) as fleet:
        http = fleet.decode[0].http
        await client.reserve(http, "x" * 20, GREEDY)
        assert (await refused(client.reserve(http, "x", GREEDY))).code is ErrorCode.KV_FULL


async def test_no_room_on_prefill_is_503_after_a_bounded_wait(client):
    async with stub_fleet(1, 1, settings=StubSettings(kv_blocks=4), limits=WorkerLimits(kv_wait_s=0.05)) as fleet:
        taken = fleet.prefill[0].engine.reserve(64)
        ticket = await client.reserve(fleet.decode[0].http, "hello", GREEDY)
        error = await refused(collect(client.prefill(fleet.prefill[0].http, ticket, GREEDY)))
        assert error.code is ErrorCode.KV_FULL
        assert fleet.prefill[0].load.waiting == 0
        fleet.prefill[0].engine.release(taken)


# -- drain and readiness -------------------------------------------------------------------------------


async def test_a_draining_worker_finishes_what_it_has_and_takes_nothing_new(client):
    settings = StubSettings(decode_s_per_token=0.01)
    async with stub_fleet(1, 1, settings=settings) as fleet:
        prefill, decode_worker = fleet.prefill[0], fleet.decode[0]
        before = await client.reserve(decode_worker.http, "hello", GREEDY)
        assert (await client.drain(decode_worker.http)).draining
        assert (await refused(client.reserve(decode_worker.http, "hello", GREEDY))).code is ErrorCode.DRAINING
        first = await collect(client.prefill(prefill.http, before, GREEDY))
        assert isinstance(first.end, HandoffDone)
        rest = await collect(client.generate(decode_worker.http, before, PrefillPath.HANDOFF))
        assert len(rest.token_ids) == 7
        async with client.session.get(url(decode_worker.http, names.HEALTH_READY)) as answer:
            assert answer.status == 503
        assert not (await client.drain(decode_worker.http, undo=True)).draining
        assert (await client.answer_here(decode_worker.http, "hello", GREEDY)).text
        await fleet.settled()


async def test_a_draining_prefill_worker_counts_its_handoffs_until_they_are_decided(client):
    settings = StubSettings(prefill_s_per_token=0.002)
    async with stub_fleet(1, 1, settings=settings) as fleet:
        prefill, decode_worker = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode_worker.http, "x" * 100, GREEDY)
        running = asyncio.create_task(collect(client.prefill(prefill.http, ticket, GREEDY)))
        while prefill.load.running + prefill.load.waiting == 0:
            await asyncio.sleep(0.005)
        status = await client.drain(prefill.http)
        assert status.load is not None
        assert status.load.handoffs == 1
        other = await client.reserve(decode_worker.http, "y", GREEDY)
        assert (await refused(collect(client.prefill(prefill.http, other, GREEDY)))).code is ErrorCode.DRAINING
        assert isinstance((await running).end, HandoffDone)
        await fleet.settled(workers=[prefill])


async def test_a_worker_that_loads_refuses_and_says_so(client):
    async with stub_fleet(0, 1) as fleet:
        worker = fleet.decode[0]
        worker.server.worker.state.ready = False
        error = await refused(client.reserve(worker.http, "hello", GREEDY))
        assert (error.code, "loading" in error.message) == (ErrorCode.NOT_READY, True)
        status = await client.status(worker.http)
        assert (status.ready, status.fingerprint, status.load, status.healthy) == (False, None, None, True)
        assert "tandem_kv_transfer_sent_bytes_total" in await client.metrics(worker.http)
