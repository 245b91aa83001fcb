"""Windows -> frames and roll-ups, without a server."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.merge import Live, Series, combine, place, roll_up
from controlplane.telemetry.stream import BEGINNING, StreamId
from inference.contracts import codec
from inference.contracts.frames import DeploymentFrame, PoolFrame, TelemetryFrame
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Gauge, Latency, Window

T = 1_800_000_000


def router(second: int, source: str = "router:a", *, ttft: float | None = None, **counters: int) -> Window:
    window = Window(second=second, source=source, deployment="chat")
    if ttft is not None:
        window.observe(Latency.TTFT, ttft)
    for name, amount in counters.items():
        window.count(Counter(name), amount)
    return window


def worker(second: int, source: str = "worker:a", pool: str = "p", **gauges: float) -> Window:
    window = Window(second=second, source=source, deployment="chat", pool_id=pool, role=Role.DECODE)
    window.gauges = {Gauge(name): level for name, level in gauges.items()}
    return window


def live(*windows: Window) -> Live:
    merged = Live()
    for n, window in enumerate(windows):
        merged.add(StreamId(T * 1000, n), window)
    return merged


def deployment(frame: TelemetryFrame) -> DeploymentFrame:
    (only,) = frame.deployments
    return only


def pool(frame: TelemetryFrame) -> PoolFrame:
    (only,) = deployment(frame).pools
    return only


def test_a_second_of_which_nothing_is_known_is_an_empty_frame() -> None:
    assert Live().frame(T) == TelemetryFrame(second=T, deployments=())


def test_counters_of_all_routers_add_up_and_cover_their_second_alone() -> None:
    merged = live(router(T, "router:a", received=2), router(T, "router:b", received=3), router(T + 1, received=1))
    assert deployment(merged.frame(T)).received == 5
    assert deployment(merged.frame(T + 1)).received == 1


def test_a_count_is_zero_when_its_counters_were_heard_and_unknown_when_not() -> None:
    idle = router(T)
    idle.gauges[Gauge.IN_FLIGHT] = 0
    merged = live(idle, worker(T + 1, running=1))
    routed, worked = deployment(merged.frame(T)), deployment(merged.frame(T + 1))
    assert (routed.received, routed.handoffs) == (0, None)
    assert (worked.received, worked.handoffs) == (None, 0)
    assert pool(merged.frame(T + 1)).transfer_bytes == 0
    assert pool(merged.frame(T + 2)).transfer_bytes is None


def test_a_pool_shows_the_latencies_that_routers_gave_it_and_they_count_nothing() -> None:
    given = router(T, ttft=0.5)
    given.pool_id, given.role = "p", Role.PREFILL
    frame = pool(live(given).frame(T))
    assert frame.ttft.count == 1
    assert frame.tpot.count == 0
    assert frame.output_tokens is None
    assert deployment(live(given).frame(T)).ttft.count == 0


def test_latencies_cover_ten_seconds_and_not_eleven() -> None:
    merged = live(router(T, ttft=4.0), *(router(T + n, ttft=0.1) for n in range(1, 10)))
    assert deployment(merged.frame(T + 9)).ttft.count == 10
    assert deployment(merged.frame(T + 9)).ttft.p99 == pytest.approx(4.0, rel=0.011)
    assert deployment(merged.frame(T + 10)).ttft.p99 == pytest.approx(0.1, rel=0.011)


def test_percentiles_are_those_of_all_samples_together_not_a_mean_of_percentiles() -> None:
    busy = router(T, "router:a")
    busy.observe(Latency.TTFT, 0.1, times=990)
    idle = router(T, "router:b")
    idle.observe(Latency.TTFT, 10.0, times=10)
    ttft = deployment(live(busy, idle).frame(T)).ttft
    assert (ttft.p50, ttft.p99) == (pytest.approx(0.1, rel=0.011), pytest.approx(0.1, rel=0.011))


def test_without_samples_a_quantile_is_unknown_not_zero() -> None:
    ttft = deployment(live(router(T, received=1)).frame(T)).ttft
    assert (ttft.count, ttft.p50, ttft.p95, ttft.p99) == (0, None, None, None)


def test_a_gauge_adds_up_over_the_workers_of_a_pool() -> None:
    merged = live(worker(T, "worker:a", running=3, waiting=1), worker(T, "worker:b", running=4))
    frame = pool(merged.frame(T))
    assert (frame.running, frame.waiting) == (7, 1)


def test_a_gauge_that_nobody_told_is_unknown_not_zero() -> None:
    frame = pool(live(worker(T, running=0)).frame(T))
    assert frame.running == 0
    assert frame.kv_blocks_used is None
    assert deployment(live(worker(T, running=0)).frame(T)).in_flight is None


def test_of_two_windows_of_one_source_in_one_second_the_later_level_counts() -> None:
    assert pool(live(worker(T, running=3), worker(T, running=5)).frame(T)).running == 5


def test_a_worker_whose_window_slipped_into_the_next_second_does_not_make_the_sum_dip() -> None:
    steady = [worker(T + n, "worker:a", running=4) for n in range(3)]
    jittering = [worker(T, "worker:b", running=6), worker(T + 2, "worker:b", running=6)]
    merged = live(*steady, *jittering)
    assert [pool(merged.frame(T + n)).running for n in range(3)] == [10, 10, 10]


def test_a_worker_that_is_gone_leaves_the_sum_within_two_seconds_and_the_frame_within_ten() -> None:
    merged = live(
        worker(T, "worker:a", running=4), worker(T, "worker:b", running=6), worker(T + 2, "worker:a", running=4)
    )
    assert pool(merged.frame(T + 2)).running == 4
    assert pool(merged.frame(T + 4)).running is None
    assert deployment(merged.frame(T + 9)).pools
    assert deployment(merged.frame(T + 11)).pools
    assert merged.frame(T + 12).deployments == ()


def test_what_a_worker_counts_is_not_counted_again_for_its_deployment() -> None:
    seen_by_worker = worker(T)
    seen_by_worker.count(Counter.OUTPUT_TOKENS, 100)
    frame = deployment(live(router(T, output_tokens=100), seen_by_worker).frame(T))
    assert frame.output_tokens == 100
    assert frame.pools[0].output_tokens == 100


def test_hand_offs_are_counted_by_the_workers_that_make_them() -> None:
    prefill, decode = worker(T, "worker:a", pool="p"), worker(T, "worker:b", pool="d")
    prefill.count(Counter.HANDOFFS, 3)
    prefill.count(Counter.HANDOFF_FAILURES, 1)
    decode.count(Counter.LOCAL_PREFILLS, 2)
    frame = deployment(live(prefill, decode, router(T, received=6)).frame(T))
    assert (frame.handoffs, frame.handoff_failures, frame.local_prefills) == (3, 1, 2)


def test_a_late_window_counts_in_the_latencies_of_the_seconds_that_follow() -> None:
    merged = live(router(T, ttft=0.1))
    assert deployment(merged.frame(T)).ttft.count == 1
    merged.add(StreamId(T * 1000 + 9000, 0), router(T, ttft=0.2))
    assert deployment(merged.frame(T + 1)).ttft.count == 2


def test_seconds_that_are_forgotten_no_longer_take_memory() -> None:
    merged = live(*(router(T + n, ttft=0.1) for n in range(30)))
    merged.forget_before(T + 20)
    assert len(merged._seconds) == 10


def test_a_clock_that_runs_ahead_is_put_back_to_the_second_of_arrival() -> None:
    arrival = StreamId(T * 1000 + 500, 0)
    assert place(router(T + 3600), arrival).second == T
    assert place(router(T + 1), arrival).second == T + 1
    assert place(router(T - 3600), arrival).second == T - 3600


windows = st.builds(
    lambda at, source, latency, gauge, level, amount: _drawn(T + at, source, latency, gauge, level, amount),
    st.integers(0, 14),
    st.sampled_from(["router:a", "router:b", "worker:a", "worker:b"]),
    st.floats(0.0001, 700),
    st.sampled_from([Gauge.IN_FLIGHT, Gauge.RUNNING, Gauge.KV_BLOCKS_USED]),
    st.integers(0, 1000),
    st.integers(0, 5),
)


def _drawn(second: int, source: str, latency: float, gauge: Gauge, level: int, amount: int) -> Window:
    window = router(second, source) if source.startswith("router") else worker(second, source)
    window.gauges = {gauge: level}
    window.observe(Latency.TTFT, latency)
    window.count(Counter.OUTPUT_TOKENS, amount)
    return window


@given(st.lists(windows, max_size=30), st.randoms(use_true_random=False))
def test_the_order_in_which_windows_are_merged_does_not_matter(drawn: list[Window], chance: random.Random) -> None:
    placed = [(StreamId(T * 1000, n), window) for n, window in enumerate(drawn)]
    shuffled = list(placed)
    chance.shuffle(shuffled)
    one, other = Live(), Live()
    for position, window in placed:
        one.add(position, window)
    for position, window in shuffled:
        other.add(position, window)
    for second in range(T, T + 20):
        assert one.frame(second) == other.frame(second)
    assert roll_up(placed, 10) == roll_up(shuffled, 10)


@given(st.lists(windows, max_size=30), st.integers(0, 30))
def test_a_roll_up_made_in_two_parts_has_the_sums_of_one_made_at_once(drawn: list[Window], cut: int) -> None:
    placed = [(StreamId(T * 1000, n), window) for n, window in enumerate(drawn)]
    parts = roll_up(placed[:cut], 10)
    for key, part in roll_up(placed[cut:], 10).items():
        parts[key] = combine(parts[key], part) if key in parts else part
    whole = roll_up(placed, 10)
    assert parts.keys() == whole.keys()
    for key, window in whole.items():
        assert parts[key].latencies == window.latencies
        assert parts[key].counters == window.counters
        assert parts[key].second == window.second


def test_a_roll_up_has_the_levels_of_its_last_second_summed_over_sources() -> None:
    told = [
        worker(T, "worker:a", running=9),
        worker(T + 8, "worker:a", running=1),
        worker(T + 9, "worker:a", running=2),
        worker(T + 9, "worker:b", running=3),
    ]
    steps = roll_up(((StreamId(T * 1000, n), window) for n, window in enumerate(told)), 10)
    assert steps[Series("chat", "p"), T].gauges == {Gauge.RUNNING: 5}


def test_a_roll_up_survives_the_wire() -> None:
    (window,) = roll_up([(BEGINNING, router(T, ttft=0.5, received=1))], 10).values()
    assert codec.decode(codec.encode(window), Window) == window


@pytest.mark.parametrize("text", ["", "7", "7-", "-7", "a-b", "1-2-3", "-1-0"])
def test_what_is_no_stream_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no stream id"):
        StreamId.parse(text)


def test_stream_ids_are_ordered_by_number_not_as_text() -> None:
    assert StreamId.parse("9-9") < StreamId.parse("10-0") < StreamId.parse(b"10-10")
    assert str(StreamId.parse("10-3")) == "10-3"


def test_what_a_revision_did_is_kept_apart_from_its_deployment() -> None:
    """It is in the deployment's own windows too: added, every request would count twice."""
    of_revision = Window(second=T, source="router:a", deployment="chat", revision=2)
    of_revision.count(Counter.COMPLETED)
    whole = router(T, completed=1)

    assert deployment(live(whole, of_revision).frame(T)).completed == 1
    steps = roll_up([(BEGINNING, whole), (BEGINNING, of_revision)], 10)
    assert {series: window.counters[Counter.COMPLETED] for (series, _), window in steps.items()} == {
        Series("chat", ""): 1,
        Series("chat", "", 2): 1,
    }
