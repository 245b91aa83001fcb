"""Running one step from several threads at the same moment, each with a database connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
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
