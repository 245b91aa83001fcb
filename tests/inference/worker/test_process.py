"""The worker as a process: how it says where it is, how it fails, how it ends."""

import asyncio
import contextlib
import signal

import msgspec
import pytest

from inference.contracts.codec import encode, encode_text
from inference.contracts.errors import ErrorCode
from inference.contracts.generation import TokenDelta
from inference.contracts.sampling import Sampling
from inference.contracts.specs import DeviceAssignment, WorkerSpec
from inference.contracts.states import PrefillPath, Role
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.fleet import SECRET, stub_spec
from inference.testing.stub_settings import StubSettings
from inference.testing.worker_client import collect, failure
from inference.testing.worker_process import worker_process
from inference.transfer.base import TransferLimits
from inference.worker.limits import WorkerLimits

GREEDY = Sampling(max_tokens=8, temperature=0.0)
QUICK = {"TANDEM_WORKER_LIMITS": encode_text(WorkerLimits(failure_linger_s=0.3, stop_s=1))}


def stub(folder, settings: StubSettings, role: Role = Role.DECODE, number: int = 0) -> WorkerSpec:
    path = folder / f"settings-{number}.json"
    path.write_bytes(encode(settings))
    return msgspec.structs.replace(stub_spec(role, number), model_path=str(path))


def start(spec, folder, **environment: str):
    return worker_process(spec, folder, secret=SECRET, environment=QUICK | environment)


async def test_it_announces_bound_ports_answers_while_loading_and_serves(tmp_path, client):
    async with start(stub(tmp_path, StubSettings(load_s=0.5)), tmp_path) as worker:
        announcement = await worker.announced()
        assert announcement.pid == worker.process.pid
        assert announcement.worker_id == worker.spec.worker_id
        assert announcement.http.host == "127.0.0.1"
        assert announcement.transfer is not None
        status = await worker.status(client)
        assert (status.ready, status.healthy, status.failure) == (False, True, None)
        http = await worker.ready(client)
        answer = await client.answer_here(http, "hello", GREEDY)
        assert len(answer.token_ids) == 8


async def test_two_processes_hand_over(tmp_path, client):
    async with (
        start(stub(tmp_path, StubSettings(), Role.PREFILL, 0), tmp_path) as prefill,
        start(stub(tmp_path, StubSettings(), Role.DECODE, 1), tmp_path) as decode,
    ):
        p, d = await prefill.ready(client), await decode.ready(client)
        pair = await client.answer_by_handoff(p, d, "hello over there", GREEDY)
        assert pair.text == (await client.answer_here(d, "hello over there", GREEDY)).text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop_it_says_so_to_its_callers_and_exits_with_0(tmp_path, client, number):
    async with start(stub(tmp_path, StubSettings(decode_s_per_token=0.02)), tmp_path) as worker:
        http = await worker.ready(client)
        ticket = await client.reserve(http, "hello", Sampling(max_tokens=500))
        events = client.generate(http, ticket, PrefillPath.LOCAL)
        assert isinstance(await anext(events), TokenDelta)
        worker.process.send_signal(number)
        assert failure(await collect(events)).code == ErrorCode.ENGINE_FAILED
        assert await worker.ended() == 0


async def test_told_to_stop_while_loading_it_exits_with_0(tmp_path):
    async with start(stub(tmp_path, StubSettings(load_s=60)), tmp_path) as worker:
        await worker.announced()
        worker.process.terminate()
        assert await worker.ended() == 0


async def test_a_start_that_can_never_work_ends_with_3_and_its_reason(tmp_path, client):
    settings = StubSettings(load_s=0.2, fatal_start="/models/nope is no model")
    async with start(stub(tmp_path, settings), tmp_path) as worker:
        while not (status := await worker.status(client)).failure:
            await asyncio.sleep(0.02)
        assert (status.failure, status.fatal, status.healthy) == ("/models/nope is no model", True, False)
        assert await worker.ended() == 3
        assert worker.log.splitlines()[-1].endswith("worker failed: /models/nope is no model")


async def test_a_start_that_may_work_later_ends_with_1_and_its_reason(tmp_path, client):
    """F11: out of memory twice, then it works."""
    settings = StubSettings(fail_starts=2, starts_file=str(tmp_path / "starts"))
    for _ in range(2):
        async with start(stub(tmp_path, settings), tmp_path) as worker:
            assert await worker.ended() == 1
            assert "out of memory" in worker.log.splitlines()[-1]
        worker.announce_file.unlink()
    async with start(stub(tmp_path, settings), tmp_path) as worker:
        await worker.ready(client)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"engine": "quantum"}, "engine 'quantum' is not one of native, stub"),
        ({"model_path": "/no/such/file"}, "no stub settings at /no/such/file"),
        (
            {"devices": (DeviceAssignment(device_id="cpu-9", kind="cpu", index=9, cores=(4000,)),)},
            "can't be pinned to cores [4000]",
        ),
    ],
)
async def test_a_spec_that_can_not_be_met_ends_with_3(tmp_path, changed, reason):
    async with start(msgspec.structs.replace(stub_spec(Role.DECODE, 0), **changed), tmp_path) as worker:
        assert await worker.ended() == 3
        assert reason in worker.log.splitlines()[-1]
        assert not worker.announce_file.exists()


