"""Running one step from several threads at the same moment, each with a database connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def at_once(*steps: Callable[[], T], within_s: float = 30.0) -> list[T | Exception]:
    """What each step returned or raised. All start together; only for tests whose changes are really committed."""
    together = Barrier(len(steps), timeout=within_s)

    def run(step: Callable[[], T]) -> T | Exception:
        try:
            together.wait()
            return step()
        except Exception as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(steps)) as threads:
        return list(threads.map(run, steps, timeout=within_s))


class Meeting:
    """A place where two steps that run at once wait for each other, each with its locks; called by both. One goes on
    alone after `within_s`, since the other may well wait for its locks instead: that is the right order."""

    def __init__(self, within_s: float = 1.0) -> None:
        self._barrier = Barrier(2, timeout=within_s)

    def __call__(self) -> None:
        with suppress(BrokenBarrierError):
            self._barrier.wait()
