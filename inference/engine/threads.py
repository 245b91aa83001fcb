"""Keeps all parallel work of torch in one thread of the process.

torch starts a team of OpenMP threads for each thread that computes in parallel, and the team stays until that thread
ends. Once there are more OpenMP threads than cores, each of them goes to sleep after every operation instead of waiting
a moment for the next: on two cores a second team made each step of the engine half as long again. So whoever is not
the engine's thread computes with one thread, or in a thread that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Made = TypeVar("Made")


def in_passing_thread(work: Callable[[], Made]) -> Made:
    """What `work` returns, done in a thread that ends with it."""
    with ThreadPoolExecutor(1, thread_name_prefix="engine-start") as executor:
        return executor.submit(work).result()


@contextmanager
def one_thread() -> Iterator[None]:
    """torch computes with the calling thread alone in this context."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
