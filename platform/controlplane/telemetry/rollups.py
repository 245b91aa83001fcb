"""Ten-second roll-ups in the database, for charts beyond the live ten minutes.

What is counted is known from the database alone: windows are read from the cursor stored there, and the cursor moves in
the transaction that writes the rows. So no window is counted twice, whatever is stopped when, and an outage of Redis or
of the database is caught up with as far back as the stream reaches.
"""

from __future__ import annotations

from collections.abc import Mapping

import redis
import structlog
from django.db import transaction

from controlplane.core import clock
from controlplane.telemetry import windows
from controlplane.telemetry.merge import Series, combine, roll_up
from controlplane.telemetry.models import RollUp, WindowCursor
from controlplane.telemetry.stream import BEGINNING, StreamId
from controlplane.telemetry.windows import REPEATED_WITHIN_S, Recent
from inference.contracts import codec
from inference.contracts.timings import Window

log = structlog.get_logger()

#: Windows of a step arrive up to so long after its end; reading in whole steps keeps the levels of a second together.
ARRIVAL_S = 3


class CursorMoved(Exception):
    """Somebody else moved the cursor meanwhile, so this batch is theirs. Only one telemetry process may run."""


class RollUpWriter:
    """Nothing it holds is lost with it: what arrived lately is read again from the stream."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._recent: Recent | None = None

    def write(self) -> bool:
        """Fold the next batch of windows into rows; whether there is more.

        Raises:
            redis.RedisError, django.db.DatabaseError: nothing was written; the next call does the same work.
            CursorMoved: nothing was written.
        """
        stored = WindowCursor.objects.filter(pk=WindowCursor.ONLY).values_list("position", flat=True).first()
        after = StreamId.parse(stored) if stored else BEGINNING
        recent = self._recent = self._recent or self._read_recent(after)
        batch = windows.read(self._client, after, self._read_until_ms())
        if batch.last == after:
            if windows.newest(self._client) < after:
                log.warning("Redis lost its data: windows are read from the beginning of the new stream", cursor=stored)
                _move_cursor(stored, BEGINNING)
            return False
        arrived = recent.new(batch.arrived)
        with transaction.atomic():
            _move_cursor(stored, batch.last)
            _merge_into_rows(roll_up(((each.position, each.window) for each in arrived), RollUp.STEP_S))
        recent.note(arrived)
        return batch.full

    def _read_recent(self, cursor: StreamId) -> Recent:
        """What is counted already and might come again."""
        recent = Recent()
        position, full = StreamId(max(0, cursor.ms - REPEATED_WITHIN_S * 1000), 0), True
        while full:
            batch = windows.read(self._client, position, cursor.ms + 1)
            recent.note([each for each in batch.arrived if each.position <= cursor])
            position, full = batch.last, batch.full
        return recent

    def _read_until_ms(self) -> int:
        """End of the last step that has arrived whole, in Redis time."""
        seconds, _ = self._client.time()
        return (int(seconds) - ARRIVAL_S) // RollUp.STEP_S * RollUp.STEP_S * 1000 + ARRIVAL_S * 1000


def delete_older_than(retention_s: float) -> int:
    """Rows deleted."""
    return RollUp.objects.filter(second__lt=int(clock.now().timestamp() - retention_s)).delete()[0]


def _move_cursor(seen: str | None, to: StreamId) -> None:
    if seen is None:
        _, moved = WindowCursor.objects.get_or_create(pk=WindowCursor.ONLY, defaults={"position": str(to)})
    else:
        moved = WindowCursor.objects.filter(pk=WindowCursor.ONLY, position=seen).update(position=str(to)) == 1
    if not moved:
        raise CursorMoved(f"the cursor of windows is no longer at {seen}")


def _merge_into_rows(steps: Mapping[tuple[Series, int], Window]) -> None:
    seconds = {second for _, second in steps}
    held = {
        (Series(row.deployment, row.pool_id, row.revision), row.second): row.window
        for row in RollUp.objects.filter(second__in=seconds)
    }
    RollUp.objects.bulk_create(
        [
            RollUp(
                deployment=series.deployment,
                pool_id=series.pool_id,
                revision=series.revision,
                second=second,
                window=codec.encode_text(_with_row(window, held.get((series, second)))),
            )
            for (series, second), window in steps.items()
        ],
        update_conflicts=True,
        unique_fields=["deployment", "pool_id", "revision", "second"],
        update_fields=["window"],
    )


def _with_row(window: Window, stored: str | None) -> Window:
    return window if stored is None else combine(codec.decode(stored, Window), window)
