"""Windows as a router writes them to the stream, at arrival times of the test's choice."""

from __future__ import annotations

from controlplane.core.redis import sync_client
from inference.contracts import codec, names
from inference.contracts.timings import Counter, Gauge, Latency, Window


def publish(
    second: int,
    *,
    arrival_ms: int | None = None,
    source: str = "router:a",
    received: int = 1,
    in_flight: int | None = None,
) -> Window:
    """One window of the deployment "chat"; it arrives half a second after its second began unless said otherwise."""
    window = Window(second=second, source=source, deployment="chat")
    window.count(Counter.RECEIVED, received)
    window.observe(Latency.TTFT, 0.1, times=received)
    if in_flight is not None:
        window.gauges[Gauge.IN_FLIGHT] = in_flight
    put(codec.encode(window), second * 1000 + 500 if arrival_ms is None else arrival_ms)
    return window


def put(message: bytes, arrival_ms: int) -> None:
    sync_client().xadd(names.WINDOW_STREAM, {names.STREAM_FIELD: message}, id=f"{arrival_ms}-*")
