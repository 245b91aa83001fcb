import dataclasses
import socket

import pytest

from inference.contracts.reports import Address
from inference.contracts.states import KVTransport
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN
from inference.testing.stub_settings import StubSettings
from inference.testing.tampered_link import TamperedLink
from inference.transfer.base import TransferSettings
from inference.transfer.preflight import mismatches
from inference.transfer.wire import Welcome
from tests.inference.transfer.rig import BY_MEMORY, OVER_TCP, PROMPT, rig

SIZE = 40 * KV_BYTES_PER_TOKEN


@pytest.mark.parametrize("settings", [OVER_TCP, BY_MEMORY], ids=["tcp", "shared_memory"])
async def test_a_good_pair_is_timed_over_the_transport_that_it_will_use(settings):
    async with rig(settings=settings) as r:
        report = await r.sender.preflight(r.target, SIZE)
        assert (report.problems, report.missed) == ((), ())
        assert report.transport is settings.transports[0]
        assert report.bytes == SIZE
        assert report.bytes_per_s > 0
        assert report.latency_s > 0
        assert (r.free(), len(r.tickets)) == ((0, 0), 0)
        assert (r.sent.bytes_sent, r.received.bytes_received) == (0, 0)  # it is no hand-off


async def test_a_pair_may_hand_over_after_its_preflight():
    async with rig() as r:
        await r.sender.preflight(r.target, SIZE)
        await r.push(r.reserve())


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"block_size": 32}, "Block sizes differ: 16 on the prefill worker, 32 on the decode worker."),
        ({"kv_dtype": "bfloat16"}, "KV dtypes differ: float32 on the prefill worker, bfloat16 on the decode worker."),
        ({"fingerprint": "kv-b"}, "another model, revision or setting"),
        ({"fingerprint": ""}, "still loading"),
    ],
)
def test_each_mismatch_is_a_sentence_with_both_values(theirs, said):
    info = dataclasses.replace(StubEngine().info, fingerprint="kv-a", kv_dtype="float32")
    same = {"fingerprint": "kv-a", "block_size": 16, "kv_dtype": "float32"}
    assert mismatches(info, Welcome(**same)) == []
    (sentence,) = mismatches(info, Welcome(**(same | theirs)))
    assert said in sentence


async def test_a_mismatched_pair_is_told_and_not_timed():
    async with rig(prefill_settings=StubSettings(block_size=32)) as r:
        report = await r.sender.preflight(r.target, SIZE)
        assert report.problems == ("Block sizes differ: 32 on the prefill worker, 16 on the decode worker.",)
        assert report.bytes_per_s is None


async def test_a_port_where_nobody_listens_is_told():
    async with rig() as r:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        report = await r.sender.preflight(Address(host="127.0.0.1", port=port), SIZE)
        assert f"127.0.0.1:{port}" in report.problems[0]
        assert report.transport is None


async def test_another_clusters_secret_is_told():
    async with rig(sender_secret="of-another-cluster") as r:
        assert "secret" in (await r.sender.preflight(r.target, SIZE)).problems[0]


async def test_a_link_that_damages_is_told():
    async with rig() as r, TamperedLink(r.target, flip_at=1500) as link:
        report = await r.sender.preflight(link.address, SIZE)
        assert report.problems
        assert r.free() == (0, 0)


async def test_without_free_blocks_the_speed_stays_unknown():
    async with rig(prefill_settings=StubSettings(kv_blocks=2)) as r:
        held = r.prefill.reserve(32)
        report = await r.sender.preflight(r.target, SIZE)
        assert (report.problems, report.bytes_per_s, report.latency_s) == ((), None, None)
        r.prefill.release(held)


async def test_a_transport_that_can_not_be_had_is_named_with_its_reason_and_counted(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nixl._api", None)  # as where it is not installed
    settings = TransferSettings(transports=(KVTransport.NIXL, KVTransport.TCP))
    async with rig(settings=settings) as r:
        report = await r.sender.preflight(r.target, SIZE)
        assert report.transport is KVTransport.TCP
        (missed,) = report.missed
        assert missed.startswith("nixl: NIXL can't be used here")
        assert r.sent.fallbacks == {(KVTransport.NIXL, KVTransport.TCP): 1}
        pushed = await r.push(r.reserve(PROMPT))
        assert pushed.transport is KVTransport.TCP
