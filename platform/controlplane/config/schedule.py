"""When beat sends what is sent again and again."""

from __future__ import annotations

from datetime import datetime

from celery.schedules import schedstate, schedule


class Steady(schedule):  # type: ignore[misc]
    """Every so many seconds, whatever the clock does.

    Beat remembers when it last sent a task, over its own restarts too. When the clock goes back, that moment lies ahead
    and Celery would wait until it has come again: nothing would be swept for as long as the clock had been wrong.
    """

    def is_due(self, last_run_at: datetime) -> schedstate:
        """Whether it is time, and seconds until it is to be asked again."""
        found = super().is_due(last_run_at)
        # More than a whole interval left: the last time has not come yet.
        return schedstate(True, self.seconds) if found.next > self.seconds else found
