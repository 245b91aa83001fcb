"""The native engine behind real worker servers: a disaggregated answer is the aggregated one, token for token."""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from inference.contracts.errors import ErrorCode
from inference.contracts.generation import Finished
from inference.contracts.prompts import ChatMessage, ChatPrompt, Prompt, TextPrompt
from inference.contracts.reports import Address
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import KVTransport, PrefillPath, Role
from inference.engine.model_runner import ModelRunner
from inference.engine.native import NativeEngine
from inference.testing.fleet import SECRET, stub_spec
from inference.testing.tampered_link import TamperedLink
from inference.testing.tiny_model import write_tiny_model
from inference.testing.worker_client import WorkerClient, collect, failure
from inference.transfer.base import TransferSettings
from inference.worker.limits import WorkerLimits
from inference.worker.server import WorkerServer
from inference.worker.sink import RequestSink

PROMPTS = [
    TextPrompt(text="x"),
    TextPrompt(text="sixteen letters!"),
    TextPrompt(text="서울은 어느 나라의 수도입니까? 한 문장으로 답해 주세요."),
    TextPrompt(text="🙂👩‍🚀🇰🇷"),
    TextPrompt(text="def fibonacci(n):\n    if n < 2:\n        return n\n" * 3),
    TextPrompt(text="The quick brown fox jumps over the lazy dog. " * 6),
    ChatPrompt(messages=(ChatMessage(role="user", content="What is the capital of France?"),)),
    ChatPrompt(
        messages=(
            ChatMessage(role="system", content="Answer briefly."),
            ChatMessage(role="user", content="안녕하세요!"),
            ChatMessage(role="assistant", content="안녕하세요."),
            ChatMessage(role="user", content="Write a haiku about rivers."),
        )
    ),
]


#: Layers, K and V, heads, elements of a head, bytes of a float32.
BYTES_PER_TOKEN = 4 * 2 * 2 * 16 * 4


@contextlib.asynccontextmanager
async def pair(model: Path, limits: WorkerLimits | None = None, **settings):
    """A prefill and a decode worker of `model`: their addresses."""
    limits = limits or WorkerLimits()
    servers, addresses = [], []
    try:
        for number, role in enumerate((Role.PREFILL, Role.DECODE)):
            chosen = EngineSettings(**({"kv_tokens": 2048, "prefill_chunk_tokens": 32, "threads": 1} | settings))
            engine = NativeEngine(str(model), "stub", role, chosen)
            spec = msgspec.structs.replace(stub_spec(role, number), settings=chosen)
            server = WorkerServer(spec, engine, SECRET, limits)
            servers.append(server)
            addresses.append(await server.listen())
            assert await server.load(), server.worker.state.failure
        yield addresses
        for server in servers:
            async with asyncio.timeout(5):
                while server.worker.load_now().kv_blocks_used:
                    await asyncio.sleep(0.01)
    finally:
        for server in servers:
            await server.stop()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


async def equal(client: WorkerClient, addresses: list[Address], prompt, sampling: Sampling) -> None:
    prefill, decode = addresses
    here = await client.answer_here(decode, prompt, sampling)
    there = await client.answer_by_handoff(prefill, decode, prompt, sampling)
    assert (there.token_ids, there.text) == (here.token_ids, here.text)
    assert isinstance(there.end, Finished)
    assert isinstance(here.end, Finished)
    assert (there.end.reason, there.end.completion_tokens) == (here.end.reason, here.end.completion_tokens)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_tokens=1, temperature=0.0),
        Sampling(max_tokens=2, temperature=0.0),
        Sampling(max_tokens=3, temperature=0.0),
        Sampling(max_tokens=40, temperature=0.0),
        Sampling(max_tokens=40, temperature=0.9, top_p=0.9, top_k=40, seed=1234),
        Sampling(max_tokens=40, temperature=0.0, stop=("a", "e")),
    ],
)
@pytest.mark.parametrize("prefix_cache", [True, False])
async def test_every_prompt_is_answered_alike(client, tiny, sampling, prefix_cache):
    async with pair(tiny, prefix_cache=prefix_cache) as addresses:
        for prompt in PROMPTS:
            await equal(client, addresses, prompt, sampling)


async def test_together_they_answer_as_alone(client, tiny):
    """A busy batch on both workers: hand-offs join and leave while others run."""
    sampling = Sampling(max_tokens=24, temperature=0.0)
    async with pair(tiny) as (prefill, decode):
        alone = [await client.answer_here(decode, prompt, sampling) for prompt in PROMPTS]
        together = await asyncio.gather(
            *(client.answer_by_handoff(prefill, decode, prompt, sampling) for prompt in PROMPTS)
        )
        assert [answer.token_ids for answer in together] == [answer.token_ids for answer in alone]


