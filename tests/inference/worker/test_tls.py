"""Claims about calls of workers over TLS, as routers and other workers make them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import ReserveRequest
from inference.contracts.prompts import TextPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.states import PrefillPath, Role
from inference.process.tasks import Background
from inference.process.tls import CA_FILE, NodeTls
from inference.router.config import Deadlines
from inference.router.turns import Turns
from inference.router.workers import client as router
from inference.testing.fleet import SECRET, StubFleet, stub_fleet, stub_spec
from inference.testing.tls import Certificates, make_certificates
from inference.testing.worker_client import WorkerClient, collect
from inference.testing.worker_process import worker_process

GREEDY = Sampling(max_tokens=8, temperature=0.0)
ASK = ReserveRequest(request_id="r", model_name="stub", prompt=TextPrompt(text="hello"), sampling=GREEDY)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(certificates: Certificates) -> NodeTls:
    return certificates.node_tls()


@pytest.fixture
async def secure(tls: NodeTls) -> AsyncIterator[StubFleet]:
    async with stub_fleet(tls=tls) as fleet:
        yield fleet
        await fleet.settled()


@asynccontextmanager
async def router_client(trust: ssl.SSLContext | None) -> AsyncIterator[router.WorkerClient]:
    background = Background()
    client = router.WorkerClient(SECRET, Deadlines(), background, Turns(), trust)
    try:
        yield client
    finally:
        await background.close(1.0)
        await client.close()


async def test_the_routers_client_is_answered(secure: StubFleet, tls: NodeTls) -> None:
    async with router_client(tls.client) as client:
        route = secure.decode[0].route
        ticket = await client.reserve(route, ASK)
        client.release_soon(route, ticket)


async def test_a_pair_answers_as_one_worker_does(secure: StubFleet, tls: NodeTls) -> None:
    prefill, decode = secure.prefill[0].http, secure.decode[0].http
    async with WorkerClient(SECRET, tls.client) as client:
        pair = await client.answer_by_handoff(prefill, decode, "hello over there", GREEDY)
        ticket = await client.reserve(decode, "hello over there", GREEDY)
        alone = await collect(client.generate(decode, ticket, PrefillPath.LOCAL))
        assert (await client.status(decode)).load.kv_bytes_received > 0
    assert (pair.token_ids, pair.text) == (alone.token_ids, alone.text)


async def test_after_a_change_of_role_hand_offs_are_over_tls_too(secure: StubFleet, tls: NodeTls) -> None:
    a, b = secure.prefill[0].http, secure.decode[0].http
    async with WorkerClient(SECRET, tls.client) as client:
        for address, role in ((a, Role.DECODE), (b, Role.PREFILL)):
            await client.drain(address)
            await client.switch(address, role)
            await client.drain(address, undo=True)
        assert len((await client.answer_by_handoff(b, a, "hello", GREEDY)).token_ids) == 8


async def test_a_client_in_clear_is_told_what_to_set(secure: StubFleet) -> None:
    cause = "over TLS only: set TANDEM_WORKER_TLS_CA_FILE where the call comes from"
    async with router_client(None) as client:
        with pytest.raises(TandemError, match=cause) as refused:
            await client.reserve(secure.decode[0].route, ASK)
    assert refused.value.code is ErrorCode.UNAUTHENTICATED


async def test_a_worker_of_another_authority_is_refused(secure: StubFleet, tmp_path: Path) -> None:
    async with router_client(make_certificates(tmp_path).node_tls().client) as client:
        with pytest.raises(router.WorkerLost, match="the worker's certificate is refused: unable to get local issuer"):
            await client.reserve(secure.decode[0].route, ASK)


async def test_a_worker_whose_certificate_names_another_node_is_refused(tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "10.0.0.9").node_tls()
    async with stub_fleet(prefill=0, tls=other) as fleet, router_client(other.client) as client:
        with pytest.raises(router.WorkerLost, match="the worker's certificate is refused: IP address mismatch"):
            await client.reserve(fleet.decode[0].route, ASK)


async def test_a_worker_in_clear_is_refused_by_a_router_that_has_an_authority(tls: NodeTls) -> None:
    async with stub_fleet(prefill=0) as fleet, router_client(tls.client) as client:
        with pytest.raises(router.WorkerLost, match="does not answer in TLS, and TANDEM_WORKER_TLS_CA_FILE is set"):
            await client.reserve(fleet.decode[0].route, ASK)


async def test_the_bearer_is_asked_for_as_without_tls(secure: StubFleet, tls: NodeTls) -> None:
    async with WorkerClient("another secret", tls.client) as stranger:
        with pytest.raises(TandemError, match="bearer"):
            await stranger.status(secure.decode[0].http)


async def test_a_stopped_worker_takes_no_more_connections(tls: NodeTls) -> None:
    async with stub_fleet(prefill=0, tls=tls) as fleet, WorkerClient(SECRET, tls.client) as client:
        await client.status(fleet.decode[0].http)
        await fleet.decode[0].stop()
        with pytest.raises(aiohttp.ClientError):
            await client.status(fleet.decode[0].http)


async def test_two_processes_hand_over_with_the_files_of_their_environment(
    tmp_path: Path, certificates: Certificates, tls: NodeTls
) -> None:
    specs = stub_spec(Role.PREFILL, 0), stub_spec(Role.DECODE, 1)
    async with (
        worker_process(specs[0], tmp_path, secret=SECRET, environment=certificates.of_node) as prefill,
        worker_process(specs[1], tmp_path, secret=SECRET, environment=certificates.of_node) as decode,
        WorkerClient(SECRET, tls.client) as client,
    ):
        p, d = await prefill.ready(client), await decode.ready(client)
        pair = await client.answer_by_handoff(p, d, "hello over there", GREEDY)
        assert pair.text == (await client.answer_here(d, "hello over there", GREEDY)).text


async def test_half_of_the_files_ends_with_3_and_what_is_missing(tmp_path: Path, certificates: Certificates) -> None:
    environment = {CA_FILE: str(certificates.ca)}
    async with worker_process(stub_spec(Role.DECODE, 0), tmp_path, secret=SECRET, environment=environment) as worker:
        assert await worker.ended() == 3
        assert "without TANDEM_WORKER_TLS_CERT_FILE and TANDEM_WORKER_TLS_KEY_FILE" in worker.log.splitlines()[-1]
