"""Whoever is free looks at all the deployments that are to be looked at, one after the other.

Plans take turns anyway. So requests that come while one is made wait in a list instead of holding a thread each, which
reports need; and however often a deployment is asked for meanwhile, it is looked at once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger()


class Rounds:
    """look: reconciles one deployment. One of these per process, shared by the threads of its worker. What waits when
    the process dies is found by the sweep."""

    def __init__(self, look: Callable[[int], object]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._waiting: dict[int, None] = {}
        self._going = False

    def ask(self, deployment_id: int) -> None:
        """Have the deployment looked at, now or by the thread that is at it already."""
        with self._lock:
            self._waiting[deployment_id] = None
            if self._going:
                return
            self._going = True
        self._go()

    def _go(self) -> None:
        try:
            while (deployment_id := self._next()) is not None:
                try:
                    self._look(deployment_id)
                except Exception:
                    # One deployment's trouble must not keep the others from being looked at; the sweep tries again.
                    log.exception("deployment not reconciled", deployment=deployment_id)
        except BaseException:
            with self._lock:
                self._going = False
            raise

    def _next(self) -> int | None:
        """The one that has waited longest. None: from now on somebody else goes."""
        with self._lock:
            deployment_id = next(iter(self._waiting), None)
            if deployment_id is None:
                self._going = False
            else:
                del self._waiting[deployment_id]
            return deployment_id