async def test_the_kv_counted_is_the_prompts(client, tiny):
    async with pair(tiny) as (prefill, decode):
        sampling = Sampling(max_tokens=2, temperature=0.0)
        ticket = await client.reserve(decode, PROMPTS[5], sampling)
        await collect(client.prefill(prefill, ticket, sampling))
        await collect(client.generate(decode, ticket, PrefillPath.HANDOFF))
        status = await client.status(decode)
        assert status.load.kv_bytes_received == len(ticket.token_ids) * BYTES_PER_TOKEN


@pytest.mark.parametrize("transport", [KVTransport.TCP, KVTransport.SHARED_MEMORY])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3_text"])  # the last two with windows
async def test_layers_that_travel_as_they_are_computed_are_answered_alike(client, tmp_path, family, transport):
    model = write_tiny_model(tmp_path / family, family=family)
    sampling = Sampling(max_tokens=12, temperature=0.0)
    async with pair(model, kv_transports=(transport,), kv_by_layer=True) as addresses:
        for prompt in PROMPTS:
            await equal(client, addresses, prompt, sampling)
        sent, received = [(await client.status(address)).load for address in addresses]
        assert sent.kv_bytes_sent == received.kv_bytes_received > 0
        assert f'transport="{transport}"' in await client.metrics(addresses[0])


@pytest.mark.parametrize("transport", [KVTransport.TCP, KVTransport.SHARED_MEMORY])
async def test_layers_of_a_chunk_have_arrived_before_it_is_computed(client, tiny, monkeypatch, transport):
    """The engine waits in its step, at each layer, until decode has it."""
    arrived, come = Counter(), threading.Condition()
    import_kv, progress, run = NativeEngine.import_kv, RequestSink.progress, ModelRunner.run
    order = []

    def noted_import(engine, handle, layers, start, end, *given):
        import_kv(engine, handle, layers, start, end, *given)
        with come:
            arrived.update(dict.fromkeys(layers, end - start))
            come.notify_all()

    def awaited_progress(sink, told):
        progress(sink, told)
        (layer,) = told.layers
        with come:
            assert come.wait_for(lambda: arrived[layer] == told.end, 10), "KV that was told of did not arrive"
        order.append((layer, told.end))

    def noted_run(runner, cache, pieces, on_layer=None):
        logits = run(runner, cache, pieces, on_layer)
        if on_layer is not None:
            order.append("computed")
        return logits

    monkeypatch.setattr(NativeEngine, "import_kv", noted_import)
    monkeypatch.setattr(RequestSink, "progress", awaited_progress)
    monkeypatch.setattr(ModelRunner, "run", noted_run)
    async with pair(tiny, kv_transports=(transport,), kv_by_layer=True, prefix_cache=False) as addresses:
        answer = await client.answer_by_handoff(*addresses, PROMPTS[4], Sampling(max_tokens=4, temperature=0.0))
    length = answer.end.prompt_tokens
    ends = [min(start + 32, length) for start in range(0, length, 32)]
    assert len(ends) > 3
    assert order == [event for end in ends for event in (*((layer, end) for layer in range(4)), "computed")]


async def test_what_was_read_before_is_told_as_cached_whoever_reads_it(client, tiny):
    sampling = Sampling(max_tokens=3, temperature=0.0)
    async with pair(tiny) as (prefill, decode):
        for path, expected in ((PrefillPath.HANDOFF, 0), (PrefillPath.HANDOFF, 256), (PrefillPath.LOCAL, 256)):
            ticket = await client.reserve(decode, PROMPTS[5], sampling)
            assert (len(ticket.token_ids), ticket.cached_tokens) == (270, expected)
            if path is PrefillPath.HANDOFF:
                read = await collect(client.prefill(prefill, ticket, sampling))
                assert read.end.cached_tokens == expected
            answer = await collect(client.generate(decode, ticket, path))
            assert answer.end.cached_tokens == (expected if path is PrefillPath.LOCAL else 0)


@pytest.mark.parametrize(
    ("settings", "taken", "narrow"),
    [
        ({}, KVTransport.SHARED_MEMORY, 1),
        ({"kv_transports": (KVTransport.TCP,)}, KVTransport.TCP, 1),
        ({"kv_transports": (), "kv_streams": 1}, KVTransport.TCP, 1),
        ({"kv_transports": (KVTransport.TCP,), "kv_wire_dtype": "bfloat16"}, KVTransport.TCP, 2),
    ],
)
async def test_kv_travels_as_the_settings_of_the_worker_say(client, tiny, settings, taken, narrow):
    async with pair(tiny, **settings) as addresses:
        answer = await client.answer_by_handoff(*addresses, PROMPTS[5], Sampling(max_tokens=4, temperature=0.0))
        length = answer.end.prompt_tokens
        (line,) = [
            line
            for line in (await client.metrics(addresses[0])).splitlines()
            if line.startswith("tandem_kv_transfers_sent_total{") and line.endswith(" 1.0")
        ]
        assert f'transport="{taken}"' in line
        sent, received = [(await client.status(address)).load for address in addresses]
        assert sent.kv_bytes_sent == received.kv_bytes_received == length * BYTES_PER_TOKEN // narrow


