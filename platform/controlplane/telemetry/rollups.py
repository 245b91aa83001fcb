"""Ten-second roll-ups in the database, for charts beyond the live ten minutes.

The writer holds nothing in memory: it reads the stream from the cursor stored in the database and moves the cursor in
the transaction that writes the rows. So no window is counted twice, whatever is stopped when, and an outage of Redis
or of the database is caught up with as far back as the stream reaches.
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
from inference.contracts import codec
from inference.contracts.timings import Window

log = structlog.get_logger()

#: Windows of a step arrive up to so long after its end; reading in whole steps keeps the levels of a second together.
ARRIVAL_S = 3


class CursorMoved(Exception):
    """Somebody else moved the cursor meanwhile, so this batch is theirs. Only one telemetry process may run."""


def write_roll_ups(client: redis.Redis) -> bool:
    """Fold the next batch of windows into rows; whether there is more.

    Raises:
        redis.RedisError, django.db.DatabaseError: nothing was written; the next call does the same work.
        CursorMoved: nothing was written.
    """
    stored = WindowCursor.objects.filter(pk=WindowCursor.ONLY).values_list("position", flat=True).first()
    after = StreamId.parse(stored) if stored else BEGINNING
    batch = windows.read(client, after, _read_until_ms(client))
    if batch.last == after:
        if windows.newest(client) < after:
            log.warning("Redis lost its data: windows are read from the beginning of the new stream", cursor=str(after))
            _move_cursor(stored, BEGINNING)
        return False
    with transaction.atomic():
        _move_cursor(stored, batch.last)
        _merge_into_rows(roll_up(batch.windows, RollUp.STEP_S))
    return batch.full


def delete_older_than(retention_s: float) -> int:
    """Rows deleted."""
    return RollUp.objects.filter(second__lt=int(clock.now().timestamp() - retention_s)).delete()[0]


def _read_until_ms(client: redis.Redis) -> int:
    """End of the last step that has arrived whole, in Redis time."""
    seconds, _ = client.time()
    return (int(seconds) - ARRIVAL_S) // RollUp.STEP_S * RollUp.STEP_S * 1000 + ARRIVAL_S * 1000


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
        (Series(row.deployment, row.pool_id), row.second): row.window
        for row in RollUp.objects.filter(second__in=seconds)
    }
    RollUp.objects.bulk_create(
        [
            RollUp(
                deployment=series.deployment,
                pool_id=series.pool_id,
                second=second,
                window=codec.encode_text(_with_row(window, held.get((series, second)))),
            )
            for (series, second), window in steps.items()
        ],
        update_conflicts=True,
        unique_fields=["deployment", "pool_id", "second"],
        update_fields=["window"],
    )


def _with_row(window: Window, stored: str | None) -> Window:
    return window if stored is None else combine(codec.decode(stored, Window), window)
