"""The telemetry process: one loop shows the present each second, one keeps the past.

They share nothing but the stream they read, so a database that is away does not stop the live charts.
"""

from __future__ import annotations

import threading
from typing import Any

import redis

from controlplane.core import clock
from controlplane.core.broadcast import append
from controlplane.telemetry import windows
from controlplane.telemetry.loop import Loop
from controlplane.telemetry.merge import LATENCY_SPAN_S, Live
from controlplane.telemetry.models import RollUp
from controlplane.telemetry.rollups import RollUpWriter, delete_older_than
from controlplane.telemetry.stream import BEGINNING, StreamId
from controlplane.telemetry.windows import Recent
from inference.contracts import codec, names
from inference.contracts.console import TelemetryTick

#: After an outage or a restart, seconds no further back than this are still shown.
CATCH_UP_S = 600

#: A clock set back by more than this makes the ticker begin again from the present.
CLOCK_STEP_S = 60

#: Longest wait for the loops to end: a Redis call under way may use up its deadlines.
STOP_S = 10.0


class TelemetryProcess:
    """Both loops, from `start` to `stop`.

    close_after_s: a second is shown so long after its end. retention_s: age at which roll-ups are deleted.
    """

    def __init__(self, client: redis.Redis, *, close_after_s: float, retention_s: float) -> None:
        self._stopping = threading.Event()
        ticker = Ticker(client, close_after_s)
        recorder = Recorder(client, retention_s)
        self._loops = [
            Loop("ticker", ticker.turn, ticker.pause_s, self._stopping),
            Loop("recorder", recorder.turn, recorder.pause_s, self._stopping),
        ]

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    @property
    def alive(self) -> bool:
        return all(loop.is_alive() for loop in self._loops)

    def stop(self) -> None:
        """Nothing has to be saved: what is not in the roll-ups yet is still in the stream, and the cursor knows."""
        self._stopping.set()
        for loop in self._loops:
            loop.join(STOP_S)


class Ticker:
    """Sends one `TelemetryTick` for each second that has passed, also when nothing is known of it: that the tick comes
    is how a console knows that it is live.

    A window that arrives after its second was shown still counts in the latencies of the seconds that follow, and in
    the roll-ups.
    """

    def __init__(self, client: redis.Redis, close_after_s: float) -> None:
        self._client = client
        self._close_after_s = close_after_s
        self._live, self._recent = Live(), Recent()
        self._shown: int | None = None
        self._position = BEGINNING

    def turn(self) -> None:
        """
        Raises:
            redis.RedisError: the server does not answer; a later turn catches up.
        """
        due = int(clock.now().timestamp() - self._close_after_s) - 1
        shown = self._shown
        if shown is None or due < shown - CLOCK_STEP_S:
            shown = self._begin(due)
        self._read()
        for second in range(max(shown, due - CATCH_UP_S) + 1, due + 1):
            append(TelemetryTick(frame=self._live.frame(second)))
            self._shown = second
        self._live.forget_before(due - LATENCY_SPAN_S)

    def pause_s(self) -> float:
        """Until the next second is due."""
        return 1.0 - (clock.now().timestamp() - self._close_after_s) % 1.0

    def _begin(self, due: int) -> int:
        """Continue after the last second that a telemetry process has shown; read what the next ones need."""
        last = _last_shown(self._client)
        shown = max(last, due - CATCH_UP_S) if last is not None and last <= due else due - 1
        self._live, self._recent = Live(), Recent()
        self._position = StreamId((shown - LATENCY_SPAN_S) * 1000, 0)
        return shown

    def _read(self) -> None:
        full = True
        while full:
            batch = windows.read(self._client, self._position)
            arrived = self._recent.new(batch.arrived)
            self._recent.note(arrived)
            for each in arrived:
                self._live.add(each.position, each.window)
            full, self._position = batch.full, batch.last
        if not batch.arrived:
            # Where Redis has lost its data, the positions of the new stream may lie before ours.
            self._position = min(self._position, windows.newest(self._client))


class Recorder:
    """Keeps the roll-ups up to date and deletes the old ones."""

    def __init__(self, client: redis.Redis, retention_s: float) -> None:
        self._roll_ups = RollUpWriter(client)
        self._retention_s = retention_s

    def turn(self) -> None:
        """
        Raises:
            redis.RedisError, django.db.Error: a later turn does the same work.
        """
        while self._roll_ups.write():
            pass
        delete_older_than(self._retention_s)

    def pause_s(self) -> float:
        return float(RollUp.STEP_S)


def _last_shown(client: redis.Redis) -> int | None:
    """The second of the newest frame."""
    entries: Any = client.xrevrange(names.FRAME_STREAM, count=1)
    for _, fields in entries:
        try:
            return codec.decode(fields.get(names.STREAM_FIELD.encode(), b""), TelemetryTick).frame.second
        except codec.CodecError:  # of another release
            break
    return None
