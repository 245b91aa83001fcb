"""Whoever is free looks at all the deployments that are to be looked at, one after the other.

Plans take turns anyway. So requests that come while one is made wait in a list instead of holding a thread each, which
reports need; and however often a deployment is asked for meanwhile, it is looked at once more.

What people ask for is looked at at once. What reports ask for has to wait for as long as the last look took, so that
looking never takes more than half of the time that reports need too: when thousands of workers come up together, each
look sees what many reports said. In a small fleet a look takes milliseconds, and so does the pause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger()

#: No pause is longer, in seconds: one slow look (a database that was away) is no reason to look away.
PAUSE_MAX_S = 2.0


class Rounds:
    """look: reconciles one deployment. One of these per process, shared by the threads of its worker. What waits when
    the process dies is found by the sweep. clock: monotonic seconds."""

    def __init__(self, look: Callable[[int], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: dict[int, None] = {}
        self._at_once: dict[int, None] = {}
        self._resumes_at = clock()
        self._going = False

    def ask(self, deployment_id: int, *, news: bool = False) -> None:
        """Have the deployment looked at, by this thread or by the one that is at it already. news: because of what was
        reported, which may wait a little."""
        with self._changed:
            (self._waiting if news else self._at_once)[deployment_id] = None
            if self._going:
                self._changed.notify()
                return
            self._going = True
        self._go()

    def _go(self) -> None:
        try:
            while (deployment_id := self._next()) is not None:
                began = self._clock()
                try:
                    self._look(deployment_id)
                except Exception:
                    # One deployment's trouble must not keep the others from being looked at; the sweep tries again.
                    log.exception("deployment not reconciled", deployment=deployment_id)
                ended = self._clock()
                self._resumes_at = ended + min(ended - began, PAUSE_MAX_S)
        except BaseException:
            with self._changed:
                self._going = False
            raise

    def _next(self) -> int | None:
        """The one that has waited longest, once it may be looked at. None: from now on somebody else goes."""
        with self._changed:
            while self._waiting and not self._at_once and (pause_s := self._resumes_at - self._clock()) > 0:
                self._changed.wait(pause_s)
            deployment_id = next(iter(self._at_once or self._waiting), None)
            if deployment_id is None:
                self._going = False
            else:
                self._at_once.pop(deployment_id, None)
                self._waiting.pop(deployment_id, None)
            return deployment_id