async def test_a_spec_file_that_holds_none_ends_with_3(tmp_path):
    spec = stub_spec(Role.DECODE, 0)
    async with start(msgspec.structs.replace(spec, devices=3), tmp_path) as worker:
        assert await worker.ended() == 3
        assert "not a valid WorkerSpec" in worker.log.splitlines()[-1]


async def test_without_the_cluster_secret_nothing_is_served(tmp_path):
    async with start(stub_spec(Role.DECODE, 0), tmp_path, TANDEM_CLUSTER_SECRET="") as worker:
        assert await worker.ended() == 3
        assert "TANDEM_CLUSTER_SECRET_FILE" in worker.log.splitlines()[-1]


async def test_the_secret_may_come_in_a_file_and_is_never_logged(tmp_path, client):
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    async with start(
        stub_spec(Role.DECODE, 0), tmp_path, TANDEM_CLUSTER_SECRET="", TANDEM_CLUSTER_SECRET_FILE=str(path)
    ) as worker:
        await worker.ready(client)
        assert SECRET not in worker.log


async def test_what_others_are_told_may_differ_from_what_is_bound(tmp_path):
    async with start(stub_spec(Role.DECODE, 0), tmp_path, TANDEM_WORKER_ADVERTISED_HOST="node-7.example") as worker:
        announcement = await worker.announced()
        assert announcement.http.host == "node-7.example"
        assert announcement.transfer.host == "node-7.example"


async def test_workers_started_together_never_share_a_port(tmp_path, client):
    """F40: the child binds and reports, so nothing is guessed."""
    async with contextlib.AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(start(stub_spec(Role.DECODE, number), tmp_path)) for number in range(4)
        ]
        announced = [await worker.announced() for worker in workers]
        ports = [port for a in announced for port in (a.http.port, a.transfer.port)]
        assert len(set(ports)) == len(ports)
        for worker in workers:
            assert (await worker.status(client)).worker_id == worker.spec.worker_id


async def test_a_killed_prefill_worker_ends_the_waiting_call_at_once(tmp_path, client):
    """F15: kill -9 in the middle of the transfer."""
    async with (
        start(stub(tmp_path, StubSettings(prefill_s_per_token=0.005), Role.PREFILL, 0), tmp_path) as prefill,
        start(stub(tmp_path, StubSettings(), Role.DECODE, 1), tmp_path) as decode,
    ):
        p, d = await prefill.ready(client), await decode.ready(client)
        ticket = await client.reserve(d, "x" * 400, GREEDY)
        waiting = asyncio.create_task(collect(client.generate(d, ticket, PrefillPath.HANDOFF)))
        running = asyncio.create_task(collect(client.prefill(p, ticket, GREEDY)))
        while not (await client.status(d)).load.kv_bytes_received:
            await asyncio.sleep(0.01)
        prefill.process.kill()
        async with asyncio.timeout(2):
            assert failure(await waiting).code == ErrorCode.TRANSFER_FAILED
        await asyncio.gather(running, return_exceptions=True)
        load = (await client.status(d)).load
        assert (load.kv_blocks_used, load.tickets) == (0, 0)


async def test_a_stopped_decode_worker_is_given_up_on_and_prefill_is_free(tmp_path, client):
    """F15, F18: SIGSTOP, so that connections stay open and nothing moves."""
    limits = encode_text(WorkerLimits(handoff_s=0.5, transfer=TransferLimits(open_s=0.5, frame_s=0.3, abort_s=0.3)))
    async with (
        start(
            stub(tmp_path, StubSettings(prefill_s_per_token=0.005), Role.PREFILL, 0),
            tmp_path,
            TANDEM_WORKER_LIMITS=limits,
        ) as prefill,
        start(stub(tmp_path, StubSettings(), Role.DECODE, 1), tmp_path) as decode,
    ):
        p, d = await prefill.ready(client), await decode.ready(client)
        ticket = await client.reserve(d, "x" * 100, GREEDY)
        decode.process.send_signal(signal.SIGSTOP)
        answer = await collect(client.prefill(p, ticket, GREEDY))
        assert failure(answer).code in (ErrorCode.TRANSFER_FAILED, ErrorCode.DEADLINE_EXCEEDED)
        load = (await client.status(p)).load
        assert (load.kv_blocks_used, load.handoffs) == (0, 0)


async def test_an_engine_that_dies_ends_the_process_for_another_try(tmp_path, client):
    settings = StubSettings(faults=(Fault(point=FaultPoint.MID_DECODE, kind=FaultKind.DIE),))
    async with start(stub(tmp_path, settings), tmp_path) as worker:
        answer = await client.answer_here(await worker.ready(client), "hello", GREEDY)
        assert failure(answer).code == ErrorCode.ENGINE_FAILED
        assert await worker.ended() == 1
        assert "the loop died" in worker.log.splitlines()[-1]
