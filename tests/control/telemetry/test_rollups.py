"""Roll-ups in the database, from a real stream."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from django.db import DatabaseError

from controlplane.core.redis import sync_client
from controlplane.telemetry import rollups, windows
from controlplane.telemetry.models import RollUp, WindowCursor
from controlplane.telemetry.rollups import CursorMoved, RollUpWriter, delete_older_than
from controlplane.telemetry.selectors import revision_window
from inference.contracts import codec
from inference.contracts.timings import Counter, Gauge, Latency, Window
from inference.testing.valkey import ValkeyServer
from tests.control.telemetry.published import publish, put

pytestmark = [pytest.mark.django_db, pytest.mark.postgres, pytest.mark.usefixtures("live_redis")]

#: A whole minute some time ago, so that everything of it has arrived.
T = int(time.time()) // 60 * 60 - 600


def stored() -> dict[int, Window]:
    return {row.second: codec.decode(row.window, Window) for row in RollUp.objects.all()}


def received() -> int:
    return sum(window.counters[Counter.RECEIVED] for window in stored().values())


def write_all() -> None:
    """What a telemetry process writes that has just been started."""
    writer = RollUpWriter(sync_client())
    while writer.write():
        pass


def test_windows_become_one_row_per_ten_seconds_and_series() -> None:
    for second in range(T, T + 25):
        publish(second, in_flight=second - T)
    write_all()
    rows = stored()
    assert list(rows) == [T, T + 10, T + 20]
    assert [window.counters[Counter.RECEIVED] for window in rows.values()] == [10, 10, 5]
    assert [window.latencies[Latency.TTFT].total for window in rows.values()] == [10, 10, 5]
    assert [window.gauges[Gauge.IN_FLIGHT] for window in rows.values()] == [9, 19, 24]


def test_what_a_revision_did_is_read_back_merged_from_a_moment_on() -> None:
    for second, revision in ((T, 2), (T + 10, 2), (T + 20, 2), (T + 20, 3)):
        window = Window(second=second, source="router:a", deployment="chat", revision=revision)
        window.count(Counter.COMPLETED)
        window.observe(Latency.TTFT, 0.1)
        put(codec.encode(window), second * 1000)
    write_all()
    merged = revision_window("chat", 2, since=datetime.fromtimestamp(T + 10, UTC))

    assert merged.counters == {Counter.COMPLETED: 2}
    assert merged.latencies[Latency.TTFT].total == 2
    assert revision_window("chat", 4, since=datetime.fromtimestamp(T, UTC)).empty


def test_what_is_written_is_not_written_again() -> None:
    publish(T)
    write_all()
    write_all()
    assert received() == 1


def test_a_row_grows_when_more_of_its_step_arrives() -> None:
    publish(T)
    write_all()
    publish(T + 3)
    publish(T, arrival_ms=(T + 60) * 1000, source="router:slow")
    write_all()
    assert received() == 3
    assert RollUp.objects.count() == 1


def test_reading_in_small_batches_counts_each_window_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "BATCH", 7)
    for second in range(T, T + 50):
        publish(second)
    write_all()
    assert received() == 50


def test_a_window_that_was_sent_again_because_nobody_said_it_had_arrived_is_counted_once() -> None:
    publish(T)
    publish(T)
    publish(T + 1)
    write_all()
    assert received() == 2
    publish(T, arrival_ms=(T + 300) * 1000)
    write_all()
    writer = RollUpWriter(sync_client())
    publish(T + 310)
    writer.write()
    publish(T + 310, arrival_ms=(T + 330) * 1000)
    writer.write()
    assert received() == 3


def test_a_step_that_has_not_arrived_whole_is_left_for_later() -> None:
    publish(int(time.time()))
    write_all()
    assert not RollUp.objects.exists()


def test_after_a_database_error_half_way_nothing_is_written_and_the_next_try_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish(T)
    with monkeypatch.context() as broken:
        broken.setattr(RollUp.objects, "bulk_create", _raise_database_error)
        with pytest.raises(DatabaseError):
            write_all()
    assert not WindowCursor.objects.exists()
    write_all()
    assert received() == 1


def _raise_database_error(*args: object, **kwargs: object) -> None:
    raise DatabaseError("the disk is full")


def test_of_two_processes_that_read_the_same_windows_only_one_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    publish(T)
    write_all()
    publish(T + 1)
    read = windows.read

    def overtaken(*args: object, **kwargs: object) -> windows.Batch:
        batch = read(*args, **kwargs)  # type: ignore[arg-type]
        WindowCursor.objects.update(position=str(batch.last))
        return batch

    with monkeypatch.context() as racing:
        racing.setattr(rollups.windows, "read", overtaken)
        with pytest.raises(CursorMoved, match="no longer at"):
            write_all()
    assert received() == 1


def test_when_redis_lost_its_data_and_positions_went_back_the_new_stream_is_counted(valkey: ValkeyServer) -> None:
    publish(T + 30)
    write_all()
    valkey.stop()
    valkey.start(empty=True)
    publish(T)
    write_all()
    assert received() == 1  # the first look finds out
    write_all()
    assert received() == 2


def test_an_unreadable_entry_is_passed_over_and_those_behind_it_count() -> None:
    put(b"no json", T * 1000)
    put(b'{"second": 1}', T * 1000)
    publish(T)
    write_all()
    assert received() == 1
    put(b"no json", T * 1000 + 900)
    write_all()
    assert WindowCursor.objects.get().position == f"{T * 1000 + 900}-0"


def test_roll_ups_past_their_time_are_deleted() -> None:
    publish(T)
    publish(T + 300)
    write_all()
    assert delete_older_than(time.time() - T - 100) == 1
    assert list(stored()) == [T + 300]


def test_an_empty_redis_is_nothing_to_write() -> None:
    write_all()
    assert not RollUp.objects.exists()
    assert not WindowCursor.objects.exists()
