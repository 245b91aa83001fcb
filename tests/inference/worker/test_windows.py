import asyncio

import msgspec

from inference.contracts.reports import WorkerLoad
from inference.contracts.sampling import Sampling
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Gauge, Latency, Window
from inference.process import tasks
from inference.testing.fleet import stub_fleet, stub_spec
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from inference.worker.windows import WindowRecorder

LOAD = WorkerLoad(running=2, waiting=1, waiting_tokens=40, kv_blocks_used=7, kv_blocks_total=20)


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def recorder(clock: Clock) -> WindowRecorder:
    def drain(window: Window) -> None:
        window.count(Counter.OUTPUT_TOKENS, 3)

    return WindowRecorder(stub_spec(Role.DECODE, 4), drain=drain, load=lambda: LOAD, window_s=1.0, clock=clock)


def test_seconds_count_back_from_now():
    clock = Clock()
    windows = recorder(clock)
    for _ in range(3):
        clock.now += 1
        windows.close_window()
    clock.now += 0.4
    assert [window.second for window in windows.take().windows] == [-2, -1, 0]


def test_each_window_is_taken_once():
    windows = recorder(Clock())
    windows.close_window()
    assert len(windows.take().windows) == 1
    assert windows.take().windows == ()


def test_a_window_names_its_source_and_carries_engine_and_levels():
    windows = recorder(Clock())
    windows.observe(Latency.PREFILL, 0.2)
    windows.observe(Latency.PREFILL, None)
    windows.count(Counter.HANDOFFS)
    windows.close_window()
    (window,) = windows.take().windows
    assert (window.source, window.deployment, window.pool_id) == ("worker:decode-4", "stub", "pool-decode")
    assert window.role is Role.DECODE
    assert window.counters == {Counter.OUTPUT_TOKENS: 3, Counter.HANDOFFS: 1}
    assert window.latencies[Latency.PREFILL].total == 1
    assert window.gauges[Gauge.KV_BLOCKS_USED] == 7
    assert window.gauges[Gauge.WAITING_TOKENS] == 40


def test_the_total_is_kept_after_windows_are_taken():
    windows = recorder(Clock())
    for _ in range(2):
        windows.close_window()
        windows.take()
    assert windows.total.counters[Counter.OUTPUT_TOKENS] == 6


def test_nobody_asking_costs_bounded_memory():
    windows = recorder(Clock())
    for _ in range(700):
        windows.close_window()
    assert len(windows.take().windows) == 600


async def test_a_fleets_windows_tell_of_handoffs_tokens_and_bytes(client):
    limits = WorkerLimits(window_s=0.02)
    async with stub_fleet(limits=limits, settings=StubSettings(prefill_s_per_token=0.0005)) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        for number in range(3):
            prompt = "x" * (40 + number)
            await client.answer_by_handoff(prefill.http, decode.http, prompt, Sampling(max_tokens=5))
        prefill.server.worker.recorder.close_window()
        decode.server.worker.recorder.close_window()
        sums = {}
        for worker in (prefill, decode):
            total = Window(second=0, source="", deployment="")
            for window in (await client.windows(worker.http)).windows:
                total.absorb(msgspec.structs.replace(window, gauges={}))
            sums[worker.spec.role] = total
        read, wrote = sums[Role.PREFILL], sums[Role.DECODE]
        assert read.counters[Counter.HANDOFFS] == 3
        assert read.counters[Counter.TRANSFER_BYTES] == 123 * KV_BYTES_PER_TOKEN
        assert wrote.counters[Counter.TRANSFER_BYTES] == 123 * KV_BYTES_PER_TOKEN
        assert read.counters[Counter.PROMPT_TOKENS] == 123
        assert (read.counters[Counter.OUTPUT_TOKENS], wrote.counters[Counter.OUTPUT_TOKENS]) == (3, 12)
        for latency in (Latency.QUEUE, Latency.PREFILL, Latency.TRANSFER):
            assert read.latencies[latency].total == 3
        assert read.latencies[Latency.PREFILL].quantile(0.5) > 0.015
        assert wrote.counters.get(Counter.LOCAL_PREFILLS) is None


async def test_a_timer_that_breaks_once_goes_on(monkeypatch):
    """Else one odd moment would end telemetry, or the expiry of tickets, for the life of the process."""
    monkeypatch.setattr(tasks, "_RESTART_PAUSE_S", 0.0)
    async with stub_fleet(0, 1, limits=WorkerLimits(lease_s=0.1, window_s=0.01)) as fleet:
        worker = fleet.decode[0].server.worker
        broken, expire_due = [], worker.duties.tickets.expire_due

        def break_once(*_):
            broken.append(True)
            monkeypatch.setattr(worker.duties.tickets, "expire_due", expire_due)
            raise RuntimeError("an odd moment")

        monkeypatch.setattr(worker.duties.tickets, "expire_due", break_once)
        worker.duties.tickets.issue("req-1", [1, 2, 3], Sampling(max_tokens=4))
        async with asyncio.timeout(5):
            while not broken or len(worker.duties.tickets):
                await asyncio.sleep(0.01)
