"""What the periodic sweep does for access: nothing here is urgent, all of it may be done twice."""

from __future__ import annotations

from datetime import datetime

from controlplane.access.key_use import key_use_collect
from controlplane.access.lockout import failures_forget
from controlplane.access.services import key_table_refresh
from controlplane.access.sessions import sessions_forget


def access_sweep(*, now: datetime) -> None:
    key_table_refresh()
    key_use_collect(now=now)
    failures_forget(now=now)
    sessions_forget(now=now)
