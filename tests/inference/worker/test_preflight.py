import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport


async def test_a_prefill_worker_tries_a_hand_off_when_asked(fleet, client):
    prefill, decode = fleet.prefill[0], fleet.decode[0]
    report = await client.preflight(prefill.http, decode.server.worker.state.transfer)
    assert report.problems == ()
    assert report.transport is KVTransport.SHARED_MEMORY
    assert report.bytes_per_s > 0


async def test_only_a_prefill_worker_does(fleet, client):
    decode = fleet.decode[0]
    with pytest.raises(TandemError) as refused:
        await client.preflight(decode.http, decode.server.worker.state.transfer)
    assert refused.value.code is ErrorCode.NOT_READY
