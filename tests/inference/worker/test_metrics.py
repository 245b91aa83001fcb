import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from inference.contracts.histogram import Histogram
from inference.contracts.sampling import Sampling
from inference.testing.fleet import stub_fleet
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN
from inference.testing.worker_client import collect
from inference.worker.limits import WorkerLimits
from inference.worker.metrics import BOUNDS, coarsened

SAMPLING = Sampling(max_tokens=5, temperature=0.0)


def read(text: str) -> dict[str, float]:
    """Value of every series, by name and the labels that tell it apart within one worker."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["worker"]
            assert sample.labels["model_name"] == "stub"
            extra = [sample.labels[key] for key in ("side", "cause", "le", "transport") if key in sample.labels]
            values[" ".join([sample.name, *extra])] = sample.value
    return values


async def test_a_handoff_shows_on_both_workers(client):
    async with stub_fleet(limits=WorkerLimits(window_s=0.01)) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        await client.answer_by_handoff(prefill.http, decode.http, "x" * 40, SAMPLING)
        for worker in (prefill, decode):
            worker.server.worker.recorder.close_window()
        p, d = read(await client.metrics(prefill.http)), read(await client.metrics(decode.http))
        assert p["tandem_kv_transfer_sent_bytes_total"] == 40 * KV_BYTES_PER_TOKEN
        assert d["tandem_kv_transfer_received_bytes_total"] == 40 * KV_BYTES_PER_TOKEN
        assert (
            p["tandem_kv_transfers_sent_total shared_memory"]
            == d["tandem_kv_transfers_received_total shared_memory"]
            == 1
        )
        assert p["tandem_kv_transfers_sent_total tcp"] == 0
        assert p["tandem_prompt_tokens_total"] == 40
        assert (p["tandem_generation_tokens_total"], d["tandem_generation_tokens_total"]) == (1, 4)
        assert p["tandem_handoff_time_seconds_count"] == 1
        assert p["tandem_request_prefill_time_seconds_count"] == 1
        assert p["tandem_step_time_seconds_bucket +Inf"] == p["tandem_step_time_seconds_count"] > 0
        assert (d["tandem_kv_blocks_used"], d["tandem_kv_cache_usage_perc"]) == (0, 0)
        assert d["tandem_kv_blocks_total"] == 256


async def test_levels_follow_what_is_held(client):
    async with stub_fleet(0, 1) as fleet:
        http = fleet.decode[0].http
        ticket = await client.reserve(http, "x" * 59, SAMPLING)
        values = read(await client.metrics(http))
        assert (values["tandem_num_tickets"], values["tandem_kv_blocks_used"]) == (1, 4)
        assert values["tandem_kv_cache_usage_perc"] == 4 / 256
        await client.release(http, ticket.ticket_id)


async def test_failures_are_counted_by_side_and_cause(client):
    async with stub_fleet() as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, "hello", SAMPLING)
        await client.release(decode.http, ticket.ticket_id)
        await collect(client.prefill(prefill.http, ticket, SAMPLING))
        assert "tandem_kv_transfer_failures_total sender cancelled" not in read(await client.metrics(prefill.http))
        async with stub_fleet(secret="another") as stranger:
            ticket = await client.reserve(decode.http, "hello", SAMPLING)
            target = stranger.decode[0].route.transfer
            await collect(client.prefill(prefill.http, msgspec.structs.replace(ticket, transfer=target), SAMPLING))
            values = read(await client.metrics(prefill.http))
            assert values["tandem_kv_transfer_failures_total sender unauthenticated"] == 1
        await client.release(decode.http, ticket.ticket_id)


@pytest.mark.parametrize("seconds", [0.0001, 0.0007, 0.05, 3.0, 90.0, 599.0, 4000.0])
def test_coarse_buckets_hold_each_sample_once_and_keep_the_sum(seconds):
    histogram = Histogram()
    histogram.add(seconds, times=3)
    buckets, total = coarsened(histogram)
    assert [bound for bound, _ in buckets] == [*map(str, BOUNDS), "+Inf"]
    assert buckets[-1][1] == 3
    below = [float(bound) for bound, count in buckets if count == 0]
    assert all(bound < seconds * 1.01 for bound in below)
    if seconds <= 600:
        assert total == pytest.approx(3 * seconds, rel=0.011)


def test_an_empty_histogram_is_empty():
    buckets, total = coarsened(Histogram())
    assert {count for _, count in buckets} == {0.0}
    assert total == 0
