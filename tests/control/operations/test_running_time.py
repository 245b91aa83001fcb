from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.operations.running_time import running_seconds

SEEN = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("later_s", "counted_s"),
    [
        pytest.param(5, 105, id="a sweep interval counts"),
        pytest.param(14, 114, id="a late sweep counts in full"),
        pytest.param(3600, 115, id="a clock that jumped ahead, or a pause, counts as a late sweep"),
        pytest.param(-3600, 100, id="a clock that went back counts nothing"),
    ],
)
def test_time_between_two_looks(later_s: float, counted_s: float) -> None:
    now = SEEN + timedelta(seconds=later_s)
    assert running_seconds(counted_s=100, seen_at=SEEN, now=now, most_s=15) == counted_s
