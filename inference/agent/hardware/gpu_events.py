"""The XID errors of the GPUs, as NVML's event set tells them. Asking never waits."""

from __future__ import annotations

from typing import Any

import structlog

from inference.agent.hardware.gpu_faults import FATAL_XIDS
from inference.agent.hardware.nvml import text

#: Events taken at one look; a card that floods can't hold up the report.
MOST_AT_ONCE = 100

log = structlog.get_logger()


class XidWatch:
    """Remembers by GPU (its NVML uuid) the last code and the first fatal one seen since the agent started."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._events: Any = None
        self._watched: set[str] = set()
        self._last: dict[str, int] = {}
        self._fatal: dict[str, int] = {}

    def watch(self, uuid: str, handle: Any) -> None:
        """Listen to one more GPU. A driver or card that has no such events is not asked again."""
        if uuid in self._watched:
            return
        self._watched.add(uuid)
        try:
            if self._events is None:
                self._events = self._nvml.nvmlEventSetCreate()
            self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)
        except self._nvml.NVMLError as error:
            log.info("GPU tells no XID errors", gpu=uuid, reason=str(error))

    def look(self) -> None:
        """Take the events that have happened."""
        if self._events is None:
            return
        for _ in range(MOST_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                uuid = text(self._nvml.nvmlDeviceGetUUID(event.device))
            except self._nvml.NVMLError:
                return  # nothing more (a timeout), or a card that can't be named any more: reading it tells the rest
            self._note(uuid, int(event.eventData))

    def last(self, uuid: str) -> int | None:
        return self._last.get(uuid)

    def fatal(self, uuid: str) -> int | None:
        return self._fatal.get(uuid)

    def _note(self, uuid: str, xid: int) -> None:
        log.warning("GPU error", gpu=uuid, xid=xid, fatal=xid in FATAL_XIDS)
        self._last[uuid] = xid
        if xid in FATAL_XIDS:
            self._fatal.setdefault(uuid, xid)
