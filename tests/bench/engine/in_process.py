"""Work in a process of its own, so that its threads and the cores it pins itself to are gone afterwards."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Made = TypeVar("Made")


def apart(work: Callable[..., Made], *arguments: Any, within_s: float) -> Made:
    """What `work` returns. TimeoutError when it takes longer; its process is ended then."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        started = executor.submit(work, *arguments)
        try:
            return started.result(within_s)
        except TimeoutError:
            for process in executor._processes.values():
                process.terminate()
            raise TimeoutError(f"{work.__name__} took longer than {within_s:g} s") from None