async def test_kv_is_not_shared_over_salts(client, tiny):
    sampling = Sampling(max_tokens=1, temperature=0.0)
    async with pair(tiny) as (_, decode):
        seen = []
        for salt in ("", "one", "one", "two", ""):
            ticket = await client.reserve(decode, PROMPTS[5], sampling, cache_salt=salt)
            seen.append(ticket.cached_tokens)
            await collect(client.generate(decode, ticket, PrefillPath.LOCAL))
        assert seen == [0, 0, 256, 0, 256]


async def test_a_client_that_leaves_frees_both(client, tiny):
    async with pair(tiny) as (prefill, decode):
        for path in (PrefillPath.LOCAL, PrefillPath.HANDOFF):
            sampling = Sampling(max_tokens=400, temperature=0.0, ignore_eos=True)
            ticket = await client.reserve(decode, PROMPTS[4], sampling)
            if path is PrefillPath.HANDOFF:
                await collect(client.prefill(prefill, ticket, sampling))
            events = client.generate(decode, ticket, path)
            await anext(events)
            await events.aclose()


async def trade_places(client: WorkerClient, addresses: list[Address]) -> tuple[list[Address], float]:
    """Make prefill decode and decode prefill, as an agent does; who reads and who writes then, and the seconds that the
    slower of the two was neither."""
    slowest = 0.0
    for address, role in zip(addresses, (Role.DECODE, Role.PREFILL), strict=True):
        began = time.monotonic()
        await client.drain(address)
        assert (await client.switch(address, role)).role is role
        assert not (await client.drain(address, undo=True)).draining
        slowest = max(slowest, time.monotonic() - began)
    return addresses[::-1], slowest


async def answers_survive_trading_places(
    client: WorkerClient, addresses: list[Address], sampling: Sampling, prompts: list[Prompt]
) -> float:
    before = [await client.answer_by_handoff(*addresses, prompt, sampling) for prompt in prompts]
    slowest = 0.0
    for _ in range(2):
        addresses, seconds = await trade_places(client, addresses)
        slowest = max(slowest, seconds)
        statuses = [await client.status(address) for address in addresses]
        assert [status.load.kv_blocks_used for status in statuses] == [0, 0]
        for prompt, answer in zip(prompts, before, strict=True):
            again = await client.answer_by_handoff(*addresses, prompt, sampling)
            assert (again.token_ids, again.text) == (answer.token_ids, answer.text)
            await equal(client, addresses, prompt, sampling)
        sent, received = [(await client.status(address)).load for address in addresses]
        assert sent.kv_bytes_sent == received.kv_bytes_received > 0
    return slowest


async def test_after_trading_places_every_answer_is_the_same_and_kv_is_handed_over_and_verified(client, tiny):
    async with pair(tiny) as addresses:
        await answers_survive_trading_places(client, addresses, Sampling(max_tokens=12, temperature=0.0), PROMPTS)


async def test_damaged_kv_is_refused_after_trading_places_too(client, tiny):
    sampling = Sampling(max_tokens=4, temperature=0.0)
    over_tcp = TransferSettings(transports=(KVTransport.TCP,))
    async with pair(tiny, WorkerLimits(handoff=over_tcp)) as addresses:
        (prefill, decode), _ = await trade_places(client, addresses)
        async with TamperedLink((await client.status(decode)).transfer, flip_at=4000) as link:
            ticket = await client.reserve(decode, PROMPTS[5], sampling)
            ticket = msgspec.structs.replace(ticket, transfer=link.address)
            read = await collect(client.prefill(prefill, ticket, sampling))
        assert failure(read).code == ErrorCode.CHECKSUM_MISMATCH


@pytest.mark.model
async def test_the_default_model_trades_places_within_seconds_and_answers_the_same(
    client, default_model_dir, record_property
):
    async with pair(default_model_dir, prefill_chunk_tokens=64) as addresses:
        seconds = await answers_survive_trading_places(
            client, addresses, Sampling(max_tokens=6, temperature=0.0), [PROMPTS[2], PROMPTS[4], PROMPTS[6]]
        )
    record_property("slowest_change_of_role_ms", round(seconds * 1000))
    assert seconds < 5


@pytest.mark.model
async def test_the_default_model_answers_alike(client, default_model_dir):
    sampling = Sampling(max_tokens=10, temperature=0.0)
    async with pair(default_model_dir, prefill_chunk_tokens=64) as addresses:
        for prompt in PROMPTS:
            await equal(client, addresses, prompt, sampling)
        await equal(client, addresses, PROMPTS[6], Sampling(max_tokens=10, temperature=0.8, top_p=0.95, seed=5))
