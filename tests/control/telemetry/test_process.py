"""The telemetry process against a real server: ticks, outages, restarts."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import OperationalError

from controlplane.core import clock as core_clock
from controlplane.core.redis import sync_client
from controlplane.telemetry.loop import Loop
from controlplane.telemetry.models import RollUp
from controlplane.telemetry.process import CATCH_UP_S, Recorder, TelemetryProcess, Ticker
from controlplane.telemetry.rollups import RollUpWriter
from inference.contracts import codec, names
from inference.contracts.console import TelemetryTick
from inference.contracts.frames import TelemetryFrame
from inference.contracts.timings import Counter, Window
from inference.testing.valkey import ValkeyServer
from tests.control.telemetry.published import publish

ROOT = Path(__file__).resolve().parents[3]
T = int(time.time()) // 60 * 60 - 600

pytestmark = pytest.mark.usefixtures("live_redis")


class Clock:
    """What the ticker takes for now."""

    def __init__(self) -> None:
        self.at = float(T)

    def __call__(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    settable = Clock()
    monkeypatch.setattr(core_clock, "now", settable)
    return settable


def frames() -> list[TelemetryFrame]:
    entries: Any = sync_client().xrange(names.CONSOLE_STREAM)
    return [codec.decode(fields[b"m"], TelemetryTick).frame for _, fields in entries]


def seconds() -> list[int]:
    return [frame.second for frame in frames()]


def ticker() -> Ticker:
    return Ticker(sync_client(), close_after_s=2.0)


def test_each_second_is_shown_once_two_seconds_after_its_end(clock: Clock) -> None:
    one = ticker()
    for step in range(8):
        clock.at = T + step / 2
        one.turn()
    assert seconds() == [T - 3, T - 2, T - 1, T]


def test_a_second_without_windows_is_a_tick_too(clock: Clock) -> None:
    ticker().turn()
    assert frames() == [TelemetryFrame(second=T - 3, deployments=())]


def test_windows_are_shown_in_their_second(clock: Clock) -> None:
    one = ticker()
    one.turn()
    publish(T, received=3)
    publish(T, received=4, source="router:b")
    publish(T + 1, received=1)
    clock.at = T + 4
    one.turn()
    shown = {frame.second: frame.deployments for frame in frames()}
    assert shown[T - 1] == ()
    assert [shown[T][0].received, shown[T + 1][0].received] == [7, 1]


def test_a_window_that_was_sent_twice_is_shown_once(clock: Clock) -> None:
    one = ticker()
    one.turn()
    publish(T, received=3)
    publish(T, received=3)
    clock.at = T + 1
    one.turn()
    publish(T, received=3, arrival_ms=(T + 1) * 1000)
    clock.at = T + 3
    one.turn()
    assert frames()[-1].deployments[0].received == 3


def test_the_wait_ends_when_the_next_second_is_due(clock: Clock) -> None:
    clock.at = T + 0.75
    assert Ticker(redis.Redis(), close_after_s=2.25).pause_s() == pytest.approx(0.5)


def test_a_successor_goes_on_after_the_last_second_shown_with_latencies_of_before(clock: Clock) -> None:
    publish(T - 4, received=5)
    ticker().turn()
    publish(T - 1, received=2)
    clock.at = T + 5
    ticker().turn()
    assert seconds() == list(range(T - 3, T + 3))
    assert [frame.deployments[0].ttft.count for frame in frames()[:4]] == [5, 5, 7, 7]


def test_after_a_long_absence_only_the_last_ten_minutes_are_shown(clock: Clock) -> None:
    ticker().turn()
    clock.at = T + 3600
    ticker().turn()
    assert seconds() == [T - 3, *range(T + 3600 - 3 - CATCH_UP_S + 1, T + 3600 - 2)]


def test_during_an_outage_of_redis_turns_fail_and_afterwards_no_second_is_missing(
    valkey: ValkeyServer, clock: Clock
) -> None:
    one = ticker()
    one.turn()
    valkey.stop()
    clock.at = T + 2
    with pytest.raises(redis.RedisError):
        one.turn()
    valkey.start()
    publish(T + 1)
    clock.at = T + 5
    one.turn()
    assert seconds() == list(range(T - 3, T + 3))
    assert [len(frame.deployments) for frame in frames()] == [0, 0, 0, 0, 1, 1]


def test_when_redis_lost_its_data_and_positions_went_back_new_windows_are_shown(
    valkey: ValkeyServer, clock: Clock
) -> None:
    one = ticker()
    publish(T + 50)
    one.turn()
    valkey.stop()
    valkey.start(empty=True)
    clock.at = T + 1
    one.turn()
    publish(T)
    clock.at = T + 4
    one.turn()
    assert [frame.second for frame in frames() if frame.deployments] == [T, T + 1]


def test_a_clock_set_back_does_not_silence_the_ticker(clock: Clock) -> None:
    one = ticker()
    one.turn()
    clock.at = T - 3600
    one.turn()
    assert seconds() == [T - 3, T - 3603]


def wait_until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[TelemetryProcess]:
    """The process, which writes roll-ups ten times a second."""
    monkeypatch.setattr(Recorder, "pause_s", lambda _: 0.1)
    telemetry = TelemetryProcess(sync_client(), close_after_s=0.5, retention_s=3600)
    telemetry.start()
    yield telemetry
    telemetry.stop()
    assert not any(loop.is_alive() for loop in telemetry._loops)


def counted() -> int:
    return sum(codec.decode(row.window, Window).counters[Counter.RECEIVED] for row in RollUp.objects.all())


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_windows_before_and_after_an_outage_of_redis_are_counted_once(
    running: TelemetryProcess, valkey: ValkeyServer
) -> None:
    for second in range(T, T + 20):
        publish(second)
    wait_until(lambda: counted() == 20)
    valkey.kill()
    time.sleep(0.5)
    valkey.start()
    held = sync_client().xlen(names.WINDOW_STREAM)
    for second in range(T + 20, T + 30):
        publish(second)
    wait_until(lambda: counted() == 30)
    assert held == 20
    assert running.alive


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_does_not_stop_the_ticks_and_is_caught_up_with(
    running: TelemetryProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr(RollUpWriter, "write", _no_database)
        publish(T)
        before = len(seconds())
        wait_until(lambda: len(seconds()) >= before + 2)
    wait_until(lambda: counted() == 1)
    assert running.alive


def _no_database(self: RollUpWriter) -> bool:
    raise OperationalError("connection refused")


def _bug() -> None:
    raise AssertionError("a bug")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_ends_the_loop_instead_of_being_retried_for_ever() -> None:
    loop = Loop("broken", _bug, lambda: 0.0, threading.Event())
    loop.start()
    loop.join(5)
    assert not loop.is_alive()


def test_killed_and_started_again_the_command_counts_once_and_ends_cleanly_on_sigterm(
    valkey: ValkeyServer, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "TANDEM_DATA": str(tmp_path / "data"),
        "DATABASE_URL": f"sqlite:///{tmp_path}/tandem.sqlite3",
        "REDIS_URL": valkey.url,
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "migrate", "--verbosity", "0"], env=environment, check=True)
    for second in range(T, T + 20):
        publish(second)
    shown = names.CONSOLE_STREAM
    with (tmp_path / "log").open("ab") as log:
        for ending in (signal.SIGKILL, signal.SIGTERM):
            before = sync_client().xlen(shown)
            command = subprocess.Popen([*manage, "telemetry"], env=environment, stdout=log, stderr=log)
            try:
                wait_until(lambda before=before: sync_client().xlen(shown) > before)
                command.send_signal(ending)
                code = command.wait(timeout=15)
            finally:
                command.kill()
                command.wait()
    assert code == 0, (tmp_path / "log").read_text()
    assert _counted_in(tmp_path / "tandem.sqlite3") == 20
    assert seconds() == list(range(seconds()[0], seconds()[0] + len(seconds())))


def _counted_in(database: Path) -> int:
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT window FROM telemetry_rollup").fetchall()
    connection.close()
    return sum(codec.decode(text, Window).counters[Counter.RECEIVED] for (text,) in rows)
